package nodestatus

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/damage"
)

func TestDamagedCheckpoint(t *testing.T) {
	damage.Feed(t, &resetFile, `{"node":"c7c4a1a0-1f2e-4b52-8f6a-6a6f2b1d1b11","lost":"damaged:01234567"}`)
}
