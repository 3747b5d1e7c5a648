package probes

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/damage"
)

func TestDamagedCheckpoint(t *testing.T) {
	damage.Feed(t, &saveFile, `{"containers":{"c1":{"started":true,"ready":true},"c2":{"started":true}}}`)
}
