package podspec

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// SameResources says whether two lists have equal amounts, whatever their notation.
func SameResources(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a { // order-free: all
		if y, ok := b[name]; !ok || x.Cmp(y) != 0 {
			return false
		}
	}
	return true
}

// ResourceText formats a list for people: [cpu=1 memory=64Mi].
func ResourceText(l v1.ResourceList) string {
	all := make([]string, 0, len(l))
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		all = append(all, string(name)+"="+q.String())
	}
	return "[" + strings.Join(all, " ") + "]"
}

// AddResources adds more to a list, which must not be nil. They share nothing.
func AddResources(to, more v1.ResourceList) {
	for name, q := range more { // order-free: by key
		sum := to[name].DeepCopy()
		sum.Add(q)
		to[name] = sum
	}
}

// RaiseResources raises the amounts of a list, which must not be nil, to at least those of another. They
// share nothing.
func RaiseResources(to, other v1.ResourceList) {
	for name, q := range other { // order-free: by key
		if have, ok := to[name]; !ok || q.Cmp(have) > 0 {
			to[name] = q.DeepCopy()
		}
	}
}

// OnlyResources are the quantities in l of the resources in names.
func OnlyResources(l, names v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name := range names { // order-free: a map again
		if q, ok := l[name]; ok {
			out[name] = q
		}
	}
	return out
}

// IsExtended says whether a resource is one that others than Kubernetes named: devices, and what an operator or a
// scheduler counts (API concept "extended resource"). Its name has a domain that is not Kubernetes', and a quota
// may name it.
func IsExtended(name v1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.Contains(s, v1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(s, v1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+s)) == 0
}
