package claims

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Part is what a container gets of one claim.
type Part struct {
	Namespace, Name string
	// Devices are in the order of their drivers' names, and of the drivers' answers.
	Devices []DriverDevice
}

// DriverDevice is a device of a driver.
type DriverDevice struct {
	Driver string
	Device
}

// Of is the prepared claim of a name in the namespace of a pod, nil if there is none.
type Of func(name string) *Claim

// Devices are the CDI names of the devices of a pod's containers, by their names.
func Devices(pod *v1.Pod, of Of) map[string][]string {
	out, names := map[string][]string{}, Names(pod)
	for c := range podspec.All(&pod.Spec) {
		has := map[string]bool{} // a driver may name thousands
		for _, part := range Parts(pod, c, names, of) {
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

// Names are the ResourceClaims of a pod's entries in spec.resourceClaims, by the names of the entries: of those that
// need one, and for which it was made.
func Names(pod *v1.Pod) map[string]string {
	out, made := map[string]string{}, statuses(pod)
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		if n, is, err := need(c, made); err == nil && is && out[c.Name] == "" {
			out[c.Name] = n.Name
		}
	}
	return out
}

// Parts are what a container gets of claims, in the order in which it names them. names are those of the pod.
func Parts(pod *v1.Pod, c *v1.Container, names map[string]string, of Of) (out []Part) {
	asked := map[v1.ResourceClaim]bool{}
	for _, use := range c.Resources.Claims {
		use.Name = names[use.Name] // entries may be of one claim
		if use.Name != "" && !asked[use] {
			asked[use] = true
			out = add(out, of(use.Name), use.Request)
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

// add adds the devices of one request of a claim, or of all.
func add(parts []Part, c *Claim, request string) []Part {
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
			one := DriverDevice{driver, d}
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

func identityOf(d *DriverDevice) identity {
	return identity{d.Driver, d.Pool, d.Name, string(d.Share), strings.Join(d.CDI, "\x00")}
}

// isFor reports whether a device is for a request, or for one of its subrequests (KEP-4816): request/subrequest.
func isFor(d *Device, request string) bool {
	return request == "" || len(d.Requests) == 0 || slices.ContainsFunc(d.Requests, func(r string) bool {
		return base(r) == base(request)
	})
}

func base(request string) string {
	name, _, _ := strings.Cut(request, "/")
	return name
}
