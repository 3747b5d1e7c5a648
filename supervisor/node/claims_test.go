package node

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
)

// TestRuntimeWithoutCDI is named when the first DRA driver registers.
func TestRuntimeWithoutCDI(t *testing.T) {
	for _, c := range []struct {
		name, version string
		want          int
	}{
		{"containerd", "1.6.20~ds1", 1}, {"containerd", "v1.6.9", 1}, {"containerd", "1.7.0", 0}, {"containerd", "v2.4.2", 0},
		{"containerd", "main", 0}, {"cri-o", "1.6.0", 0},
	} {
		var log bytes.Buffer
		n := 0
		found := warnOnce(zerolog.New(&log), port.RuntimeVersion{Name: c.name, Version: c.version}, func(port.DRADriver) { n++ })
		found(port.DRADriver{Name: "gpu.example.com"})
		found(port.DRADriver{Name: "net.example.com"})
		if got := strings.Count(log.String(), "does not know CDI"); got != c.want || n != 2 {
			t.Errorf("%s %s: %d drivers were found, and the log is %q", c.name, c.version, n, log.String())
		}
	}
}
