package mirrors_test

import (
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/tests/linear"
)

// TestManyMirrors: whatever happens, the work for it grows with the static pods of the node, and no faster.
func TestManyMirrors(t *testing.T) {
	linear.Held(t, 500, func(n int) func() {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("pod-%05d=%d", i, i))
		}
		r := newRig(t, statics(all...), found(all...))
		return func() { r.tells(node) }
	})
}
