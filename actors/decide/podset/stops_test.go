package podset

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStopReasons goes through the table of StopReason: what is in the checkpoint, and what the pod's actor is told before
// it is there.
func TestStopReasons(t *testing.T) {
	for why, want := range map[StopReason]struct {
		origin           podspec.Origin
		removed, evicted bool // in the checkpoint
		told             bool // at once
	}{
		ForDeletion: {podspec.API, false, false, true},
		ForRelease:  {podspec.API, false, false, true},
		ForRemoval:  {podspec.File, true, false, false},
		ForNode:     {podspec.API, false, true, false},
		ForRefusal:  {podspec.API, false, false, true},
	} {
		var s Stops
		stop := podlife.Stop{At: now, Grace: time.Minute, Fail: why == ForNode}
		check.Equal(t, s.Add(why, stop), !want.told, "%v is to be saved", why)
		check.Equal(t, s.EffectiveStop() != nil, want.told, "%v is told at once", why)
		removal, eviction := s.ToSave(want.origin)
		check.Equal(t, removal != nil, want.removed, "%v is a removal in the checkpoint", why)
		check.Equal(t, eviction != nil, want.evicted, "%v is an eviction in the checkpoint", why)
		check.Equal(t, s.MarkSaved(), !want.told, "%v waits for the checkpoint", why)
		wantStop(t, why.String()+", when it is saved", s.EffectiveStop(), &stop)
	}
}

// TestStopsTogether: of three that ask in any order, none makes a pod end later, the node's own decision says why it
// ends, and the next agent finds the same.
func TestStopsTogether(t *testing.T) {
	all := []StopReason{ForDeletion, ForRelease, ForRemoval, ForNode}
	stopFor := func(why StopReason, i int) podlife.Stop {
		s := podlife.Stop{At: now.Add(time.Duration(i) * time.Second), Grace: time.Duration(3-i) * 10 * time.Second}
		if s.Why = why.String(); why == ForNode {
			s.Fail, s.Reason = true, "Evicted"
		}
		return s
	}
	for _, first := range all {
		for _, second := range all {
			for _, third := range all {
				var s Stops
				node := false
				for i, why := range []StopReason{first, second, third} {
					before := s.Stop
					s.Add(why, stopFor(why, i))
					node = node || why == ForNode
					check.Error(t, s.check("a"))
					if before != nil && s.Stop.At.Add(s.Stop.Grace).After(before.At.Add(before.Grace)) {
						t.Errorf("%v, %v, %v: it ends %+v, and was to end %+v", first, second, third, s.Stop, before)
					}
				}
				check.Equal(t, s.Stop.Reason == "Evicted" && s.Stop.Fail, node, "%v, %v, %v: the node says why", first, second, third)
				s.MarkSaved()
				wantStop(t, "when all is saved", s.EffectiveStop(), s.Stop)
				var next Stops
				removal, eviction := s.ToSave(podspec.File)
				if removal != nil {
					next.Recall(ForRemoval, *removal)
				}
				if eviction != nil {
					next.Recall(ForNode, *eviction)
				}
				if removal != nil || eviction != nil {
					wantStop(t, "the next agent", next.EffectiveStop(), s.Stop)
				}
			}
		}
	}
}
