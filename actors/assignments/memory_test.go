package assignments_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// withMemory gives containers memory of their own, on a machine with two NUMA nodes of 1000 bytes, of which 100 of the
// first are reserved.
func withMemory(r *rig) { r.memory = memoryOf(r, 1000, 1000) }

// memoryOf are the rules of such a machine, whose nodes have so much.
func memoryOf(r *rig, first, second uint64) *memory.Rules {
	reserved := v1.ResourceList{v1.ResourceMemory: resource.MustParse("100")}
	rules, err := memory.New(memory.Config{
		Machine: &topology.Machine{Nodes: []topology.Node{{ID: 0, Memory: first}, {ID: 1, Memory: second}}},
		Policy:  kubelet.StaticMemoryManagerPolicy, Reservation: reserved,
		Reserved: []kubelet.MemoryReservation{{Limits: reserved}},
	})
	r.Must(err)
	return rules
}

// asksMemory is a Guaranteed pod with a container of so much memory.
func asksMemory(uid types.UID, size string) assignments.Place {
	m := asks(uid, "500m")
	m.Pod.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse(size)
	return m
}

func own(node int, size uint64) map[string][]memory.Block {
	return map[string][]memory.Block{"c": {{Nodes: topology.NodesOf(node), Type: v1.ResourceMemory, Size: size}}}
}

// TestMemoryIsWrittenBeforeAPodIsTold: what is given, refused, released and asked for again.
func TestMemoryIsWrittenBeforeAPodIsTold(t *testing.T) {
	r := newRig(t, withMemory)
	r.disk()
	r.want("the first", "file: 0 pods, shared 0-3", "file of memory: 0 pods", "pods: ; shared 0-3")
	r.tells(asksMemory("a", "800"))
	r.want("it is not written yet")
	r.disk()
	r.want("written", "file of memory: 1 pods", "pods: a c memory of 0; shared 0-3")
	r.tells(asksMemory("b", "800"))
	r.disk()
	r.want("of the other node", "file of memory: 2 pods", "pods: b c memory of 1; shared 0-3")
	r.tells(asksMemory("c", "300"))
	r.want("too much", "pods: c UnexpectedAdmissionError; shared 0-3")
	r.tells(asksMemory("a", "800"))
	r.want("asked again", "pods: a c memory of 0; shared 0-3")
	r.tells(assignments.Release{UID: "a"})
	r.disk()
	r.want("it is free", "file of memory: 1 pods", "pods: ; shared 0-3")
	r.tells(asksMemory("c", "300"))
	r.disk()
	r.want("for another", "file of memory: 2 pods", "pods: c c memory of 0; shared 0-3")
}

// TestAnotherPolicy: files of other policies, in which nobody has anything, name this one from now on.
func TestAnotherPolicy(t *testing.T) {
	r := newRig(t, withMemory, func(r *rig) {
		r.file = (&cpus.File{Policy: cpus.None}).Format()
		r.memoryFile = check.Value(memory.FormatNone())(t)
	})
	r.disk()
	r.want("both are written", "file: 0 pods, shared 0-3", "file of memory: 0 pods", "pods: ; shared 0-3")
	own, inMemory := check.Value(cpus.Parse(r.file))(t), check.Value(memory.Parse(r.memoryFile))(t)
	check.Equal(t, own.Policy+" "+inMemory.Policy, "static Static", "the policies are")
}

// TestMemoryAfterRestart: what pods had is theirs, that of pods that are gone is free, and a file that can't be written
// is written later.
func TestMemoryAfterRestart(t *testing.T) {
	r := newRig(t, withMemory, func(r *rig) {
		data, err := memory.Format(r.memory, memory.State{"a": own(1, 500), "gone": own(0, 900)})
		r.Must(err)
		r.memoryFile = data
	})
	r.disk()
	r.Forget()
	r.tells(asksMemory("a", "500"))
	r.want("as before", "pods: a c memory of 1; shared 0-3")
	r.err = errors.New("disk full")
	r.tells(assignments.Living{Pods: map[types.UID]bool{"a": true}}, asksMemory("b", "700"))
	r.disk()
	r.want("b waits")
	r.err = nil
	r.Advance(5 * time.Second)
	r.disk()
	r.want("written later", "file of memory: 2 pods", "pods: b c memory of 0; shared 0-3")
}

func TestReadMemory(t *testing.T) {
	r := &rig{Rig: actortest.New(t)}
	withMemory(r)
	format := func(s memory.State) []byte {
		return check.Value(memory.Format(r.memory, s))(t)
	}
	// The nodes had other memory when the file was written, as the kernel lay elsewhere.
	another := memoryOf(r, 990, 1010)
	ofAnother := func(size uint64) []byte {
		return check.Value(memory.Format(another, memory.State{"a": own(1, size)}))(t)
	}
	other := `{"policyName":"None","machineState":{},"entries":{"a":{"c":[{"numaAffinity":[0],"type":"memory","size":1}]}}}`
	for _, c := range []struct {
		name string
		data []byte
		pods int
		want string
	}{
		{"none", nil, 0, ""},
		{"ours", format(memory.State{"a": own(1, 500)}), 1, ""},
		{"of policy None", []byte(`{"policyName":"None","machineState":{}}`), 0, ""},
		{"of policy None with pods", []byte(other), 0, "memoryManagerPolicy"},
		{"damaged", []byte("{"), 0, "unexpected end"},
		{"of another boot", ofAnother(500), 1, ""},
		{"of another boot, with more than there is", ofAnother(1005), 0, "1005 of memory on the NUMA nodes 1 are more than there is"},
	} {
		got, err := assignments.ReadMemory(r.memory, c.data)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
		if err == nil && len(got) != c.pods {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
