package cgroups

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStages: a change that the diagram does not have panics, and no other does.
func TestStages(t *testing.T) {
	for from := known; from <= going; from++ {
		for to := known; to <= going; to++ {
			p := &podded{stage: from}
			panicked := func() (is bool) {
				defer func() { is = recover() != nil }()
				p.become(to)
				return false
			}()
			check.Equal(t, panicked, !slices.Contains(next[from], to), "%v becomes %v: panic", from, to)
			if !panicked {
				check.Equal(t, p.stage, to, "%v became", from)
			}
		}
	}
}

// TestCheck breaks the invariant.
func TestCheck(t *testing.T) {
	share := podcgroup.Share{Class: v1.PodQOSBurstable, MilliCPU: 100}
	a := &cgroups{pods: map[types.UID]*podded{"a": {pod: &v1.Pod{}, share: share}, "b": {}}}
	check.Says(t, a.Check(), "sums: the sum of the shares of pods", "a share that is in no sum")
	a.sums.Add(share, 1)
	check.Error(t, a.Check())
}
