package nodestatus

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestPodNetwork: the runtime is told the networks once, again when they change, and after a failure.
func TestPodNetwork(t *testing.T) {
	r := newRig(t)
	var told []string
	var fails error
	r.start(func(d *Deps) {
		d.SetPodCIDR = func(_ context.Context, cidr string, done func(error)) {
			told = append(told, cidr)
			err := fails
			r.Soon(func() { done(err) })
		}
	})
	want := func(what string, want ...string) {
		t.Helper()
		r.Advance(time.Minute)
		if len(told) < len(want) {
			t.Fatalf("%s: told %q", what, told)
		}
		for i, w := range want {
			if told[i] != w {
				t.Errorf("%s: told %q, want %q", what, told, want)
			}
		}
	}
	set := func(cidrs ...string) {
		told = nil
		r.put(func(n *v1.Node) { n.Spec.PodCIDRs, n.Spec.PodCIDR = cidrs, cidrs[0] })
	}
	want("before it has any")
	if len(told) != 0 {
		t.Errorf("told %q", told)
	}
	set("10.1.0.0/24", "fd00::/64")
	want("the first time", "10.1.0.0/24,fd00::/64")
	if len(told) != 1 {
		t.Errorf("told %d times", len(told))
	}
	fails = errors.New("no template")
	set("10.2.0.0/24")
	want("it fails", "10.2.0.0/24", "10.2.0.0/24")
	if r.Logged("cannot tell the runtime the node's pod network") != 1 {
		t.Errorf("not logged once: %s", r.Log.String())
	}
	fails = nil
	told = nil
	want("it works again", "10.2.0.0/24")
	told = nil
	r.Advance(10 * time.Minute)
	if len(told) != 0 {
		t.Errorf("told again: %q", told)
	}
}
