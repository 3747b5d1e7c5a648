package claims

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claimstate"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Part is what a container gets of one claim.
type Part struct {
	Namespace, Name string
	// Devices are in the order of their drivers' names, and of the drivers' answers.
	Devices []Device
}

// Device is a device of a driver.
type Device struct {
	Driver string
	claimstate.Device
}

// Of is the prepared claim of a name in the namespace of a pod, nil if there is none.
type Of func(name string) *claimstate.Claim

// Devices are the CDI names of the devices of a pod's containers, by their names.
func Devices(pod *v1.Pod, of Of) map[string][]string {
	out := map[string][]string{}
	for c := range podspec.All(&pod.Spec) {
		has := map[string]bool{} // a driver may name thousands
		for _, part := range Parts(pod, c, of) {
			for _, d := range part.Devices {
				for _, name := range d.CDI {
					if !has[name] {
						has[name] = true
						out[c.Name] = append(out[c.Name], name)
					}
				}
			}
		}
	}
	return out
}

// Parts are what a container gets of claims, in the order in which it names them.
func Parts(pod *v1.Pod, c *v1.Container, of Of) (out []Part) {
	for _, use := range c.Resources.Claims {
		if name := named(pod, use.Name); name != "" {
			out = add(out, of(name), use.Request)
		}
	}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		for _, m := range e.RequestMappings {
			if m.ContainerName == c.Name {
				out = add(out, of(e.ResourceClaimName), m.RequestName)
			}
		}
	}
	return out
}

// named is the ResourceClaim of an entry of the pod's spec, empty if the entry needs none.
func named(pod *v1.Pod, entry string) string {
	i := slices.IndexFunc(pod.Spec.ResourceClaims, func(c v1.PodResourceClaim) bool { return c.Name == entry })
	if i < 0 {
		return "" // the API does not allow it
	}
	n, _, err := need(pod, &pod.Spec.ResourceClaims[i])
	if err != nil {
		return ""
	}
	return n.Name
}

// add adds the devices of one request of a claim, or of all.
func add(parts []Part, c *claimstate.Claim, request string) []Part {
	if c == nil {
		return parts
	}
	i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == c.Name })
	if i < 0 {
		i = len(parts)
		parts = append(parts, Part{Namespace: c.Namespace, Name: c.Name})
	}
	has := map[identity]bool{}
	for _, d := range parts[i].Devices {
		has[identityOf(&d)] = true
	}
	for _, driver := range sortedDrivers(c) {
		for _, d := range c.Drivers[driver] {
			one := Device{driver, d}
			if id := identityOf(&one); !has[id] && isFor(&d, request) {
				has[id] = true
				parts[i].Devices = append(parts[i].Devices, one)
			}
		}
	}
	return parts
}

// identity is what tells devices apart: all but the requests that they are for.
type identity struct{ driver, pool, name, share, cdi string }

func identityOf(d *Device) identity {
	return identity{d.Driver, d.Pool, d.Name, string(d.Share), strings.Join(d.CDI, "\x00")}
}

// isFor reports whether a device is for a request, or for one of its subrequests (KEP-4816): request/subrequest.
func isFor(d *claimstate.Device, request string) bool {
	return request == "" || len(d.Requests) == 0 || slices.ContainsFunc(d.Requests, func(r string) bool {
		return base(r) == base(request)
	})
}

func base(request string) string {
	name, _, _ := strings.Cut(request, "/")
	return name
}
