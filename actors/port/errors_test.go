package port_test

import (
	"errors"
	"fmt"
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

// TestDetail: what is shown of an error, and whether it is an answer.
func TestDetail(t *testing.T) {
	full := &port.Error{Kind: port.NotFound, Verb: "StopContainer", Object: "app", Detail: "no such container"}
	for _, c := range []struct {
		err      error
		detail   string
		answered bool
	}{
		{full, "no such container", true},
		{&port.Error{Kind: port.Deadline, Verb: "StopContainer"}, "StopContainer: deadline exceeded", false},
		{fmt.Errorf("stop: %w", full), "stop: StopContainer app: not found: no such container", true},
		{errors.New("no"), "no", true},
	} {
		check.Equal(t, port.Detail(c.err), c.detail, "detail of %v", c.err)
		check.Equal(t, port.Answered(c.err), c.answered, "%v is an answer", c.err)
	}
}
