package volumefiles

import (
	"cmp"
	"path"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// points are for each volume the directories of it at which a container mounts other volumes, sorted: below /config, on
// which it has this one, it has another one on /config/more. A runtime can't make them, because the volume is
// read-only. What is below another point is in the volume that is mounted there. Names of the writer, which begin with
// two dots, are not given away.
func points(pod *v1.Pod) map[string][]string {
	out := map[string][]string{}
	for c := range podspec.All(&pod.Spec) {
		paths := make([]string, len(c.VolumeMounts))
		for i := range c.VolumeMounts {
			paths[i] = path.Join("/", c.VolumeMounts[i].MountPath)
		}
		slices.SortFunc(paths, slashFirst)
		for i := range c.VolumeMounts {
			m := &c.VolumeMounts[i]
			out[m.Name] = append(out[m.Name], below(paths, path.Join("/", m.MountPath))...)
		}
	}
	for name, all := range out { // order-free: each on its own
		slices.Sort(all)
		out[name] = slices.Compact(all)
	}
	return out
}

// below are the first of paths below a directory, relative to it. The paths are sorted by slashFirst.
func below(paths []string, dir string) (out []string) {
	dir += "/"
	i, _ := slices.BinarySearchFunc(paths, dir, slashFirst)
	for i < len(paths) {
		at, is := strings.CutPrefix(paths[i], dir)
		if !is {
			break
		}
		if !strings.HasPrefix(at, "..") && len(at) <= maxPath { // no runtime mounts anything at a longer one
			out = append(out, at)
		}
		first, rest := paths[i], paths[i:]
		i += sort.Search(len(rest), func(n int) bool {
			return rest[n] != first && !strings.HasPrefix(rest[n], first+"/")
		})
	}
	return out
}

// slashFirst orders paths so that those below a directory come right after it.
func slashFirst(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
