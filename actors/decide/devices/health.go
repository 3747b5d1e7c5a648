package devices

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
)

// HealthOf is how devices are that containers have. A device whose plugin does not answer, or does not list it any
// more, is Unknown. One whose plugin may come soon is left out: what was said of it stays.
func (i Inventory) HealthOf(containers map[string][]devicestate.Grant) devicestate.Health {
	out := devicestate.Health{}
	for name, grants := range containers { // order-free: a map again
		for _, g := range grants {
			r := i[g.Resource]
			if r != nil && r.Awaited {
				continue
			}
			s := v1.ResourceStatus{Name: g.Resource}
			for _, id := range g.All() {
				s.Resources = append(s.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(id), Health: r.healthOf(id)})
			}
			out[name] = append(out[name], s)
		}
	}
	return out
}

func (r *Resource) healthOf(id string) v1.ResourceHealthStatus {
	if r == nil || !r.Served {
		return v1.ResourceHealthStatusUnknown
	}
	i, listed := slices.BinarySearchFunc(r.Devices, id, func(d Device, id string) int { return cmp.Compare(d.ID, id) })
	switch {
	case !listed:
		return v1.ResourceHealthStatusUnknown
	case r.Devices[i].Healthy:
		return v1.ResourceHealthStatusHealthy
	default:
		return v1.ResourceHealthStatusUnhealthy
	}
}
