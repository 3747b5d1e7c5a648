package cluster

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestControlPlaneFails has a control plane of its own, and stops it and starts it again. It takes the longest, and
// the name of its file lets it begin first.
func TestControlPlaneFails(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain)
	p, err := lab.StartControlPlane(t.Context(), planeIn(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopPlane(t, p) })
	own := func(s *setup) { s.plane = p }
	for _, c := range []struct {
		name string
		do   func(t *testing.T, own func(*setup))
	}{
		{"away", apiserverAway},
		{"restarts", apiserverRestarts},
		{"absent", startWithoutApiserver},
		{"restored", restoredFromBackup},
	} {
		t.Run(c.name, func(t *testing.T) { c.do(t, own) })
	}
}
