// Package topology reads from /sys how this machine is built: its CPUs, their cores, caches and sockets, and its NUMA
// nodes with their memory.
//
// The kernel's documentation of the files is Documentation/ABI/stable/sysfs-devices-node and sysfs-devices-system-cpu,
// and Documentation/admin-guide/cputopology.rst. All CPUs that are online count, whichever of them this process may
// run on: runtime.NumCPU follows its affinity (sched_setaffinity(2)), these files do not.
//
// What a kernel or virtual machine leaves out has these meanings. Anything else that is missing, or that cannot be
// parsed, is an error that names the file.
//
//	cpu/possible                 the CPUs that are online
//	node/                        one NUMA node 0 with all CPUs and all memory (a kernel without CONFIG_NUMA)
//	nodeN/meminfo                a node without memory
//	nodeN/distance               10 to itself, 20 to all others
//	nodeN/hugepages/             no huge pages
//	cpuN/topology/core_id        a core of its own
//	cpuN/topology/…_id           socket 0, one die, one cluster; also if it is negative
//	cpuN/cache/                  one cache for the CPUs of a socket; also without a cache of level 3 or above
package topology

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/kernelfile"
)

// Read reads the machine below a root, which is / but for tests. It needs no privileges.
func Read(root string) (*topology.Machine, error) {
	r := reader{root: root}
	online, err := Online(root)
	if err != nil {
		return nil, err
	}
	nodes, of, err := r.nodes(online)
	if err != nil {
		return nil, err
	}
	t := &topology.Machine{Nodes: nodes}
	cores := map[coreKey]int{}
	for _, id := range online.List() {
		node, ok := of[id]
		if !ok {
			return nil, fmt.Errorf("%s: no node has CPU %d, which is online", r.path(nodeDir), id)
		}
		key, err := r.core(id)
		if err != nil {
			return nil, err
		}
		key.node = node
		if _, ok := cores[key]; !ok {
			cores[key] = id // the lowest, as they are in order
		}
		t.CPUs = append(t.CPUs, topology.CPU{ID: id, Core: cores[key], Socket: key.socket, Node: node})
	}
	return t, r.caches(t, online)
}

// Online are the CPUs that are online (/sys/devices/system/cpu/online): the CPU capacity of the machine.
func Online(root string) (cpuset.CPUSet, error) {
	r := reader{root: root}
	online, err := r.list(cpuDir + "/online")
	if err == nil && online.IsEmpty() {
		err = fmt.Errorf("%s: no CPU is online", r.path(cpuDir+"/online"))
	}
	return online, err
}

// Possible is 1 above the highest CPU that may ever come online (/sys/devices/system/cpu/possible; the CPUs that are
// online if there is no such file).
func Possible(root string) (int, error) {
	r := reader{root: root}
	possible, err := r.list(cpuDir + "/possible")
	if errors.Is(err, fs.ErrNotExist) {
		possible, err = Online(root)
	}
	if err != nil {
		return 0, err
	}
	list := possible.List()
	if len(list) == 0 {
		return 0, fmt.Errorf("%s: no CPU is possible", r.path(cpuDir+"/possible"))
	}
	return list[len(list)-1] + 1, nil
}

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
)

// coreKey distinguishes the cores of a machine. The kernel's core_id alone does not: it may repeat in every socket, die
// or cluster.
type coreKey struct{ node, socket, die, cluster, core int }

func (r reader) core(id int) (key coreKey, err error) {
	dir := fmt.Sprintf("%s/cpu%d/topology/", cpuDir, id)
	for _, f := range []struct {
		name    string
		to      *int
		without int
	}{
		{"physical_package_id", &key.socket, 0}, {"die_id", &key.die, 0}, {"cluster_id", &key.cluster, 0},
		{"core_id", &key.core, -1 - id},
	} {
		n, err := r.number(dir + f.name)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && n < 0:
			n = f.without
		case err != nil:
			return key, err
		}
		*f.to = n
	}
	return key, nil
}

// minLevel is the level from which on a cache is shared by many cores.
const minLevel = 3

// caches completes the CPUs with their last level cache.
func (r reader) caches(t *topology.Machine, online cpuset.CPUSet) error {
	sockets := map[int]int{}
	for i, c := range t.CPUs {
		if _, ok := sockets[c.Socket]; !ok {
			sockets[c.Socket] = c.ID
		}
		first, err := r.cache(c.ID, online)
		if err != nil {
			return err
		}
		if first < 0 {
			first = sockets[c.Socket]
		}
		t.CPUs[i].Cache = first
	}
	return nil
}

// cache is the lowest of the CPUs that share a CPU's last level cache, -1 if it is not known.
func (r reader) cache(id int, online cpuset.CPUSet) (int, error) {
	dir := fmt.Sprintf("%s/cpu%d/cache", cpuDir, id)
	indexes, err := filepath.Glob(filepath.Join(escape(r.path(dir)), "index[0-9]*"))
	if err != nil {
		return 0, err
	}
	first, best := -1, minLevel-1
	for _, index := range indexes {
		index = dir + "/" + filepath.Base(index)
		level, err := r.number(index + "/level")
		if err != nil {
			return 0, err
		}
		kind, err := r.text(index + "/type")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		if level <= best || kind == "Instruction" {
			continue
		}
		shared, err := r.list(index + "/shared_cpu_list")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if !shared.Contains(id) {
			return 0, fmt.Errorf("%s: is without CPU %d itself", r.path(index+"/shared_cpu_list"), id)
		}
		first, best = shared.Intersection(online).List()[0], level
	}
	return first, nil
}

// nodes are the NUMA nodes, and the node of each CPU that is online.
func (r reader) nodes(online cpuset.CPUSet) ([]topology.Node, map[int]int, error) {
	of := map[int]int{}
	ids, err := r.list(nodeDir + "/online")
	switch {
	case errors.Is(err, fs.ErrNotExist) && !r.exists(nodeDir):
		for _, cpu := range online.List() {
			of[cpu] = 0
		}
		node, err := r.only()
		return []topology.Node{node}, of, err
	case err != nil:
		return nil, nil, err
	}
	var nodes []topology.Node
	for i, id := range ids.List() {
		dir := nodeDir + "/node" + strconv.Itoa(id)
		near, err := r.list(dir + "/cpulist")
		if err != nil {
			return nil, nil, err
		}
		for _, cpu := range near.List() {
			if other, ok := of[cpu]; ok {
				return nil, nil, fmt.Errorf("%s: CPU %d is also in node %d", r.path(dir+"/cpulist"), cpu, other)
			}
			of[cpu] = id
		}
		node := topology.Node{ID: id}
		if node.Memory, err = r.memory(dir+"/meminfo", fmt.Sprintf("Node %d ", id)); err != nil {
			return nil, nil, err
		}
		if node.HugePages, err = kernelfile.HugePages(r.path(dir + "/hugepages")); err != nil {
			return nil, nil, err
		}
		if node.Distances, err = r.distances(dir+"/distance", i, ids.Size()); err != nil {
			return nil, nil, err
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b topology.Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes, of, nil
}

// only is the one node of a kernel that knows no nodes.
func (r reader) only() (topology.Node, error) {
	n := topology.Node{Distances: []int{local}}
	var err error
	if n.Memory, err = r.memory("proc/meminfo", ""); err != nil {
		return n, err
	}
	n.HugePages, err = kernelfile.HugePages(r.path("sys/kernel/mm/hugepages"))
	return n, err
}
