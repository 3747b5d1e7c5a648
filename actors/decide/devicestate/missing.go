package devicestate

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

const (
	noPlugin = "no device plugin serves it on this node"
	noDriver = "resource claims can't be prepared on this node (it has no apiserver, or no drivers)"
)

// Unclaimed names the first device of a pod that a node without drivers of dynamic resource allocation can't give, by
// its field, and says why. It is empty if there is none. Devices are those of resource claims (KEP-4381), and of
// extended resources that are backed by a claim (KEP-5004).
func Unclaimed(pod *v1.Pod) string {
	if claims := pod.Spec.ResourceClaims; len(claims) > 0 {
		return claim(pod, 0)
	}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		if len(e.RequestMappings) > 0 {
			m := &e.RequestMappings[0]
			return backed(e, m.ContainerName, m.ResourceName)
		}
		return fmt.Sprintf("status.extendedResourceClaimStatus: ResourceClaim %q: %s", e.ResourceClaimName, noDriver)
	}
	return ""
}

// Missing names the first device of device plugins that a pod asks for and that this node can't give, by its field, and
// says why. It is empty if there is none.
func (s *State) Missing(pod *v1.Pod) string {
	for c := range podspec.All(&pod.Spec) {
		if why := s.plugin(c); why != "" {
			return why
		}
	}
	return ""
}

// UnclaimedIn is Unclaimed for one container alone, which is created in a pod that runs already: a pod that a kubelet
// started keeps the devices of the containers that run.
func UnclaimedIn(pod *v1.Pod, c *v1.Container) string {
	for i := range c.Resources.Claims {
		named := func(p v1.PodResourceClaim) bool { return p.Name == c.Resources.Claims[i].Name }
		if at := slices.IndexFunc(pod.Spec.ResourceClaims, named); at >= 0 {
			return claim(pod, at)
		}
	}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		for _, m := range e.RequestMappings {
			if m.ContainerName == c.Name {
				return backed(e, m.ContainerName, m.ResourceName)
			}
		}
	}
	return ""
}

// MissingIn is Missing for one container, as UnclaimedIn.
func (s *State) MissingIn(c *v1.Container) string { return s.plugin(c) }

// plugin names the first resource of device plugins that a container asks for. An extended resource's request is its
// limit (API validation).
func (s *State) plugin(c *v1.Container) string {
	for _, name := range s.Resources() {
		if q, asks := c.Resources.Limits[name]; asks && q.Sign() > 0 {
			return Unserved(c, name)
		}
	}
	return ""
}

// Unserved is why a container can't have the devices of a resource that no plugin serves.
func Unserved(c *v1.Container, name v1.ResourceName) string {
	q := c.Resources.Limits[name]
	return fmt.Sprintf("container %q: resources.limits[%s]: %s requested, but %s", c.Name, name, q.String(), noPlugin)
}

// claim is why the i-th claim of a pod can't be given.
func claim(pod *v1.Pod, i int) string {
	c := &pod.Spec.ResourceClaims[i]
	var object []string
	if c.ResourceClaimTemplateName != nil {
		object = append(object, fmt.Sprintf("ResourceClaimTemplate %q", *c.ResourceClaimTemplateName))
	}
	if name := c.ResourceClaimName; name != nil {
		object = append(object, fmt.Sprintf("ResourceClaim %q", *name))
	}
	for _, made := range pod.Status.ResourceClaimStatuses {
		if made.Name == c.Name && made.ResourceClaimName != nil && c.ResourceClaimName == nil {
			object = append(object, fmt.Sprintf("ResourceClaim %q", *made.ResourceClaimName))
		}
	}
	return fmt.Sprintf("spec.resourceClaims[%d]: claim %q (%s): %s", i, c.Name, strings.Join(object, ", "), noDriver)
}

// backed is why an extended resource of a container that a claim stands for can't be given.
func backed(e *v1.PodExtendedResourceClaimStatus, container, resource string) string {
	return fmt.Sprintf("container %q: resources.limits[%s] is backed by ResourceClaim %q"+
		" (status.extendedResourceClaimStatus): %s", container, resource, e.ResourceClaimName, noDriver)
}
