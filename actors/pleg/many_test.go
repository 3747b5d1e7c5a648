package pleg_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestMany: a list costs what is in it, also if as many pods can't be read as before, or others.
func TestMany(t *testing.T) {
	linear.Held(t, 500, func(n int) func() {
		r := newRig(t, polling)
		unread := func(name string) (out []observed.Unread) {
			for i := range n {
				out = append(out, observed.Unread{UID: types.UID(fmt.Sprintf("%s-%05d", name, i)), Why: "panic"})
			}
			return out
		}
		for i := range n {
			r.pods = append(r.pods, made(fmt.Sprintf("web-%05d", i), "c"))
		}
		r.unread = unread("lost")
		r.Advance(fast)
		return func() {
			r.Advance(fast)
			r.unread = unread("others")
			r.Advance(fast)
		}
	})
}
