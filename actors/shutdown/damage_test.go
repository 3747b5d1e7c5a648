package shutdown

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/damage"
)

func TestDamagedCheckpoint(t *testing.T) {
	damage.Feed(t, &saveFile, `{"start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:01:00Z"}`)
}
