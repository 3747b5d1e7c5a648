package volumes

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/volumestate"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck: the invariants of each volume of each pod are held; decide/volumestate breaks them.
func TestCheck(t *testing.T) {
	p := &user{}
	p.Volumes = []volumestate.Volume{{}, {State: volumestate.Failed}}
	a := &volumes{pods: map[types.UID]*user{"a": p}}
	check.Says(t, a.Check(), "failure: not nil if Failed, nil if Waiting", "it failed for no reason")
	p.Volumes[1].State = volumestate.Waiting
	check.Error(t, a.Check())
}
