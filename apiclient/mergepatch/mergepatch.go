// Package mergepatch computes the strategic merge patch of port.APIPatch: the difference
// between two versions of an object. The client of a real apiserver and the simulated
// apiserver share it.
package mergepatch

import (
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/troupe-dev/troupe/actors/port"
)

// serverOwned are the fields of metadata that the apiserver alone sets. A patch
// that named one would ask for what can't be had, or, with resourceVersion,
// fail because of a change that it has nothing to do with.
var serverOwned = []string{
	"resourceVersion", "uid", "managedFields", "generation", "creationTimestamp", "selfLink",
	"deletionTimestamp", "deletionGracePeriodSeconds",
}

// Between is the strategic merge patch that turns p.From into p.To: only what
// differs, and in lists with a key only the elements that do. It is empty if
// nothing does. schema is any object of the kind.
func Between(p port.APIPatch, schema port.APIObject) (map[string]any, error) {
	from, err := part(p.From, p.Status)
	if err != nil {
		return nil, err
	}
	to, err := part(p.To, p.Status)
	if err != nil {
		return nil, err
	}
	keepEmptied(from, to, reflect.TypeOf(schema))
	patch, err := strategicpatch.CreateTwoWayMergeMapPatch(from, to, schema)
	if err != nil {
		return nil, fmt.Errorf("compute the patch: %w", err)
	}
	return patch, nil
}

// part is the part of an object that a patch is about.
func part(o port.APIObject, status bool) (map[string]any, error) {
	if status {
		o = statusOf(o)
	}
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("compute the patch: %w", err)
	}
	if status {
		only := map[string]any{}
		if s, ok := all["status"]; ok {
			only["status"] = s
		}
		return only, nil
	}
	for _, field := range []string{"status", "kind", "apiVersion"} {
		delete(all, field)
	}
	if metadata, ok := all["metadata"].(map[string]any); ok {
		for _, field := range serverOwned {
			delete(metadata, field)
		}
	}
	return all, nil
}

// statusOf is an object with the status of o and, where it is of a kind whose
// statuses are written often, with nothing else, which would be converted in vain.
func statusOf(o port.APIObject) port.APIObject {
	switch o := o.(type) {
	case *v1.Pod:
		return &v1.Pod{Status: o.Status}
	case *v1.Node:
		return &v1.Node{Status: o.Status}
	default:
		return o
	}
}

// keepEmptied puts the lists and maps into to that were emptied since from. JSON
// leaves them out, and a patch that says of a list that it is gone would take
// what others have put into it; one that says that it is empty names what is to
// go. t is the type of what both are.
func keepEmptied(from, to map[string]any, t reflect.Type) {
	if t = pointed(t); t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" { // inline
			keepEmptied(from, to, f.Type)
			continue
		}
		was, is := from[name], to[name]
		switch pointed(f.Type).Kind() {
		case reflect.Map:
			if was != nil && is == nil {
				to[name] = map[string]any{}
			}
		case reflect.Slice:
			if _, list := was.([]any); list && is == nil { // bytes are a string
				to[name] = []any{}
			}
		case reflect.Struct:
			inWas, ok := was.(map[string]any)
			if inIs, both := is.(map[string]any); ok && both {
				keepEmptied(inWas, inIs, f.Type)
			}
		default: // a single value
		}
	}
}

func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
