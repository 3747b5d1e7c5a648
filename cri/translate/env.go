package translate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
// the keys of each object sorted, then env in order. A value sees the variables
// before it. (core/v1 EnvVar and EnvFromSource)
//
// The variables of services belong here later: looked up last in lookup, and
// appended after env where the container does not set them itself.
func containerEnv(n *Node, r *port.CreateContainer) (*environment, error) {
	e := &environment{values: make(map[string]string, len(r.Container.Env))}
	for i := range r.Container.EnvFrom {
		if err := e.addFrom(n, r.Pod.Namespace, &r.Container.EnvFrom[i]); err != nil {
			return nil, err
		}
	}
	for i := range r.Container.Env {
		v := &r.Container.Env[i]
		if v.Value != "" || v.ValueFrom == nil {
			e.set(v.Name, expansion.Expand(v.Value, e.lookup))
			continue
		}
		value, set, err := resolve(n, r, v.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.Name, err)
		}
		if set {
			e.set(v.Name, value)
		}
	}
	return e, nil
}

func (e *environment) addFrom(n *Node, namespace string, from *v1.EnvFromSource) error {
	var data map[string]string
	switch {
	case from.ConfigMapRef != nil:
		object, err := configMap(n, namespace, from.ConfigMapRef.Name, isTrue(from.ConfigMapRef.Optional))
		if err != nil {
			return fmt.Errorf("envFrom: %w", err)
		}
		if object != nil {
			data = object.Data
		}
	case from.SecretRef != nil:
		object, err := secret(n, namespace, from.SecretRef.Name, isTrue(from.SecretRef.Optional))
		if err != nil {
			return fmt.Errorf("envFrom: %w", err)
		}
		if object != nil {
			data = make(map[string]string, len(object.Data))
			for k, v := range object.Data {
				data[k] = string(v)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		e.set(from.Prefix+key, data[key])
	}
	return nil
}

// resolve gives the value of a valueFrom; set is false if it is optional and
// not there.
func resolve(n *Node, r *port.CreateContainer, from *v1.EnvVarSource) (value string, set bool, err error) {
	namespace := r.Pod.Namespace
	switch {
	case from.FieldRef != nil:
		value, err = source(n, r).Field(from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = source(n, r).Resource(r.Container, from.ResourceFieldRef)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		object, err := configMap(n, namespace, ref.Name, isTrue(ref.Optional))
		if err != nil {
			return "", false, fmt.Errorf("key %s: %w", ref.Key, err)
		}
		if object != nil {
			value, set = object.Data[ref.Key]
		}
		if !set && !isTrue(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, namespace, ref.Name)
		}
		return value, set, nil
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		object, err := secret(n, namespace, ref.Name, isTrue(ref.Optional))
		if err != nil {
			return "", false, fmt.Errorf("key %s: %w", ref.Key, err)
		}
		if object != nil {
			var raw []byte
			raw, set = object.Data[ref.Key]
			value = string(raw)
		}
		if !set && !isTrue(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, namespace, ref.Name)
		}
		return value, set, nil
	case from.FileKeyRef != nil:
		if isTrue(from.FileKeyRef.Optional) {
			return "", false, nil
		}
		return "", false, fmt.Errorf("fileKeyRef %s of volume %s is not supported", cmp.Or(from.FileKeyRef.Key, "?"), from.FileKeyRef.VolumeName)
	default:
		// An empty valueFrom, which validation does not let through.
		return "", true, nil
	}
}

func source(n *Node, r *port.CreateContainer) *downward.Source {
	return &downward.Source{Pod: r.Pod, NodeName: n.Name, PodIPs: r.PodIPs, HostIPs: r.HostIPs, Allocatable: n.Allocatable}
}

// configMap returns nil without an error if the object is optional and not there.
func configMap(n *Node, namespace, name string, optional bool) (*v1.ConfigMap, error) {
	if n.Objects == nil {
		return nil, absent("configmap", namespace, name, optional)
	}
	object, found, err := n.Objects.ConfigMap(namespace, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("configmap %s/%s: %w", namespace, name, err)
	case !found && !optional:
		return nil, fmt.Errorf("configmap %q not found", name)
	case !found:
		return nil, nil
	}
	return object, nil
}

// secret returns nil without an error if the object is optional and not there.
func secret(n *Node, namespace, name string, optional bool) (*v1.Secret, error) {
	if n.Objects == nil {
		return nil, absent("secret", namespace, name, optional)
	}
	object, found, err := n.Objects.Secret(namespace, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("secret %s/%s: %w", namespace, name, err)
	case !found && !optional:
		return nil, fmt.Errorf("secret %q not found", name)
	case !found:
		return nil, nil
	}
	return object, nil
}

func absent(kind, namespace, name string, optional bool) error {
	if optional {
		return nil
	}
	return fmt.Errorf("%s %s/%s is not available: this node has no apiserver to read it from", kind, namespace, name)
}
