package volumeplan

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks each invariant of a volume, in each state in which it must hold.
func TestCheck(t *testing.T) {
	all := []VolumeState{VolumeWaiting, VolumeFailed, VolumeMounting, VolumeAtCSI, VolumeUp, VolumeRewriting}
	for words, c := range map[string]struct {
		breaks func(*Volume)
		in     []VolumeState
	}{
		"path: 0 unless it is There":                  {func(v *Volume) { v.path = 1 }, []VolumeState{VolumeWaiting, VolumeFailed, VolumeMounting, VolumeAtCSI}},
		"call: 0 unless State.Calls":                  {func(v *Volume) { v.call = 1 }, []VolumeState{VolumeWaiting, VolumeFailed, VolumeAtCSI, VolumeUp}},
		"failure: not nil if Failed, nil if Waiting":  {func(v *Volume) { v.failure = &Failure{} }, []VolumeState{VolumeWaiting}},
		"failure: not nil if Failed, nil if Waiting:": {func(v *Volume) { v.failure = nil }, []VolumeState{VolumeFailed}},
	} {
		for _, s := range all {
			v := Volume{State: s}
			if s == VolumeFailed {
				v.failure = &Failure{}
			}
			p := &Pod{Volumes: []Volume{v}}
			check.Error(t, p.Check())
			c.breaks(&p.Volumes[0])
			if slices.Contains(c.in, s) {
				check.Says(t, p.Check(), words, "%v", s)
			} else {
				check.Error(t, p.Check())
			}
		}
	}
}
