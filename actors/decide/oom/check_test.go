package oom

import (
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariants of a Ledger.
func TestCheck(t *testing.T) {
	one := kill{Kill: Kill{Cgroup: "a"}}
	for words, l := range map[string]*Ledger{
		"fresh: at most mostFresh, and one of each cgroup or container": {fresh: []kill{one, one}},
		"noted: at most mostNoted, one of each ID":                      {noted: []noted{{id: "a"}, {id: "a"}}},
	} {
		check.Says(t, l.Check(), words, "twice")
	}
	l := &Ledger{}
	for i := range mostFresh + 1 {
		l.fresh = append(l.fresh, kill{Kill: Kill{Cgroup: fmt.Sprint(i)}})
	}
	check.Says(t, l.Check(), "fresh: at most mostFresh", "too many")
	l.fresh = l.fresh[1:]
	check.Error(t, l.Check())
	for i := range mostNoted + 1 {
		l.noted = append(l.noted, noted{id: fmt.Sprint(i)})
	}
	check.Says(t, l.Check(), "noted: at most mostNoted", "too many")
	l.noted = l.noted[1:]
	check.Error(t, l.Check())
}
