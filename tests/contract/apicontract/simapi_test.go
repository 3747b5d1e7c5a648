package apicontract_test

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/contract"
	"github.com/troupe-dev/troupe/tests/contract/apicontract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const node = "n1"

// rands gives the named streams of a seed.
func rands(seed uint64) func(string) *rand.Rand {
	return func(stream string) *rand.Rand {
		h := fnv.New64a()
		h.Write([]byte(stream))
		return rand.New(rand.NewPCG(seed, h.Sum64()))
	}
}

func newServer(t *testing.T, clock simapi.Clock, change func(*simapi.Config)) *simapi.Server {
	t.Helper()
	cfg := simapi.Config{Clock: clock, Rand: rands(7)}
	change(&cfg)
	return check.Value(simapi.New(cfg))(t)
}

func subject(s *simapi.Server, broken simapi.Link) apicontract.Subject {
	return apicontract.Subject{
		API: s.Client(node), Other: s.Client("n2"), Namespace: "contract",
		Break: func() func() {
			s.SetLink(node, broken)
			return func() { s.SetLink(node, simapi.Up) }
		},
		Expire: s.Expire,
	}
}

func virtual(broken simapi.Link, change func(*simapi.Config)) func(*testing.T) apicontract.Subject {
	return func(t *testing.T) apicontract.Subject {
		v := kernel.NewVirtual(7, time.Date(2030, 1, 1, 0, 0, 0, 123456789, time.UTC))
		s := subject(newServer(t, v, change), broken)
		s.Now = v.Now
		s.Until = func(limit time.Duration, cond func() bool) bool { return v.RunUntil(v.Now().Add(limit), cond) }
		s.Pass, s.Context = v.Advance, contract.Ends(v)
		return s
	}
}

func TestSimulated(t *testing.T) {
	apicontract.API(t, virtual(simapi.Refused, func(*simapi.Config) {}))
}

// TestSimulatedSilent: a connection that says nothing is as good as none.
func TestSimulatedSilent(t *testing.T) {
	apicontract.API(t, virtual(simapi.Silent, func(*simapi.Config) {}))
}

// TestSimulatedBadWatch: the suite asks for no more of watches than that they
// come to what is there.
func TestSimulatedBadWatch(t *testing.T) {
	apicontract.API(t, virtual(simapi.Refused, func(c *simapi.Config) {
		c.WatchSkip, c.WatchBuffer, c.History = 0.5, 3, 5
		c.ExtraLag = func(simapi.Watching) time.Duration { return 2 * time.Second }
	}))
}

// TestSimulatedLive runs the suite on the machine's clock.
func TestSimulatedLive(t *testing.T) {
	apicontract.API(t, func(t *testing.T) apicontract.Subject {
		t.Parallel()
		return subject(newServer(t, kernel.WallClock{}, func(*simapi.Config) {}), simapi.Refused)
	})
}

// TestAlike holds the comparison to itself: a server on the machine's clock, and
// one on a virtual clock whose watches are bad, are alike.
func TestAlike(t *testing.T) {
	for seed := range uint64(5) {
		one := subject(newServer(t, kernel.WallClock{}, func(c *simapi.Config) { c.Latencies = &simapi.Latencies{} }), simapi.Refused)
		other := virtual(simapi.Refused, func(c *simapi.Config) { c.WatchSkip = 0.5 })(t)
		apicontract.Alike(t, one, other, seed, 200)
	}
}

// TestMeasure: the measurement finds the latencies that a server was given.
func TestMeasure(t *testing.T) {
	lat := simapi.Latencies{}
	for v := range lat {
		lat[v] = simport.Constant(time.Duration(v+1) * time.Millisecond)
	}
	s := newServer(t, kernel.WallClock{}, func(c *simapi.Config) { c.Latencies = &lat })
	measured := apicontract.Measure(t, subject(s, simapi.Refused), 5)
	check.Equal(t, len(measured), 8, "measured %+v", measured)
	for _, m := range measured {
		for v := range lat {
			want := time.Duration(v+1) * time.Millisecond
			if m.Method == simapi.Verb(v).String() && (m.Took[0] < want || m.Took[0] > want+200*time.Millisecond) {
				t.Errorf("%s took %v, want %v", m.Method, m.Took[0], want)
			}
		}
	}
}
