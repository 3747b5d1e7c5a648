package node

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestValidate: what is missing is named, all of it in one error.
func TestValidate(t *testing.T) {
	c := Config{Memory: &memory.Rules{}}
	err := c.Validate()
	for _, want := range []string{`node ""`, "Name is missing", "Ports.Runtime is missing", "Memory needs Assign"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want also %q", err, want)
		}
	}
	c = Config{
		Name: "n", Assign: &cpus.Rules{},
		Ports: Ports{
			Runtime: struct{ port.Runtime }{}, Host: struct{ port.Host }{}, Network: struct{ port.Network }{},
			Manifests: struct{ port.Manifests }{}, Checkpoints: struct{ port.Checkpoints }{},
			Events: struct{ port.Recorder }{}, States: struct{ port.Checkpoints }{},
		},
	}
	if err := c.Validate(); err != nil {
		t.Errorf("nothing is missing, but: %v", err)
	}
}
