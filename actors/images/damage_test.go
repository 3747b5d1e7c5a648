package images

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/damage"
)

func TestDamagedCheckpoint(t *testing.T) {
	damage.Feed(t, &agesFile, `{"sha256:a":{"seen":"2026-01-01T00:00:00Z","used":"2026-01-02T00:00:00Z"},
		"sha256:b":{"seen":"2026-01-01T00:00:00Z"}}`)
}
