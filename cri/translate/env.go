package translate

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerenv"
	"github.com/troupe-dev/troupe/actors/decide/downward"
	"github.com/troupe-dev/troupe/actors/port"
)

// containerEnv makes the variables of a container.
func containerEnv(n *Node, r *port.CreateContainer) (*containerenv.Environment, error) {
	from := downward.Source{Pod: r.Pod, NodeName: n.Name, PodIPs: r.PodIPs, HostIPs: r.HostIPs, Allocatable: n.Allocatable}
	return containerenv.Of(&from, r.Objects, r.EnvFiles, r.Container)
}

// keyValues converts an environment to the CRI.
func keyValues(e *containerenv.Environment) []*runtimeapi.KeyValue {
	if len(e.Names()) == 0 {
		return nil
	}
	out := make([]*runtimeapi.KeyValue, len(e.Names()))
	for i, name := range e.Names() {
		v, _ := e.Lookup(name)
		out[i] = &runtimeapi.KeyValue{Key: name, Value: []byte(v)}
	}
	return out
}
