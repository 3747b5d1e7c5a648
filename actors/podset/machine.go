package podset

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pod"
)

// nodeSeen takes in this node's object. Its resources and addresses are those of the machine now, which pods are told
// when they have changed: CPUs, memory and huge pages may come and go, and a lease of DHCP ends.
func (a *registry) nodeSeen(n *v1.Node) {
	a.node = n
	now := &pod.Machine{
		HostIPs:     nodeobject.IPs(n.Status.Addresses, a.deps.Machine.HostIPs),
		Allocatable: nodeobject.Native(n.Status.Allocatable, a.deps.Machine.Allocatable),
	}
	was := a.deps.Machine
	if a.machine != nil {
		was = *a.machine
	}
	// What an earlier incarnation has told is not known: so all are told once.
	told := a.machine != nil || !a.heir
	if told && slices.Equal(now.HostIPs, was.HostIPs) && podspec.SameResources(now.Allocatable, was.Allocatable) {
		return
	}
	a.machine = now
	for _, r := range a.ranked {
		a.assign(r.Pod.UID)
	}
}

// allocatable is what the machine has for pods.
func (a *registry) allocatable() v1.ResourceList {
	if a.machine != nil {
		return a.machine.Allocatable
	}
	return a.deps.Machine.Allocatable
}
