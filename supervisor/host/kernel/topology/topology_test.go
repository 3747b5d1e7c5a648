package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

// shape is what a test expects of a whole machine.
type shape struct{ cpus, cores, caches, sockets, nodes int }

func shapeOf(t *topology.Machine) shape {
	cores, caches, sockets := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, c := range t.CPUs {
		cores[c.Core], caches[c.Cache], sockets[c.Socket] = true, true, true
	}
	return shape{len(t.CPUs), len(cores), len(caches), len(sockets), len(t.Nodes)}
}

func TestShapes(t *testing.T) {
	two := build{sockets: 2, nodesPerSocket: 1, coresPerNode: 4, threads: 2}
	for _, c := range []struct {
		name   string
		b      build
		change func(*build)
		want   shape
	}{
		{"2 sockets", two, nil, shape{16, 8, 2, 2, 2}},
		{"8 sockets", two, func(b *build) { b.sockets = 8 }, shape{64, 32, 8, 8, 8}},
		{"nodes in sockets", two, func(b *build) { b.nodesPerSocket = 2 }, shape{32, 16, 4, 2, 4}},
		{"SMT off", two, func(b *build) { b.threads = 1 }, shape{8, 8, 2, 2, 2}},
		{"split caches", two, func(b *build) { b.coresPerCache = 2 }, shape{16, 8, 4, 2, 2}},
		{"offline threads", two, func(b *build) { b.offline = []int{3, 8, 15} }, shape{13, 8, 2, 2, 2}},
		{"uneven nodes", two, func(b *build) { b.uneven = 3 }, shape{13, 8, 2, 2, 2}},
		{"a whole node is offline", two, func(b *build) { b.offline = []int{0, 1, 2, 3, 8, 9, 10, 11} }, shape{8, 4, 1, 1, 2}},
		{"far memory", two, func(b *build) { b.farMemory = 1 }, shape{16, 8, 2, 2, 3}},
		{"no nodes", two, func(b *build) { b.change = map[string]string{nodeDir: ""} }, shape{16, 8, 2, 2, 1}},
		{"no caches of 4 CPUs", two, func(b *build) {
			b.nodesPerSocket, b.change = 2, map[string]string{}
			for id := range 32 {
				b.change[fmt.Sprintf("%s/cpu%d/cache", cpuDir, id)] = ""
			}
		}, shape{32, 16, 2, 2, 4}},
		{"no topology", two, func(b *build) {
			b.change = map[string]string{}
			for id := range 16 {
				b.change[fmt.Sprintf("%s/cpu%d/topology", cpuDir, id)] = ""
			}
		}, shape{16, 16, 2, 1, 2}},
		{"negative numbers", two, func(b *build) {
			b.change = map[string]string{cpuDir + "/cpu0/topology/core_id": "-1\n", cpuDir + "/cpu9/topology/die_id": "-1\n"}
		}, shape{16, 9, 2, 2, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != nil {
				c.change(&c.b)
			}
			got := check.Value(Read(c.b.write(t)))(t)
			check.Equal(t, shapeOf(got), c.want, "it")
			wantSound(t, got)
		})
	}
}

// wantSound holds what the docs of the value promise.
func wantSound(t *testing.T, m *topology.Machine) {
	t.Helper()
	for i, c := range m.CPUs {
		if i > 0 && m.CPUs[i-1].ID >= c.ID {
			t.Errorf("CPU %d is after %d", c.ID, m.CPUs[i-1].ID)
		}
		if _, ok := m.Node(c.Node); !ok {
			t.Errorf("CPU %d is in node %d, which does not exist", c.ID, c.Node)
		}
		for _, of := range []int{c.Core, c.Cache} {
			if first, ok := m.CPU(of); !ok || of > c.ID || first.Core != first.ID && of == c.Core {
				t.Errorf("CPU %+v names %d", c, of)
			}
		}
	}
	for i, n := range m.Nodes {
		if i > 0 && m.Nodes[i-1].ID >= n.ID || len(n.Distances) != len(m.Nodes) {
			t.Errorf("node %+v", n)
		}
	}
}

func TestWhole(t *testing.T) {
	got := check.Value(Read(build{sockets: 1, nodesPerSocket: 1, coresPerNode: 1, threads: 2, farMemory: 1}.write(t)))(t)
	want := &topology.Machine{
		CPUs: []topology.CPU{{ID: 0}, {ID: 1}},
		Nodes: []topology.Node{
			{ID: 0, Memory: 1 << 30, HugePages: map[uint64]uint64{2 << 20: 0}, Distances: []int{10, 21}},
			{ID: 1, Memory: 2 << 30, HugePages: map[uint64]uint64{2 << 20: 3}, Distances: []int{21, 10}},
		},
	}
	check.Deep(t, got, want, "it")
}

func TestMissing(t *testing.T) {
	b := build{sockets: 2, nodesPerSocket: 1, coresPerNode: 2, threads: 1, change: map[string]string{
		nodeDir + "/node1/meminfo": "", nodeDir + "/node1/distance": "", nodeDir + "/node1/hugepages": "",
	}}
	got, err := Read(b.write(t))
	if err != nil {
		t.Fatal(err)
	}
	check.Deep(t, got.Nodes[1], (topology.Node{ID: 1, Distances: []int{20, 10}}), "it")
	b.change = map[string]string{nodeDir: ""}
	if got, err = Read(b.write(t)); err != nil || len(got.Nodes) != 1 || got.Nodes[0].Memory != 8<<30 {
		t.Errorf("without nodes: %+v, %v", got, err)
	}
}

// TestErrors: what is wrong is an error that names the file.
func TestErrors(t *testing.T) {
	for file, texts := range map[string][]string{
		cpuDir + "/online":                                         {"", "\n", "x", "0-", "3-1", "0,0", "0-4000000000", "-1", "0-1,70000"},
		nodeDir + "/online":                                        {"", "x", "0-1,5"},
		nodeDir + "/node1/cpulist":                                 {"", "x", "0-3", "2"},
		nodeDir + "/node0/meminfo":                                 {"x", "Node 0 MemTotal: many kB", "Node 0 MemTotal: 18446744073709551615 kB"},
		nodeDir + "/node0/distance":                                {"10", "10 x", "10 -1", "10 21 21"},
		cpuDir + "/cpu1/topology/core_id":                          {"x", "99999999999"},
		cpuDir + "/cpu1/cache/index3/level":                        {"", "x"},
		cpuDir + "/cpu1/cache/index3/shared_cpu_list":              {"x", "2-3", "\n"},
		nodeDir + "/node0/hugepages/hugepages-2048kB/nr_hugepages": {"", "-1", "x"},
		nodeDir + "/node0/hugepages/hugepages-xkB/nr_hugepages":    {"1"},
	} {
		for _, text := range texts {
			b := build{sockets: 2, nodesPerSocket: 1, coresPerNode: 2, threads: 1, change: map[string]string{file: text}}
			root := b.write(t)
			if text == "" && strings.HasSuffix(filepath.Dir(file), "kB") {
				check.Fatal(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755))
			}
			got, err := Read(root)
			if err == nil {
				t.Errorf("%s: %q: no error, %+v", file, text, got)
			} else if !strings.Contains(err.Error(), root) {
				t.Errorf("%s: %q: %v: names no file", file, text, err)
			}
		}
	}
	check.Fails(t, check.Err(Possible(t.TempDir())), "no file, and no error")
}

func TestPossible(t *testing.T) {
	root := build{sockets: 1, nodesPerSocket: 1, coresPerNode: 8, threads: 1, offline: []int{6, 7}}.write(t)
	check.Equal(t, check.Value(Possible(root))(t), 8, "it")
	check.Fatal(t, os.Remove(filepath.Join(root, cpuDir, "possible")))
	check.Equal(t, check.Value(Possible(root))(t), 6, "without the file")
	check.Equal(t, check.Value(Online(root))(t).String(), "0-5", "it")
}

// FuzzFiles: whatever one of the files says, there is an error or a sound machine.
func FuzzFiles(f *testing.F) {
	b := build{sockets: 2, nodesPerSocket: 1, coresPerNode: 1, threads: 2}
	var names []string
	for name, text := range b.files() {
		names = append(names, name)
		f.Add(name, text)
	}
	f.Add(cpuDir+"/online", "0-4000000000")
	f.Add(nodeDir+"/node0/distance", "10 21 99999999999999999999")
	f.Add(nodeDir+"/online", "0-65535")
	f.Fuzz(func(t *testing.T, name, text string) {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if !known || text == "" {
			t.Skip()
		}
		b := b
		b.change = map[string]string{name: text}
		root := b.write(t)
		if m, err := Read(root); err == nil {
			wantSound(t, m)
		}
		if n, err := Possible(root); err == nil && n < 1 {
			t.Errorf("%d CPUs are possible", n)
		}
	})
}

// TestThisMachine reads the machine that the tests run on.
func TestThisMachine(t *testing.T) {
	m := check.Value(Read("/"))(t)
	wantSound(t, m)
	online, err := Online("/")
	if err != nil || !m.All().Equals(online) {
		t.Errorf("read %s, online are %s: %v", m.All(), online, err)
	}
	if n, err := Possible("/"); err != nil || n < online.Size() {
		t.Errorf("%d possible for %s: %v", n, online, err)
	}
	memory := uint64(0)
	for _, n := range m.Nodes {
		memory += n.Memory
	}
	if memory == 0 {
		t.Errorf("no memory: %+v", m.Nodes)
	}
	t.Logf("%+v: %+v", shapeOf(m), m)
}
