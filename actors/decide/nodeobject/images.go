package nodeobject

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// maxNames is the number of names shown per image. An image may have any number, and the scheduler
// reads only a few.
const maxNames = 5

// Images are the biggest images of list, at most most of them; all if it is less than 0.
func Images(list []observed.Image, most int) []v1.ContainerImage {
	out := make([]v1.ContainerImage, 0, len(list))
	for i := range list {
		o := &list[i]
		names := make([]string, 0, min(maxNames, len(o.RepoDigests)+len(o.RepoTags)))
		for _, of := range [...][]string{o.RepoDigests, o.RepoTags} {
			for _, name := range slices.Sorted(slices.Values(of)) {
				if len(names) < maxNames && !strings.Contains(name, "<none>") {
					names = append(names, name)
				}
			}
		}
		if len(names) > 0 {
			out = append(out, v1.ContainerImage{Names: names, SizeBytes: int64(o.SizeBytes)})
		}
	}
	slices.SortFunc(out, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	if most >= 0 && len(out) > most {
		out = slices.Clip(out[:most])
	}
	return out
}
