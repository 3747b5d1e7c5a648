// Package growth shows that no handler of an actor costs more than its share of a pod that is greedy: a pod of 1.5 MB,
// which is what an apiserver takes, may have thousands of volumes, or of anything else that a list of its spec has. The
// lists are found by reflection over the types, so that the next one can't be forgotten.
//
//	field of a Pod ──shape──► pods with n, 2n and 4n of it ──simulated node──► CPU of each handler
//
// What is linear takes 4 times as much for 4n as for n, and what is quadratic 16 times.
package growth

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fields are the lists and maps of what a user says of a pod, as Type.Field.
func Fields() []string {
	found := map[string]bool{}
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] || t == reflect.TypeFor[resource.Quantity]() ||
			t == reflect.TypeFor[metav1.FieldsV1]() || t == reflect.TypeFor[metav1.Time]() {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			if k := f.Type.Kind(); k == reflect.Slice || k == reflect.Map {
				found[t.Name()+"."+f.Name] = true
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[v1.PodSpec]())
	walk(reflect.TypeFor[metav1.ObjectMeta]())
	var out []string
	for name := range found {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Of is the field of a shape: shapes of one field have a word behind it.
func Of(shape string) string {
	field, _, _ := strings.Cut(shape, " ")
	return field
}

// each says that a handler costs something for each of many messages, and each time for the whole of the pod: what is
// held is the dearest of them. The actor of a pod, for which no other pod waits, looks at all of it whenever something
// happens.
func each(handler string) bool { return strings.HasPrefix(handler, "pod ") }

// ofContainers says that a shape has many containers: they start one by one, so it takes long, and each has hundreds of
// messages.
func (s *Shape) ofContainers() bool {
	switch s.Name {
	case "PodSpec.InitContainers", "PodSpec.Containers", "PodSpec.Containers with images of their own",
		"PodSpec.Containers with probes", "PodSpec.EphemeralContainers":
		return true
	}
	return false
}
