package scenarios

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/run"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestFiles runs every scenario file: what it expects is met, and a second run
// is the same to the last message.
func TestFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			t.Parallel()
			f := check.Value(scenario.Load(file, scenario.Given{}))(t)
			var hashes []string
			for range 2 {
				w := check.Value(sim.New(sim.Config{Seed: *f.Seed}))(t)
				out := check.Value(run.Run(t.Context(), w, run.Options{Seed: *f.Seed, Scenario: f, ScenarioName: file}))(t)
				for _, failure := range out.Summary.Failures {
					t.Error(failure)
				}
				if out.Summary.Expectations == 0 {
					t.Error("it expects nothing")
				}
				hashes = append(hashes, out.Summary.TraceHash)
			}
			check.Equal(t, hashes[0], hashes[1], "the second run had trace %s, the first %s", hashes[1], hashes[0])
		})
	}
}
