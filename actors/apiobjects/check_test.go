package apiobjects

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcertificate"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariants one by one.
func TestCheck(t *testing.T) {
	ref := podobjects.Ref{Kind: podobjects.ConfigMap, Namespace: "default", Name: "c"}
	for name, c := range map[string]struct {
		a     apiobjects
		words string
	}{
		"object":      {apiobjects{of: map[podobjects.Ref]*object{ref: {}}}, "apiobjects: of: each has a user"},
		"bundle":      {apiobjects{bundles: bundles{uses: map[podobjects.Ref]*bundleUse{ref: {}}}}, "bundles: uses: each has a user"},
		"certificate": {withCertificate(podcertificate.Fresh), "Held: Fresh has one, Reading has none"},
	} {
		check.Says(t, c.a.Check(), c.words, "%s", name)
	}
	whole := withCertificate(podcertificate.Reading)
	whole.of = map[podobjects.Ref]*object{ref: {users: []types.UID{"a"}}}
	whole.bundles.uses = map[podobjects.Ref]*bundleUse{ref: {users: map[types.UID]bool{"a": true}}}
	check.Error(t, whole.Check())
}

func withCertificate(s podcertificate.State) apiobjects {
	c := &certified{Certificate: podcertificate.Certificate{State: s}}
	return apiobjects{certificates: certificates{of: map[secret]*certified{{uid: "a"}: c}}}
}
