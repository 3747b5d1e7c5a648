package apiserver

import (
	"os"
	"testing"

	"github.com/troupe-dev/troupe/tests/contract"
	"github.com/troupe-dev/troupe/tests/contract/apicontract"
)

// TestMeasure prints how long the calls of a real apiserver take: what the
// simulated one's latencies are made of. The lines go into apiclient/simapi/verb.go.
func TestMeasure(t *testing.T) {
	if os.Getenv("TROUPE_MEASURE") == "" {
		return // a measurement, not a test
	}
	noLeaks(t)
	t.Log("\n" + contract.Table(apicontract.Measure(t, apicontract.Subject{API: admin(t), Namespace: "default"}, 300)))
}
