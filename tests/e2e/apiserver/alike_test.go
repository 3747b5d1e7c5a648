package apiserver

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/contract/apicontract"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestSimulatedIsAlike makes the same random calls to the real apiserver and to
// the simulated one: they must not differ.
//
//tier:served
func TestSimulatedIsAlike(t *testing.T) {
	noLeaks(t)
	real := apicontract.Subject{API: admin(t), Namespace: "default"}
	for seed := range uint64(lab.Size(3, 10)) { // each takes seconds
		s := check.Value(simapi.New(simapi.Config{
			Clock: kernel.WallClock{}, Latencies: &simapi.Latencies{},
			Rand: func(stream string) *rand.Rand {
				h := fnv.New64a()
				h.Write([]byte(stream))
				return rand.New(rand.NewPCG(seed, h.Sum64()))
			},
		}))(t)
		apicontract.Alike(t, real, apicontract.Subject{API: s.Client("n"), Namespace: "default"}, seed, 200)
		if t.Failed() {
			return
		}
	}
}
