package assignments_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// rig is the actor alone on a virtual clock, on a machine with four CPUs, of which the system has one. The rig plays pods
// and the disk, which answers when the test says so.
type rig struct {
	*actortest.Rig
	actor  *actortest.Actor[assignments.Message]
	plugin *plugin // nil for none
	// quiet: answers without pods are not said.
	quiet bool
	// standalone is Deps.Standalone.
	standalone   bool
	loads, saves *actortest.Answers
	file         []byte
	err          error
	// memory is nil if no container has memory of its own; memoryFile is its state file.
	memory     *memory.Rules
	memoryFile []byte
	// health is how the devices of pods are, and version that, of the last answer.
	health  map[types.UID]devicestate.Health
	version uint64
	// rules is changed before the start. counts is told what was decided, nil for nobody.
	rules  cpus.Config
	counts assignments.Counts
}

func newRig(t actortest.TB, change ...func(*rig)) *rig {
	t.Helper()
	m := &topology.Machine{Nodes: []topology.Node{{}}}
	for id := range 4 {
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: id})
	}
	r := &rig{Rig: actortest.New(t), rules: cpus.Config{
		Machine: m, Static: true, ReservedMilli: 100, Topology: kubelet.NoneTopologyManagerPolicy,
	}}
	r.loads, r.saves = r.NewAnswers(), r.NewAnswers()
	r.loads.Silent, r.saves.Silent = true, true
	for _, c := range change {
		c(r)
	}
	rules, err := cpus.New(r.rules)
	r.Must(err)
	deps := &assignments.Deps{
		Rules: rules, Memory: r.memory, Files: r, Answer: r.answer, Restarted: func() { r.Say("pods: ask again") },
		Health: true, Counts: r.counts, Standalone: r.standalone,
	}
	if r.plugin != nil {
		deps.Plugins, deps.DeviceFiles = r.plugin, r.plugin
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[assignments.Message]{
		Name: "assignments", MailboxLimit: 8, Policy: kernel.ForPods, New: assignments.New(deps),
	})
	r.Advance(time.Millisecond)
	return r
}

func (r *rig) answer(a assignments.Answer) {
	r.health, r.version = a.Health, a.Version
	if r.quiet && len(a.Pods) == 0 {
		return
	}
	var out []string
	for _, p := range a.Pods {
		text := string(p.UID)
		for _, name := range slices.Sorted(maps.Keys(p.Own)) {
			text += fmt.Sprintf(" %s %s", name, p.Own[name])
		}
		for _, name := range slices.Sorted(maps.Keys(p.Memory)) {
			text += fmt.Sprintf(" %s memory of %s", name, memory.Mems(memory.NodesOf(p.Memory[name])))
		}
		for _, name := range slices.Sorted(maps.Keys(p.Devices)) {
			text += " " + name + " devices"
		}
		for _, name := range slices.Sorted(maps.Keys(p.Unknown)) {
			text += " " + name + " unknown"
		}
		if p.Leaves {
			text += " and leaves others"
		}
		if p.Rejected != nil {
			text += " " + p.Rejected.Reason
		}
		if p.Refused != nil {
			text += fmt.Sprintf(" refused, never %t", p.Refused.Never)
		}
		out = append(out, text)
	}
	r.Say("pods: %s; shared %s", strings.Join(out, ", "), a.Shared)
}

// Load implements port.Checkpoints.
func (r *rig) Load(_ context.Context, name string, done func([]byte, error)) {
	r.loads.Give(func() {
		if name == memory.FileName {
			done(r.memoryFile, r.err)
			return
		}
		done(r.file, r.err)
	})
}

// Save implements port.Checkpoints.
func (r *rig) Save(_ context.Context, name string, data []byte, done func(error)) {
	r.saves.Give(func() {
		if r.err == nil && name == memory.FileName {
			r.memoryFile = data
			s, err := memory.Parse(data)
			r.Must(err)
			r.Say("file of memory: %d pods", len(s.Own))
		} else if r.err == nil {
			r.file = data
			s, err := cpus.Parse(data)
			r.Must(err)
			if r.plugin == nil {
				r.Say("file: %d pods, shared %s", len(s.Own), s.Shared)
			}
		}
		done(r.err)
	})
}

// SetAside implements port.Checkpoints: this actor never does.
func (r *rig) SetAside(context.Context, string, func(string, error)) {
	r.T.Errorf("the state file was set aside: running containers have what it says")
}

// disk lets the disk answer everything.
func (r *rig) disk() {
	for r.loads.Kept()+r.saves.Kept() > 0 {
		from := r.loads
		if from.Kept() == 0 {
			from = r.saves
		}
		from.Release(0)
		r.Advance(time.Millisecond)
	}
}

func (r *rig) tells(all ...assignments.Message) {
	for _, m := range all {
		r.actor.Tell(m)
		r.Advance(time.Millisecond)
	}
}

// asks is a Guaranteed pod with a container of so many CPUs.
func asks(uid types.UID, cpu string) assignments.Place {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid}}
	all := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Mi")}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: all, Limits: all}}}
	return assignments.Place{Pod: p}
}

func (r *rig) want(what string, want ...string) {
	r.T.Helper()
	r.Settle()
	r.WantByListener(what, want...)
}

func TestCPUsAreWrittenBeforeAPodIsTold(t *testing.T) {
	r := newRig(t)
	r.tells(asks("a", "1"))
	r.want("the file is not read yet")
	r.loads.Release(0)
	r.Advance(time.Millisecond)
	r.want("it is not written yet")
	r.tells(asks("b", "500m"))
	r.want("b has none of its own: it need not wait", "pods: b; shared 0,2-3")
	r.disk()
	r.want("written", "file: 1 pods, shared 0,2-3", "pods: a c 1; shared 0,2-3")
	r.tells(asks("a", "1"))
	r.want("asked again", "pods: a c 1; shared 0,2-3")
	r.tells(asks("c", "3"))
	r.want("too many", "pods: c UnexpectedAdmissionError; shared 0,2-3")
	r.tells(assignments.Release{UID: "a"}, assignments.Release{UID: "a"}, assignments.Release{UID: "nobody"})
	r.disk()
	r.want("others may use them", "file: 0 pods, shared 0-3", "pods: ; shared 0-3")
}

// TestOneWriteForMany: what comes during a write is in the next.
func TestOneWriteForMany(t *testing.T) {
	r := newRig(t)
	r.disk()
	r.want("the first", "file: 0 pods, shared 0-3", "pods: ; shared 0-3")
	r.tells(asks("a", "1"), asks("b", "1"), asks("a", "1"), asks("c", "1"))
	r.want("nothing is written")
	r.disk()
	r.want("two writes", "file: 1 pods, shared 0,2-3", "pods: a c 1, a c 1; shared 0", "file: 3 pods, shared 0", "pods: b c 2, c c 3; shared 0")
}

func TestAWriteFails(t *testing.T) {
	r := newRig(t)
	r.disk()
	r.Forget()
	r.tells(asks("a", "1"))
	r.err = errors.New("disk full")
	r.disk()
	r.want("a waits")
	r.err = nil
	r.tells(asks("b", "1"))
	r.Advance(5 * time.Second)
	r.disk()
	r.want("written later", "file: 2 pods, shared 0,3", "pods: a c 1, b c 2; shared 0,3")
}

// TestAReadFails: pods wait, and nothing is written over what may be there.
func TestAReadFails(t *testing.T) {
	r := newRig(t, func(r *rig) { r.err = errors.New("input/output error") })
	r.tells(asks("a", "1"), assignments.Living{Pods: map[types.UID]bool{}})
	r.disk()
	r.want("a waits")
	r.err = nil
	r.file = (&cpus.File{Policy: "static", Shared: cpuset.New(0, 1, 3), Own: cpus.State{"old": {"c": cpuset.New(2)}}}).Format()
	r.Advance(5 * time.Second)
	r.disk()
	r.want("read later", "file: 1 pods, shared 0,2-3", "pods: a c 1; shared 0,2-3")
}

// TestCrash: a new incarnation has what was written, and pods ask again.
func TestCrash(t *testing.T) {
	r := newRig(t)
	r.disk()
	r.tells(asks("a", "1"))
	r.disk()
	r.tells(asks("b", "1")) // not written
	r.Forget()
	r.actor.Crash()
	r.tells(assignments.Release{UID: "nobody"})
	r.Advance(time.Minute)
	r.want("it asks", "pods: ask again")
	r.tells(assignments.Living{Pods: map[types.UID]bool{"a": true}}, asks("b", "1"))
	r.disk()
	got := string(r.file)
	check.Has(t, got, `"a":{"c":"1"},"b":{"c":"2"}`, "the file")
}

// TestPodsThatAreGone give back what they have.
func TestPodsThatAreGone(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.file = (&cpus.File{Policy: "static", Shared: cpuset.New(0, 3), Own: cpus.State{
			"a": {"c": cpuset.New(1)}, "b": {"c": cpuset.New(2)},
		}}).Format()
	})
	r.tells(assignments.Living{Pods: map[types.UID]bool{"b": true, "a": false}})
	r.disk()
	r.want("a's is free", "file: 1 pods, shared 0-1,3", "pods: ; shared 0-1,3")
}

// TestReleasedBeforeTheFileIsRead: pods that end, or no longer ask, while the disk is slow.
func TestReleasedBeforeTheFileIsRead(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.file = (&cpus.File{Policy: "static", Shared: cpuset.New(0, 2, 3), Own: cpus.State{"a": {"c": cpuset.New(1)}}}).Format()
	})
	r.tells(asks("b", "1"), assignments.Release{UID: "b"}, assignments.Release{UID: "a"}, asks("c", "1"))
	r.disk()
	r.want("only c has one", "file: 1 pods, shared 0,2-3", "pods: c c 1; shared 0,2-3")
}

func TestRead(t *testing.T) {
	m := &topology.Machine{Nodes: []topology.Node{{}}, CPUs: []topology.CPU{{ID: 0}, {ID: 1, Core: 1}}}
	rules, err := cpus.New(cpus.Config{Machine: m, Static: true, ReservedMilli: 100, Topology: kubelet.NoneTopologyManagerPolicy})
	if err != nil {
		t.Fatal(err)
	}
	own := cpus.State{"a": {"c": cpuset.New(1)}}
	for _, c := range []struct {
		name string
		data []byte
		pods int
		want string
	}{
		{"none", nil, 0, ""},
		{"ours", (&cpus.File{Policy: "static", Shared: cpuset.New(0), Own: own}).Format(), 1, ""},
		{"of policy none", (&cpus.File{Policy: "none"}).Format(), 0, ""},
		{"of policy none with pods", (&cpus.File{Policy: "none", Own: own}).Format(), 0, "cpuManagerPolicy"},
		{"damaged", []byte("{"), 0, "unexpected end"},
		{"of another machine", (&cpus.File{Policy: "static", Shared: cpuset.New(0, 5), Own: own}).Format(), 0, "other CPUs"},
	} {
		got, err := assignments.Read(rules, c.data)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
		if err == nil && len(got) != c.pods {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
