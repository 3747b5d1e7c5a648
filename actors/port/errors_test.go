package port_test

import (
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestPanicked: nobody knows what a call has done whose work has panicked.
func TestPanicked(t *testing.T) {
	err := port.Panicked("StageVolume", "disks.example.com/1")("panic: index out of range (stage.go:7)")
	check.Equal(t, err.Error(), "StageVolume disks.example.com/1: panic: index out of range (stage.go:7)", "text")
	check.Equal(t, port.CSIOutcome(err), csi.Unsure, "what a driver has done")
	check.Equal(t, port.Unanswered(port.KindOf(err)), true, "no answer")
}
