package containerplan

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Environment is a container's variables in order of their first declaration. A later declaration
// of the same name replaces the value. The zero value has none.
type Environment struct {
	names  []string
	values map[string]string
}

// Names are the names of all variables, in order. They must not be changed.
func (e Environment) Names() []string { return e.names }

// Lookup gives the value of a variable.
func (e Environment) Lookup(name string) (string, bool) {
	v, ok := e.values[name]
	return v, ok
}

func (e *Environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	if e.values == nil {
		e.values = map[string]string{}
	}
	e.values[name] = value
}

// With adds the variables of device plugins, before those of the container. A name that it has too keeps its value.
func (e *Environment) With(plugged []devices.Variable) {
	var out Environment
	for _, v := range plugged {
		out.set(v.Name, v.Value)
	}
	for _, name := range e.names {
		out.set(name, e.values[name])
	}
	*e = out
}

// EnvironmentOf makes the variables of a container: first envFrom in order, with the keys of each object
// sorted, then env in order, then the variables for services that the container does not set
// itself. A value can refer to earlier variables and to those of services. (core/v1 EnvVar and
// EnvFromSource) If all take more than room, the error is ErrTooLong.
func EnvironmentOf(
	from *podspec.Downward, objects podobjects.Set, files EnvFiles, c *v1.Container, room *Expansion,
) (Environment, error) {
	pod := from.Pod
	var e, links Environment
	services, err := objects.Services(pod.Namespace)
	switch {
	case err == nil:
		links.addServices(services, pod)
	case podobjects.StateOf(err) == podobjects.Failed && !podspec.Static(pod):
		// A program that does not find the apiserver's address in its environment gives up, and does not look again.
		return Environment{}, fmt.Errorf("services have not yet been read at least once, cannot construct envvars: %w", err)
	}
	lookup := func(name string) (string, bool) {
		if v, ok := e.Lookup(name); ok {
			return v, true
		}
		return links.Lookup(name)
	}
	// What a later variable of the same name replaces was made too.
	made, size := Expansion{Left: 10 * room.Left}, 0
	add := func(name, value string) error {
		if old, ok := e.Lookup(name); ok {
			size -= len(name) + len(old)
		}
		e.set(name, value)
		if size += len(name) + len(value); size > room.Left {
			return ErrTooLong
		}
		return nil
	}
	for i := range c.EnvFrom {
		vars, err := objects.EnvFrom(pod.Namespace, &c.EnvFrom[i])
		if err != nil {
			return Environment{}, err
		}
		for _, v := range vars {
			if err := add(v.Name, v.Value); err != nil {
				return Environment{}, fmt.Errorf("envFrom: %w", err)
			}
		}
	}
	for i := range c.Env {
		v := &c.Env[i]
		if v.Value != "" || v.ValueFrom == nil {
			value, err := made.Expand(v.Value, lookup)
			if err == nil {
				err = add(v.Name, value)
			}
			if err != nil {
				return Environment{}, fmt.Errorf("env %s: %w", v.Name, err)
			}
			continue
		}
		value, set, err := resolve(from, objects, files, c, v)
		if err != nil {
			return Environment{}, err
		}
		if set {
			if err := add(v.Name, value); err != nil {
				return Environment{}, fmt.Errorf("env %s: %w", v.Name, err)
			}
		}
	}
	for _, name := range links.names {
		if _, ok := e.Lookup(name); ok {
			continue
		}
		if err := add(name, links.values[name]); err != nil {
			return Environment{}, fmt.Errorf("variables of services: %w", err)
		}
	}
	room.Left -= size
	return e, nil
}

// resolve returns the value of a valueFrom. set is false if it is optional and missing. Errors
// about objects have the exact text that users know.
func resolve(
	source *podspec.Downward, objects podobjects.Set, files EnvFiles, c *v1.Container, v *v1.EnvVar,
) (value string, set bool, err error) {
	switch from := v.ValueFrom; {
	case from.FieldRef != nil:
		value, err = source.Field(from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		value, err = source.Resource(c, from.ResourceFieldRef)
	case from.ConfigMapKeyRef != nil:
		return objects.ConfigMapKey(source.Pod.Namespace, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return objects.SecretKey(source.Pod.Namespace, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		value, set, err = files.key(from.FileKeyRef)
		if err == nil {
			return value, set, nil
		}
	default:
		// Validation rejects an empty valueFrom.
	}
	if err != nil {
		return "", false, fmt.Errorf("env %s: %w", v.Name, err)
	}
	return value, true, nil
}
