package podresources

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
)

// dynamic are the devices that a container has by claims of its pod (KEP-3695), which has these names.
func dynamic(p *v1.Pod, c *v1.Container, names map[string]string, all []claims.Claim) (out []*api.DynamicResource) {
	of := func(name string) *claims.Claim {
		for i := range all {
			if o := &all[i]; o.Namespace == p.Namespace && o.Name == name && slices.Contains(o.Pods, p.UID) {
				return o
			}
		}
		return nil
	}
	for _, part := range claims.Parts(p, c, names, of) {
		one := &api.DynamicResource{ClaimNamespace: part.Namespace, ClaimName: part.Name}
		for i := range part.Devices {
			d := &part.Devices[i]
			r := &api.ClaimResource{DriverName: d.Driver, PoolName: d.Pool, DeviceName: d.Name}
			if d.Share != "" {
				r.ShareId = (*string)(&d.Share)
			}
			for _, name := range d.CDI {
				r.CdiDevices = append(r.CdiDevices, &api.CDIDevice{Name: name})
			}
			one.ClaimResources = append(one.ClaimResources, r)
		}
		out = append(out, one)
	}
	return out
}
