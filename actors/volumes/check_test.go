package volumes

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck: the invariants of each volume of each pod are held; decide/volumeplan breaks them.
func TestCheck(t *testing.T) {
	p := &user{}
	p.Volumes = []volumeplan.Volume{{}, {State: volumeplan.VolumeFailed}}
	a := &volumes{pods: map[types.UID]*user{"a": p}}
	check.Says(t, a.Check(), "failure: not nil if Failed, nil if Waiting", "it failed for no reason")
	p.Volumes[1].State = volumeplan.VolumeWaiting
	check.Error(t, a.Check())
}
