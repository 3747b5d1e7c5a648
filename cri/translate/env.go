package translate

import (
	"cmp"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/downward"
	"github.com/troupe-dev/troupe/actors/decide/expansion"
	"github.com/troupe-dev/troupe/actors/port"
)

// environment is a container's variables in order of their first declaration;
// a later declaration of the same name replaces the value.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	v, ok := e.values[name]
	return v, ok
}

func (e *environment) cri() []*runtimeapi.KeyValue {
	if len(e.names) == 0 {
		return nil
	}
	out := make([]*runtimeapi.KeyValue, len(e.names))
	for i, name := range e.names {
		out[i] = &runtimeapi.KeyValue{Key: name, Value: []byte(e.values[name])}
	}
	return out
}

// containerEnv makes the variables of a container: first envFrom in order, with
// the keys of each object sorted, then env in order, then what services are told
// by and the container does not set itself. A value sees the variables before it,
// and those of services. (core/v1 EnvVar and EnvFromSource)
func containerEnv(n *Node, r *port.CreateContainer) (*environment, error) {
	e := &environment{values: make(map[string]string, len(r.Container.Env))}
	links := environment{values: map[string]string{}}
	if services, err := r.Objects.Services(r.Pod.Namespace); err == nil {
		links.addServices(services, r.Pod)
	}
	lookup := func(name string) (string, bool) {
		if v, ok := e.lookup(name); ok {
			return v, true
		}
		return links.lookup(name)
	}
	for i := range r.Container.EnvFrom {
		vars, err := r.Objects.EnvFrom(r.Pod.Namespace, &r.Container.EnvFrom[i])
		if err != nil {
			return nil, err
		}
		for _, v := range vars {
			e.set(v.Name, v.Value)
		}
	}
	for i := range r.Container.Env {
		v := &r.Container.Env[i]
		if v.Value != "" || v.ValueFrom == nil {
			e.set(v.Name, expansion.Expand(v.Value, lookup))
			continue
		}
		value, set, err := resolve(n, r, v)
		if err != nil {
			return nil, err
		}
		if set {
			e.set(v.Name, value)
		}
	}
	for _, name := range links.names {
		if _, ok := e.lookup(name); !ok {
			e.set(name, links.values[name])
		}
	}
	return e, nil
}

// resolve gives the value of a valueFrom; set is false if it is optional and
// not there. The errors about objects are those that users know, word for word.
func resolve(n *Node, r *port.CreateContainer, v *v1.EnvVar) (value string, set bool, err error) {
	switch from := v.ValueFrom; {
	case from.FieldRef != nil:
		value, err = source(n, r).Field(from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		value, err = source(n, r).Resource(r.Container, from.ResourceFieldRef)
	case from.ConfigMapKeyRef != nil:
		return r.Objects.ConfigMapKey(r.Pod.Namespace, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return r.Objects.SecretKey(r.Pod.Namespace, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		if isTrue(from.FileKeyRef.Optional) {
			return "", false, nil
		}
		err = fmt.Errorf("fileKeyRef %s of volume %s is not supported", cmp.Or(from.FileKeyRef.Key, "?"), from.FileKeyRef.VolumeName)
	default:
		// An empty valueFrom, which validation does not let through.
	}
	if err != nil {
		return "", false, fmt.Errorf("env %s: %w", v.Name, err)
	}
	return value, true, nil
}

func source(n *Node, r *port.CreateContainer) *downward.Source {
	return &downward.Source{Pod: r.Pod, NodeName: n.Name, PodIPs: r.PodIPs, HostIPs: r.HostIPs, Allocatable: n.Allocatable}
}
