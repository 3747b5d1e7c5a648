package report

import (
	"testing"

	"pgregory.net/rapid"
)

func TestLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Uint32Range(1, 1<<20).Draw(t, "most")
		n := rapid.Uint32Range(1, most).Draw(t, "n")
		if l := countLevel(n, most); l < 1 || l > countLevels || l < countLevel(max(1, n-1), most) {
			t.Fatalf("%d of %d has level %d", n, most, l)
		}
		if l := countLevel(most, most); l != countLevels {
			t.Fatalf("the most, %d, has level %d", most, l)
		}
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
		if got := readyLevel(Cell{Pods: 7, Ready: ready}); got != want {
			t.Errorf("%d of 7 ready has level %d, want %d", ready, got, want)
		}
	}
}
