package simapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Clock is the time of the simulated world.
type Clock = simport.Clock

// Dist is a distribution of durations.
type Dist = simport.Dist

// The random streams that a Server requests from Config.Rand. A new use of randomness gets a new
// stream, so that the draws of the others do not change.
const (
	StreamUIDs    = "simapi/uids"    // UIDs of objects
	StreamNames   = "simapi/names"   // what is appended to generateName
	StreamTokens  = "simapi/tokens"  // service account tokens
	StreamLatency = "simapi/latency" // how long calls take
	StreamWatch   = "simapi/watch"   // how late watches report, and what they skip
	StreamBackoff = "simapi/backoff" // when a broken watch retries
	StreamFaults  = "simapi/faults"  // late effects
)

// Config has all inputs of a Server. Clock and Rand are required.
type Config struct {
	Clock Clock
	// Rand returns the random stream of a name. It is called once per stream, in New.
	Rand func(stream string) *rand.Rand

	// Latencies are the durations of calls; nil is DefaultLatencies.
	Latencies *Latencies
	// LateEffect is the chance, 0 to 1, that a call takes effect although its context or
	// connection ended before the answer.
	LateEffect float64
	// Fault returns the fault of a call; nil is no fault. It is called on the caller's goroutine,
	// without the lock. A fault of a List or Watch breaks the port's watch that makes it; Partial
	// and LoseReply there act as Fail and Hang, WorkLate as Latency. AnswerLate makes a List tell
	// old objects late, followed by the changes since.
	Fault func(Call) Fault

	// WatchLag is the delay of a watch's events; the zero value is DefaultWatchLag. Events of one
	// watch stay in order.
	WatchLag Dist
	// ExtraLag, if not nil, adds to it: a stale watch. It is called under the lock for each
	// change and watch, and must not call the server.
	ExtraLag func(Watching) time.Duration
	// WatchSkip is the chance, 0 to 1, that a watch skips a version of an object when a newer one
	// comes before it was reported.
	WatchSkip float64
	// WatchBuffer is how many changes may wait for one watch of the port; with more, the watch
	// starts over with the current objects. 0 is DefaultWatchBuffer.
	WatchBuffer int
	// History is how many changes of each kind are kept for watches that resume; 0 is
	// DefaultHistory.
	History int

	// EventTTL is how long an Event is kept after its last write, EventLimit how many are kept;
	// beyond that the oldest expire first. 0 is DefaultEventTTL and DefaultEventLimit.
	EventTTL   time.Duration
	EventLimit int
}

// Defaults of Config.
const (
	DefaultWatchBuffer = 1000
	DefaultHistory     = 4096
)

// Fault is a fault of one call.
type Fault = simport.Fault

// Watching describes one watch of the port for Config.ExtraLag.
type Watching struct {
	Node      string
	Selection port.Selection
}

// Validate returns what is wrong with the configuration.
func (c *Config) Validate() error {
	var errs []error
	if c.Clock == nil {
		errs = append(errs, errors.New("simapi: Clock is required"))
	}
	if c.Rand == nil {
		errs = append(errs, errors.New("simapi: Rand is required"))
	}
	for _, chance := range []struct {
		name string
		is   float64
	}{{"LateEffect", c.LateEffect}, {"WatchSkip", c.WatchSkip}} {
		if !(chance.is >= 0 && chance.is <= 1) {
			errs = append(errs, fmt.Errorf("simapi: %s %v: want a chance, 0 to 1", chance.name, chance.is))
		}
	}
	if c.WatchBuffer < 0 || c.History < 0 || c.EventTTL < 0 || c.EventLimit < 0 {
		errs = append(errs, fmt.Errorf("simapi: WatchBuffer %d, History %d, EventTTL %v, EventLimit %d: want none negative",
			c.WatchBuffer, c.History, c.EventTTL, c.EventLimit))
	}
	if err := c.WatchLag.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("simapi: WatchLag: %w", err))
	}
	if c.Latencies != nil {
		for v, d := range c.Latencies {
			if err := d.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("simapi: Latencies[%s]: %w", Verb(v), err))
			}
		}
	}
	return errors.Join(errs...)
}

// Server is one simulated apiserver.
type Server struct {
	cfg   Config
	stage *simport.Stage
	calls *simport.Calls

	uids, names, tokens, lat, wat, bo *rand.Rand

	// The stage's lock guards all below.

	// version is that of the newest change of any object.
	version uint64
	tables  [kindCount]*table
	marks   marks
	specs   specCache
	// clients are ordered by their first request.
	clients []*client
	byNode  map[string]*client
	down    bool
	counts  [verbCount]uint64
	tokenNo uint64
	// services counts the assigned service addresses.
	services uint32
	ages     ages
}

// firstVersion is the version of an empty server. 0 means "any" in the API.
const firstVersion = 1

// New makes an empty server.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Latencies == nil {
		cfg.Latencies = &defaultLatencies
	}
	if cfg.WatchLag.IsZero() {
		cfg.WatchLag = defaultWatchLag
	}
	if cfg.WatchBuffer == 0 {
		cfg.WatchBuffer = DefaultWatchBuffer
	}
	if cfg.History == 0 {
		cfg.History = DefaultHistory
	}
	if cfg.EventTTL == 0 {
		cfg.EventTTL = DefaultEventTTL
	}
	if cfg.EventLimit == 0 {
		cfg.EventLimit = DefaultEventLimit
	}
	stage := simport.NewStage(cfg.Clock)
	s := &Server{
		cfg: cfg, stage: stage, version: firstVersion, byNode: map[string]*client{},
		uids: cfg.Rand(StreamUIDs), names: cfg.Rand(StreamNames), tokens: cfg.Rand(StreamTokens),
		lat: cfg.Rand(StreamLatency), wat: cfg.Rand(StreamWatch), bo: cfg.Rand(StreamBackoff),
		calls: simport.NewCalls(stage, cfg.LateEffect, cfg.Rand(StreamFaults)),
	}
	for k := range s.tables {
		s.tables[k] = newTable(port.APIKind(k), cfg.History)
	}
	return s, nil
}
