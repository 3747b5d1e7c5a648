package contract_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/contract"
)

// TestMeasure measures a runtime whose latencies are known.
func TestMeasure(t *testing.T) {
	const bandwidth = 10 << 20
	var want simcri.Latencies
	for m := range want {
		want[m] = simcri.Constant(time.Duration(m+1) * 3 * time.Millisecond)
	}
	small, large := contract.SizedImage{Name: "registry.test/contract/small:1", Bytes: 1 << 20}, contract.SizedImage{Name: "registry.test/contract/large:1", Bytes: 32 << 20}
	s := inProcess(func(c *simcri.Config) {
		c.Latencies, c.Bandwidth, c.Events.Delay = &want, bandwidth, simcri.Constant(20*time.Millisecond)
		for _, i := range []contract.SizedImage{small, large} {
			c.Registry.Put(i.Name, simcri.RegistryImage{SizeBytes: i.Bytes})
		}
	}, true)(t)
	got := map[string]time.Duration{}
	for _, m := range contract.Measure(t, s, 2) {
		got[m.Method] = m.Median()
	}
	pulls := contract.MeasurePulls(t, s, []contract.SizedImage{small, large}, 3)
	got["PullImage"] = pulls.Base.Median()
	if d := got["Events.Delay"] - 20*time.Millisecond; d < 0 || d > time.Millisecond {
		t.Errorf("events come after %v", got["Events.Delay"])
	}
	for m := range want {
		name := simcri.Method(m).String()
		if strings.HasPrefix(name, "Probe") || name == "Events" {
			continue // the network, and a stream that opens once
		}
		is := time.Duration(m+1) * 3 * time.Millisecond
		if d := got[name] - is; d < -time.Millisecond || d > time.Millisecond {
			t.Errorf("%s: measured %v, is %v", name, got[name], is)
		}
	}
	if pulls.Bandwidth < bandwidth-bandwidth/100 || pulls.Bandwidth > bandwidth+bandwidth/100 || !strings.Contains(pulls.String(), "const DefaultBandwidth = 10 << 20\n") {
		t.Errorf("%s", pulls)
	}
}
