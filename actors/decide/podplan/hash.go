package podplan

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// SpecHash is the hash of what a running container can't be changed to in
// place: its name and its image (FNV-1a, 64 bits, in hex).
//
// The rest of the container is not in it, on purpose. Resources are changed in
// place; everything else can't change while the pod keeps its UID (an edited
// manifest is another pod). And were it in the hash, the first field that a
// newer API adds or defaults would restart every container of every node at
// its upgrade.
func SpecHash(c *v1.Container) string { return fmt.Sprintf("%016x", specHash(c)) }

func specHash(c *v1.Container) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := range len(c.Name) {
		h = (h ^ uint64(c.Name[i])) * prime
	}
	h *= prime // a zero byte between the two
	for i := range len(c.Image) {
		h = (h ^ uint64(c.Image[i])) * prime
	}
	return h
}

// sameSpec says whether a container with this observed hash was made from c.
// An empty hash, or one that isn't ours, never counts as changed.
func sameSpec(hash string, c *v1.Container) bool {
	if len(hash) != 16 {
		return true
	}
	h, err := strconv.ParseUint(hash, 16, 64)
	return err != nil || h == specHash(c)
}
