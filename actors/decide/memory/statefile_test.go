package memory

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

// Written by the kubelet's own code (v1.36.3).
const (
	kubeletEmpty = `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"hugepages-2Mi":{"total":41943040,"systemReserved":0,"allocatable":41943040,"reserved":0,"free":41943040},"memory":{"total":1073741824,"systemReserved":104857600,"allocatable":926941184,"reserved":0,"free":926941184}},"cells":[0]},"1":{"numberOfAssignments":0,"memoryMap":{"hugepages-2Mi":{"total":41943040,"systemReserved":0,"allocatable":41943040,"reserved":0,"free":41943040},"memory":{"total":1073741824,"systemReserved":0,"allocatable":1031798784,"reserved":0,"free":1031798784}},"cells":[1]}},"checksum":3839082742}`
	kubeletTwo   = `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"hugepages-2Mi":{"total":41943040,"systemReserved":0,"allocatable":41943040,"reserved":0,"free":41943040},"memory":{"total":1073741824,"systemReserved":104857600,"allocatable":926941184,"reserved":104857600,"free":822083584}},"cells":[0]},"1":{"numberOfAssignments":2,"memoryMap":{"hugepages-2Mi":{"total":41943040,"systemReserved":0,"allocatable":41943040,"reserved":0,"free":41943040},"memory":{"total":1073741824,"systemReserved":0,"allocatable":1031798784,"reserved":209715200,"free":822083584}},"cells":[1]}},"entries":{"a":{"x":[{"numaAffinity":[0],"type":"memory","size":104857600}]},"b":{"c1":[{"numaAffinity":[1],"type":"memory","size":209715200}],"c2":[{"numaAffinity":[1],"type":"memory","size":0}]}},"checksum":2619615954}`
)

const mi = 1 << 20

// rules are those of a machine with two nodes of 1 GiB, of which 40 MiB are in huge pages.
func rules(t *testing.T) *Rules {
	t.Helper()
	reserved := v1.ResourceList{v1.ResourceMemory: resource.MustParse("100Mi")}
	pages := map[uint64]uint64{2 * mi: 20}
	r := check.Value(New(Config{
		Machine: &topology.Machine{Nodes: []topology.Node{
			{ID: 0, Memory: 1024 * mi, HugePages: pages}, {ID: 1, Memory: 1024 * mi, HugePages: pages},
		}},
		Policy:   kubelet.StaticMemoryManagerPolicy,
		Reserved: []kubelet.MemoryReservation{{NumaNode: 0, Limits: reserved}}, Reservation: reserved,
	}))(t)
	return r
}

func blocks(node int, size uint64) []Block {
	return []Block{{Nodes: topology.NodesOf(node), Type: v1.ResourceMemory, Size: size}}
}

func TestKubeletsFiles(t *testing.T) {
	r := rules(t)
	for _, c := range []struct {
		name, file string
		own        State
	}{
		{"empty", kubeletEmpty, State{}},
		{"a pod without memory of its own is left out", kubeletEmpty, State{"a": {}}},
		{"two pods", kubeletTwo, State{
			"a": {"x": blocks(0, 100*mi)}, "b": {"c1": blocks(1, 200*mi), "c2": blocks(1, 0)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Equal(t, string(check.Value(Format(r, c.own))(t)), c.file, "Format")
			s := check.Value(Parse([]byte(c.file)))(t)
			check.Error(t, check.Err(r.Count(s.Own)))
			check.Equal(t, string(check.Value(Format(r, s.Own))(t)), c.file, "parsed and formatted")
		})
	}
}

// TestNone: what the kubelet's own code writes (v1.36.3).
func TestNone(t *testing.T) {
	const want = `{"policyName":"None","machineState":{},"checksum":4236770233}`
	data := check.Value(FormatNone())(t)
	check.Equal(t, string(data), want, "the file")
	check.Equal(t, check.Value(Parse(data))(t).Policy, "None", "the policy")
}

func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{``, "unexpected end"},
		{`[]`, "cannot unmarshal"},
		{`{}`, "does not name a policy"},
		{strings.Replace(kubeletTwo, `"size":104857600`, `"size":104857601`, 1), "checksum"},
		{`{"policyName":"Static","entries":{"a":{"x":[{"numaAffinity":[64],"type":"memory"}]}}}`, "entries[a][x][0]: numaAffinity"},
		{`{"policyName":"Static","entries":{"a":{"x":[{"numaAffinity":[0,0],"type":"memory"}]}}}`, "entries[a][x][0]: numaAffinity"},
		{`{"policyName":"Static","entries":{"a":{"x":[{"numaAffinity":[0],"type":"cpu"}]}}}`, "entries[a][x][0]: type"},
		{`{"policyName":"Static","entries":{"a":{"x":[{"numaAffinity":[0],"type":"memory","size":9223372036854775808}]}}}`, "entries[a][x][0]: size"},
		{`{"policyName":"Static","podEntries":{"a":{}}}`, "podEntries"},
	} {
		check.Says(t, check.Err(Parse([]byte(c.file))), c.want, "%s", c.file)
	}
}

// FuzzParse: no file is fatal, and one that can be read and fits the machine can be written.
func FuzzParse(f *testing.F) {
	f.Add(kubeletEmpty)
	f.Add(kubeletTwo)
	f.Add(`{"policyName":"Static","entries":{"a":{"x":[{"numaAffinity":[0,1],"type":"memory","size":5}]}}}`)
	f.Fuzz(func(t *testing.T, data string) {
		s, err := Parse([]byte(data))
		if err != nil {
			return
		}
		r := rules(t)
		if _, err := r.Count(s.Own); err != nil {
			return
		}
		if _, err := Format(r, s.Own); err != nil {
			t.Errorf("it fits, and can't be written: %v", err)
		}
	})
}
