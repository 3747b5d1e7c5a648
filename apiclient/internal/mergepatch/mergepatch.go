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

// serverOwned are the metadata fields that only the apiserver sets. A patch of one would be
// refused or, with resourceVersion, fail because of an unrelated change.
var serverOwned = []string{
	"resourceVersion", "uid", "managedFields", "generation", "creationTimestamp", "selfLink",
	"deletionTimestamp", "deletionGracePeriodSeconds",
}

// Between is the strategic merge patch that turns p.From into p.To: only the differences, and in
// lists with a key only the elements that differ. It is empty without a difference. schema is any
// object of the kind.
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

// part is the part of an object that the patch changes.
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

// statusOf is an object with only the status of o, for the kinds whose statuses are written
// often. That saves converting the rest.
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

// keepEmptied adds to to the lists and maps that were emptied since from. JSON omits them. A
// patch that removes a whole list would also remove what others have put into it; an empty list
// in the patch names the elements to remove. t is the type of both.
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
