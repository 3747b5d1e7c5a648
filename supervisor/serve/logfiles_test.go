package serve

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestLongPathOfNothing: what would be below nothing is not looked for.
func TestLongPathOfNothing(t *testing.T) {
	l := check.Value(openLogFiles(t.TempDir()))(t)
	if n := testing.AllocsPerRun(1, func() { l.follow(strings.Repeat("a/", 10_000) + "a") }); n > 100 {
		t.Errorf("%v allocations for a path of 10,000 names; want a few", n)
	}
}
