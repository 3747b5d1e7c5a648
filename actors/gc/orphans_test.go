package gc

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// told is how many of the rig's directories pods was told of, and how often of the one told of most.
func (r *rig) told() (n, most int) {
	for _, uid := range r.dirs {
		count := r.Count("abandoned " + string(uid))
		n, most = n+min(count, 1), max(most, count)
	}
	return n, most
}

// TestOrphansInParts: pods is not told of thousands of orphans at once, and of each once. Those that are
// collected for another reason meanwhile are left out.
func TestOrphansInParts(t *testing.T) {
	r := newRig(t)
	for n := range 2*orphanBatch + 1 {
		r.dirs = append(r.dirs, types.UID(fmt.Sprintf("old-%d", n)))
	}
	last := r.dirs[len(r.dirs)-1]
	r.Advance(early + orphansEvery/2)
	for _, want := range []int{orphanBatch, 2 * orphanBatch, 2 * orphanBatch} {
		if n, most := r.told(); n != want || most != 1 {
			t.Fatalf("pods was told of %d, of one %d times; want %d, each once", n, most, want)
		}
		r.actor.Tell(Collect{Ref: observed.PodRef{UID: last}})
		r.Advance(orphansEvery)
	}
}

// TestOrphansWaitForSources: a sweep finds orphans after the last source has reported, and none before.
func TestOrphansWaitForSources(t *testing.T) {
	r := newRig(t)
	r.dirs, r.unseen = []types.UID{"old"}, true
	r.Advance(5 * gcPeriod)
	if n, _ := r.told(); n != 0 {
		t.Fatal("pods was told of an orphan before all sources have reported")
	}
	r.unseen = false
	r.Advance(early + time.Second)
	if n, _ := r.told(); n != 1 {
		t.Fatalf("pods was not told of the orphan within %s", early)
	}
}

// TestMountedLate: what was mounted after the pod's actor had unmounted all is unmounted, and the directories go.
func TestMountedLate(t *testing.T) {
	r := newRig(t)
	r.conflict = &port.Error{Kind: port.StateConflict, Verb: "RemovePod", Detail: "something is mounted"}
	r.actor.Tell(Collect{Ref: observed.PodRef{UID: "web"}})
	r.Advance(5 * time.Second)
	r.Keep("directories", "unmount", "collected")
	r.Want("of the pod", "directories web", "unmount web", "directories web", "collected web")
}
