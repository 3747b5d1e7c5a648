package apiserver

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/contract"
	"github.com/troupe-dev/troupe/tests/contract/apicontract"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestMeasure prints how long the calls of a real apiserver take: what the
// simulated one's latencies are made of. The lines go into apiclient/simapi/verb.go.
//
//tier:all a measure, run with TROUPE_MEASURE
func TestMeasure(t *testing.T) {
	lab.Asked(t, "TROUPE_MEASURE", "it measures, and tests nothing")
	noLeaks(t)
	t.Log("\n" + contract.Table(apicontract.Measure(t, apicontract.Subject{API: admin(t), Namespace: "default"}, 300)))
}
