package smallmap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// It finds what a search finds, whatever is guessed.
func TestLookup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(rapid.IntRange(0, 4*Few), 0, 3*Few, rapid.ID[int]).Draw(t, "list")
		l := LookupIn(list, func(i *int) int { return *i })
		for k := range 4*Few + 1 {
			guess := rapid.IntRange(0, 3*Few).Draw(t, "guess")
			if got, want := l.Place(k, guess), slices.Index(list, k); got != want {
				t.Fatalf("%d is at %d of %v, want %d", k, got, list, want)
			}
		}
	})
}
