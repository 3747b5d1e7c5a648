package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// build describes a machine whose files are written below a root. Its threads are numbered as on most machines: first
// one of each core, then the second of each.
type build struct {
	sockets, nodesPerSocket, coresPerNode, threads int
	// coresPerCache splits the level 3 cache of a node.
	coresPerCache int
	// farMemory are further nodes that have memory and no CPUs.
	farMemory int
	offline   []int
	// uneven takes away CPUs of node 0 as if they were never there.
	uneven int
	// change is applied to the files, by name below the root. An empty text removes one, or all below a directory.
	change map[string]string
}

func (b build) cores() int { return b.sockets * b.nodesPerSocket * b.coresPerNode }

// files are the files of the machine by name.
func (b build) files() map[string]string {
	out := map[string]string{"proc/meminfo": "MemTotal:  8388608 kB\nMemFree: 1 kB\n"}
	nodes := b.sockets*b.nodesPerSocket + b.farMemory
	off := map[int]bool{}
	for _, id := range b.offline {
		off[id] = true
	}
	for i := range b.uneven {
		off[i] = true
	}
	cpusOf, online := make([][]int, nodes), []int{}
	caches := map[int][]int{}
	for id := range b.cores() * b.threads {
		if off[id] {
			continue
		}
		core := id % b.cores()
		node := core / b.coresPerNode
		online = append(online, id)
		cpusOf[node] = append(cpusOf[node], id)
		caches[b.cache(core)] = append(caches[b.cache(core)], id)
	}
	for _, id := range online {
		core := id % b.cores()
		socket := core / (b.coresPerNode * b.nodesPerSocket)
		topology := fmt.Sprintf("%s/cpu%d/topology/", cpuDir, id)
		out[topology+"physical_package_id"] = fmt.Sprintln(socket)
		out[topology+"die_id"] = "0\n"
		out[topology+"cluster_id"] = "65535\n"
		out[topology+"core_id"] = fmt.Sprintln(core % (b.coresPerNode * b.nodesPerSocket)) // repeats in each socket
		out[fmt.Sprintf("%s/cpu%d/cache/index0/level", cpuDir, id)] = "1\n"
		out[fmt.Sprintf("%s/cpu%d/cache/index0/type", cpuDir, id)] = "Data\n"
		out[fmt.Sprintf("%s/cpu%d/cache/index0/shared_cpu_list", cpuDir, id)] = fmt.Sprintln(id)
		l3 := fmt.Sprintf("%s/cpu%d/cache/index3/", cpuDir, id)
		out[l3+"level"], out[l3+"type"], out[l3+"shared_cpu_list"] = "3\n", "Unified\n", list(caches[b.cache(core)])
	}
	ids := []int{}
	for node := range nodes {
		ids = append(ids, node)
		dir := fmt.Sprintf("%s/node%d/", nodeDir, node)
		out[dir+"cpulist"] = list(cpusOf[node])
		out[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal:  %d kB\nNode %d MemFree: 7 kB\n", node, (node+1)<<20, node)
		out[dir+"hugepages/hugepages-2048kB/nr_hugepages"] = fmt.Sprintln(node * 3)
		var row []string
		for other := range nodes {
			row = append(row, fmt.Sprint(10+11*min(1, max(node-other, other-node))))
		}
		out[dir+"distance"] = strings.Join(row, " ") + "\n"
	}
	out[cpuDir+"/online"], out[nodeDir+"/online"] = list(online), list(ids)
	out[cpuDir+"/possible"] = fmt.Sprintf("0-%d\n", b.cores()*b.threads-1)
	for name, text := range b.change {
		if text != "" {
			out[name] = text
			continue
		}
		for have := range out {
			if have == name || strings.HasPrefix(have, name+"/") {
				delete(out, have)
			}
		}
	}
	return out
}

func (b build) cache(core int) int {
	if b.coresPerCache == 0 {
		return core / b.coresPerNode
	}
	return core / b.coresPerCache
}

func list(ids []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]") + "\n"
}

// write makes the files, and returns their root.
func (b build) write(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range b.files() {
		path := filepath.Join(root, name)
		check.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.Fatal(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}
