package podset

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/damage"
)

func TestDamagedCheckpoints(t *testing.T) {
	t.Run("stops", func(t *testing.T) {
		damage.Feed(t, &stopsFile, `{"pods":{
			"a":{"containers":{"app":{"id":"c1","cause":"ContainerChanged"}}},
			"b":{"since":"2026-01-01T00:00:00Z","grace":30000000000,"firstSandbox":2,"before":[{"name":"app","restartCount":3,
				"state":{"terminated":{"exitCode":1}}}],"beforeInit":[{"name":"setup"}]},
			"c":{"eviction":{"at":"2026-01-01T00:00:00Z","reason":"Evicted","message":"the node was low on memory","fail":true}},
			"d":{"over":[{"name":"app","containerID":"sim://c1","state":{"terminated":{"exitCode":3}}}]}}}`)
	})
	t.Run("allocations", func(t *testing.T) {
		damage.Feed(t, &allocationsFile, `{"pods":{"a":{"generation":2,"pod":{"requests":{"cpu":"1"}},
			"containers":{"app":{"requests":{"cpu":"500m"},"limits":{"memory":"1Gi"}}}},"b":{"containers":{}}}}`)
	})
}
