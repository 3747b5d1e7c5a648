package podspec

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// Kind is the list of the spec that a container is from, which determines how it is run.
type Kind uint8

const (
	Main    Kind = iota
	Init         // runs to completion, in order
	Sidecar      // an init container with restartPolicy Always (KEP-753)
	Ephemeral
)

func (k Kind) String() string {
	return [...]string{"main", "init", "sidecar", "ephemeral"}[k]
}

// All are the containers of a pod with their kinds, in the order of the spec: init
// containers and sidecars, main containers, ephemeral containers. They are the
// spec's own, not copies.
func All(spec *v1.PodSpec) iter.Seq2[*v1.Container, Kind] {
	// The work is in another function so that this one is inlined and the loop allocates nothing. The
	// planner runs it for every message of every pod.
	return func(yield func(*v1.Container, Kind) bool) { all(spec, yield) }
}

// Lasting are all containers but the ephemeral ones.
func Lasting(spec *v1.PodSpec) iter.Seq2[*v1.Container, Kind] {
	return func(yield func(*v1.Container, Kind) bool) { lasting(spec, yield) }
}

func all(spec *v1.PodSpec, yield func(*v1.Container, Kind) bool) {
	if !lasting(spec, yield) {
		return
	}
	for i := range spec.EphemeralContainers {
		if !yield((*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), Ephemeral) {
			return
		}
	}
}

func lasting(spec *v1.PodSpec, yield func(*v1.Container, Kind) bool) bool {
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if !yield(c, KindOfInit(c)) {
			return false
		}
	}
	for i := range spec.Containers {
		if !yield(&spec.Containers[i], Main) {
			return false
		}
	}
	return true
}

// Find returns the container of a name and its kind; nil and Main if the spec has none.
func Find(spec *v1.PodSpec, name string) (*v1.Container, Kind) {
	for c, kind := range All(spec) {
		if c.Name == name {
			return c, kind
		}
	}
	return nil, Main
}

// Containers is Find, for who asks for many.
func Containers(spec *v1.PodSpec) func(name string) (*v1.Container, Kind) {
	if len(spec.InitContainers)+len(spec.Containers)+len(spec.EphemeralContainers) <= few {
		return func(name string) (*v1.Container, Kind) { return Find(spec, name) }
	}
	type found struct {
		c    *v1.Container
		kind Kind
	}
	at := map[string]found{}
	for c, kind := range All(spec) {
		if _, twice := at[c.Name]; !twice {
			at[c.Name] = found{c, kind}
		}
	}
	return func(name string) (*v1.Container, Kind) {
		f := at[name]
		return f.c, f.kind
	}
}

// Volume returns the volume of a name; nil if the spec has none.
func Volume(spec *v1.PodSpec, name string) *v1.Volume {
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.Name == name {
			return v
		}
	}
	return nil
}

// KindOfInit is the kind of an init container: Init or Sidecar.
func KindOfInit(c *v1.Container) Kind {
	if IsSidecar(c) {
		return Sidecar
	}
	return Init
}

// IsSidecar says whether an init container is a sidecar, which runs beside the main containers. It
// is for init containers only: main containers may have the same restartPolicy (KEP-5307).
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}
