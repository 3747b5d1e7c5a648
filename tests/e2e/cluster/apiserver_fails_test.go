package cluster

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// Tests with a control plane of their own, which they stop and start again. They take the longest, and the name of their
// file lets them begin first, beside each other.

//tier:served
func TestApiserverAway(t *testing.T) {
	t.Parallel()
	apiserverAway(t, ownPlane(t))
}

//tier:served
func TestApiserverRestarts(t *testing.T) {
	t.Parallel()
	apiserverRestarts(t, ownPlane(t))
}

//tier:served
func TestApiserverAbsent(t *testing.T) {
	t.Parallel()
	startWithoutApiserver(t, ownPlane(t))
}

//tier:served
func TestApiserverRestored(t *testing.T) {
	t.Parallel()
	restoredFromBackup(t, ownPlane(t))
}

// ownPlane starts a control plane for one test.
func ownPlane(t *testing.T) func(*setup) {
	t.Helper()
	lab.Need(t, lab.GoToolchain)
	p := check.Value(lab.StartControlPlane(t.Context(), planeIn(t.TempDir())))(t)
	t.Cleanup(func() { stopPlane(t, p) })
	return func(s *setup) { s.plane = p }
}
