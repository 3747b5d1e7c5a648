package podspec

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource returns a request or limit of a container, divided by the selector's divisor and rounded
// up. For a limit that is not set it uses the node's allocatable (core/v1 ResourceFieldSelector). c
// is the container that asks. It is nil for a volume, whose selector must name a container.
func (s *Downward) Resource(c *v1.Container, sel *v1.ResourceFieldSelector) (string, error) {
	pod := s.Pod
	if c == nil || sel.ContainerName != "" && sel.ContainerName != c.Name {
		var kind Kind
		if c, kind = Find(&pod.Spec, sel.ContainerName); c == nil || kind == Ephemeral {
			return "", fmt.Errorf("resourceFieldRef: container %s not found", sel.ContainerName)
		}
	}
	of, name, ok := strings.Cut(sel.Resource, ".")
	if !ok || (of != "limits" && of != "requests") || !selectable(name) {
		return "", fmt.Errorf("unsupported container resource: %s", sel.Resource)
	}
	resourceName := v1.ResourceName(name)
	quantity := c.Resources.Requests[resourceName]
	if of == "limits" {
		quantity = s.limit(c, resourceName)
	}

	divisor := sel.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, by := quantity.Value(), divisor.Value()
	if resourceName == v1.ResourceCPU {
		value, by = quantity.MilliValue(), divisor.MilliValue()
	}
	if by <= 0 || value < 0 {
		return "", fmt.Errorf("resourceFieldRef: can't divide %s by %s", quantity.String(), divisor.String())
	}
	whole := value / by
	if value%by != 0 {
		whole++
	}
	return strconv.FormatInt(whole, 10), nil
}

func selectable(name string) bool {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return true
	default:
		return strings.HasPrefix(name, v1.ResourceHugePagesPrefix)
	}
}

func (s *Downward) limit(c *v1.Container, name v1.ResourceName) resource.Quantity {
	if q := c.Resources.Limits[name]; !q.IsZero() {
		return q
	}
	if s.Pod.Spec.Resources != nil {
		if q := s.Pod.Spec.Resources.Limits[name]; !q.IsZero() {
			return q
		}
	}
	if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
		return resource.Quantity{}
	}
	return s.Allocatable[name]
}
