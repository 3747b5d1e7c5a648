package devices

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariant of presence, for each.
func TestCheck(t *testing.T) {
	for is := awaited; is <= forgotten; is++ {
		p := &plugin{presence: is, one: one{served: is != serving}}
		a := &actor{plugins: map[v1.ResourceName]*plugin{"example.com/gpu": p}}
		check.Says(t, a.Check(), "presence: serving iff served: that of example.com/gpu is "+is.String(), "%v", is)
		p.served = is == serving
		check.Error(t, a.Check())
	}
}
