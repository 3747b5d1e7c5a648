package podplan

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// SpecHash is the hash of what a running container can't be changed to in
// place: its name and its image (FNV-1a, 64 bits, in hex). Of one that takes a
// restart for another amount of memory (API field resizePolicy) what it asks for
// follows, "-BYTES": neither the kernel nor the runtime can say what that was.
//
// The rest of the container is not in it, on purpose. Resources are changed in
// place; everything else can't change while the pod keeps its UID (an edited
// manifest is another pod). And were it in the hash, the first field that a
// newer API adds or defaults would restart every container of every node at
// its upgrade.
func SpecHash(c *v1.Container) string {
	hash := fmt.Sprintf("%016x", specHash(c))
	if restartsFor(c, v1.ResourceMemory) {
		hash += "-" + strconv.FormatInt(c.Resources.Requests.Memory().Value(), 10)
	}
	return hash
}

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

// hashDigits is the length of a hash, without what follows it.
const hashDigits = 16

// kubeletDigits is the greatest length of a kubelet's hash.
const kubeletDigits = 8

// sameSpec says whether a container with this observed hash was made from c, by us or by a kubelet. An empty hash,
// or one that is neither's, never counts as changed.
func sameSpec(hash string, c *v1.Container) bool {
	hash, _, _ = strings.Cut(hash, "-")
	switch h, err := strconv.ParseUint(hash, 16, 64); {
	case err != nil:
		return true
	case len(hash) <= kubeletDigits:
		return hash == podspec.KubeletHash(c)
	default:
		return len(hash) != hashDigits || h == specHash(c)
	}
}

// sameRequest says whether a container with this observed hash asked for as much
// memory as c, as far as it matters to it.
func sameRequest(hash string, c *v1.Container) bool {
	if len(hash) <= hashDigits || !restartsFor(c, v1.ResourceMemory) {
		return true
	}
	_, request, _ := strings.Cut(hash, "-")
	bytes, err := strconv.ParseInt(request, 10, 64)
	return err != nil || bytes == c.Resources.Requests.Memory().Value()
}

// restartsFor says whether a container takes a restart for a change of a resource.
func restartsFor(c *v1.Container, name v1.ResourceName) bool {
	for _, policy := range c.ResizePolicy {
		if policy.ResourceName == name {
			return policy.RestartPolicy == v1.RestartContainer
		}
	}
	return false
}
