package report

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Uint32Range(1, 1<<20).Draw(t, "most")
		n := rapid.Uint32Range(1, most).Draw(t, "n")
		if l := countLevel(n, most); l < 1 || l > countLevels || l < countLevel(max(1, n-1), most) {
			t.Fatalf("%d of %d has level %d", n, most, l)
		}
		check.Fatal(t, check.Is(countLevel(most, most), countLevels, "the most, %d, has level", most))
		c := Cell{Pods: uint64(most) + 1, Ready: uint64(n)}
		l := readyLevel(c)
		if l < 1 || l >= readyLevels {
			t.Fatalf("%d of %d ready has level %d: neither all nor none are", c.Ready, c.Pods, l)
		}
		if c.Ready++; c.Ready < c.Pods && readyLevel(c) < l {
			t.Fatalf("%d of %d ready has level %d, and one less has %d", c.Ready, c.Pods, readyLevel(c), l)
		}
	})
	for ready, want := range map[uint64]int{0: 0, 7: readyLevels} {
		check.Equal(t, readyLevel(Cell{Pods: 7, Ready: ready}), want, "%d of 7 ready has level", ready)
	}
}
