package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
)

// Given is what a container is created with for its devices: the answers of all their plugins
// (ContainerAllocateResponse), merged. It is never mutated; nil for a container without devices.
type Given struct {
	// Env is sorted by name. A name that the spec of the container has too keeps the spec's value.
	Env []Variable
	// Mounts are in the order of the resources' names, and of the plugin's answer. They come before those of the spec.
	Mounts []Mount
	Nodes  []Node
	// Annotations are for the runtime.
	Annotations map[string]string
	// CDI are fully-qualified names of devices (Container Device Interface).
	CDI []string
	// PreStart are the devices of each resource, for the plugins that are to be told before the container starts.
	PreStart []PreStart
}

// Variable is a variable of a container's environment.
type Variable struct{ Name, Value string }

// Mount is a path of the host in a container.
type Mount struct {
	ContainerPath, HostPath string
	ReadOnly                bool
}

// Node is a device node of the host in a container. Permissions are as in the device plugin API: some of r, w and m.
type Node struct{ ContainerPath, HostPath, Permissions string }

// PreStart are the devices of one resource that a container has.
type PreStart struct {
	Resource v1.ResourceName
	IDs      []string
}

// GivenFor is what a container with some devices is created with. It fails for an answer of a plugin that can't be
// read. Of two that contradict each other, the first counts, by the names of the resources. A grant without an answer
// has nothing.
func GivenFor(grants []devicestate.Grant) (*Given, error) {
	if len(grants) == 0 {
		return nil, nil
	}
	g, env, has := &Given{}, map[string]string{}, map[[2]string]bool{}
	isNew := func(kind, name string) bool { // an answer may name thousands
		key := [2]string{kind, name}
		known := has[key]
		has[key] = true
		return !known
	}
	for _, grant := range slices.SortedFunc(slices.Values(grants), func(a, b devicestate.Grant) int {
		return cmp.Compare(a.Resource, b.Resource)
	}) {
		var answer api.ContainerAllocateResponse
		if err := proto.Unmarshal(grant.Response, &answer); err != nil {
			return nil, fmt.Errorf("what the device plugin of %s has answered can't be read: %w", grant.Resource, err)
		}
		g.PreStart = append(g.PreStart, PreStart{grant.Resource, grant.All()})
		first(env, answer.Envs)
		for _, m := range answer.Mounts {
			if isNew("mount", m.ContainerPath) {
				g.Mounts = append(g.Mounts, Mount{m.ContainerPath, m.HostPath, m.ReadOnly})
			}
		}
		for _, d := range answer.Devices {
			if isNew("node", d.ContainerPath) {
				g.Nodes = append(g.Nodes, Node{d.ContainerPath, d.HostPath, d.Permissions})
			}
		}
		if g.Annotations == nil && len(answer.Annotations) > 0 {
			g.Annotations = map[string]string{}
		}
		first(g.Annotations, answer.Annotations)
		for _, c := range answer.CdiDevices {
			if isNew("CDI", c.Name) {
				g.CDI = append(g.CDI, c.Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		g.Env = append(g.Env, Variable{name, env[name]})
	}
	return g, nil
}

// Variables are those of the container's environment, nil for none.
func (g *Given) Variables() []Variable {
	if g == nil {
		return nil
	}
	return g.Env
}

// WithCDI is with more devices, of claims of the pod.
func (g *Given) WithCDI(names []string) *Given {
	if len(names) == 0 {
		return g
	}
	out := Given{}
	if g != nil {
		out = *g
	}
	out.CDI = slices.Clone(out.CDI)
	for _, name := range names {
		if !slices.Contains(out.CDI, name) {
			out.CDI = append(out.CDI, name)
		}
	}
	return &out
}

// WithNodes is with more device nodes: block volumes of the pod. A device of a plugin at the same path comes first.
func (g *Given) WithNodes(nodes []Node) *Given {
	if len(nodes) == 0 {
		return g
	}
	out := Given{}
	if g != nil {
		out = *g
	}
	out.Nodes = slices.Clone(out.Nodes)
	for _, n := range nodes {
		if !slices.ContainsFunc(out.Nodes, func(has Node) bool { return has.ContainerPath == n.ContainerPath }) {
			out.Nodes = append(out.Nodes, n)
		}
	}
	return &out
}

// first adds what is not there yet.
func first(to, from map[string]string) {
	for name, value := range from { // order-free: a map again
		if _, has := to[name]; !has {
			to[name] = value
		}
	}
}
