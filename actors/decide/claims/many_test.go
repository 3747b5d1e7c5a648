package claims

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/linear"
)

// TestManyUses: what the containers of a pod have of its claims grows with how often they name one, and no faster.
func TestManyUses(t *testing.T) {
	linear.Held(t, 500, func(n int) func() {
		p := podWith(func(p *v1.Pod) {
			for i := range n {
				name := fmt.Sprint("c", i)
				p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: name})
				p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses,
					v1.PodResourceClaimStatus{Name: name, ResourceClaimName: new("made-" + name)})
				app := &p.Spec.Containers[0]
				app.Resources.Claims = append(app.Resources.Claims, v1.ResourceClaim{Name: name})
			}
		})
		claim := &Claim{Namespace: "ns", Name: "shared", Drivers: map[string][]Device{
			"x": {{Pool: "p", Name: "d", CDI: []string{"x/y=d"}}},
		}}
		of := func(string) *Claim { return claim }
		report := func(string, string, string) Report { return Report{Health: v1.ResourceHealthStatusHealthy} }
		return func() {
			Needs(p) //nolint:errcheck // all were made
			Devices(p, of)
			Health(p, of, report)
		}
	})
}

// TestManyDevices: what a pod is told of its claims, whenever a driver says something, grows with their devices, and no
// faster.
func TestManyDevices(t *testing.T) {
	linear.Held(t, 2000, func(n int) func() {
		p := podWith(func(p *v1.Pod) { p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}} })
		var all []Device
		for i := range n {
			all = append(all, Device{Pool: "p", Name: fmt.Sprint(i), CDI: []string{fmt.Sprint("x/y=", i)}})
		}
		claim := &Claim{Namespace: "ns", Name: "shared", Drivers: map[string][]Device{"x": all}}
		of := func(string) *Claim { return claim }
		report := func(string, string, string) Report { return Report{Health: v1.ResourceHealthStatusHealthy} }
		return func() {
			Devices(p, of)
			Health(p, of, report)
		}
	})
}
