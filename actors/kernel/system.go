package kernel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// Config holds the parts of a System.
type Config struct {
	// Clock is also the scheduler in a simulation: a *Virtual is both.
	Clock Clock
	// Seed is for the random streams of actors.
	Seed uint64
	// Log gets the kernel's own messages: crashes and restarts.
	Log zerolog.Logger
	// Tracer sees every delivered message and every effect; nil for none.
	Tracer Tracer
	// History is the number of handled messages in a crash report; 16 if zero, none if negative.
	History int
	// MailboxLimit bounds each mailbox; 65,536 if zero: a pod of 1.5 MB has some thousands of containers, and an actor
	// asks for something of each.
	MailboxLimit int
	// OnCrash is told of every crash and what was decided, on the goroutine of
	// the crashed actor's parent. It must not block. May be nil.
	OnCrash func(*CrashReport)
	// OnFatal is told when the topmost actor's policy gave up: nothing is left
	// that could restart it. The daemon exits. May be nil.
	OnFatal func(*CrashReport)
	// Intercept decides on each message that an actor tells another, and Within is called before each
	// Tell and Do of an actor, the k-th while it handles m. It may panic, as the actor might there; m
	// is nil in Start, Stop, Overflowed, Resync and ChildStopped. For simulations: both are called on the
	// goroutine of the *Virtual. May be nil, and cost nothing then.
	Intercept func(from, to string, m any) Fate
	Within    func(actor string, m any, k int)
	// Violated is told of each invariant that does not hold after a message: of actors that are Checked, and of the
	// kernel. It is called on the goroutine of the actor, and must not call back into the System. For simulations and
	// tests. May be nil: then nothing is checked.
	Violated func(*Violation)
}

// Validate says what is missing.
func (c Config) Validate() error {
	if c.Clock == nil {
		return errors.New("kernel: Config.Clock is nil: give WallClock{} or a *Virtual")
	}
	if c.MailboxLimit < 0 {
		return fmt.Errorf("kernel: Config.MailboxLimit is %d: it can't be negative", c.MailboxLimit)
	}
	return nil
}

// System holds the actors of one process: of one node in the daemon, of
// thousands in a simulation.
type System struct {
	actors      *actor.ActorSystem
	clock       Clock
	sched       scheduler
	tracer      Tracer
	log         zerolog.Logger
	seed        uint64
	history     int
	limit       int
	onCrash     func(*CrashReport)
	onFatal     func(*CrashReport)
	violated    func(*Violation)
	interceptor *interceptor // nil but in simulations that ask for it

	mu         sync.RWMutex
	cells      map[string]*cell
	endedStats map[string]KindStats // what ended actors had counted, by kind
	shapes     map[shape]*shape
	props      map[propsKey]*actor.Props
	endWaiters []chan<- struct{} // closed when an actor ends
	queues     sync.Pool         // of *queue, empty ones

	// spawning is the cell that protoactor is being given; spawnMu guards it.
	spawnMu  sync.Mutex
	spawning *cell

	crashes     crashRing
	lost        deadLetterCounts
	effectSeq   atomic.Uint64
	dropped     atomic.Uint64
	deadLetters atomic.Uint64
}

// NewSystem makes an empty system. The first of a process costs about 3 MB until the next collections of garbage.
func NewSystem(c Config) (*System, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	interceptor, err := c.interceptor()
	if err != nil {
		return nil, err
	}
	s := &System{
		clock: c.Clock, interceptor: interceptor, tracer: c.Tracer, log: c.Log, seed: c.Seed,
		history: c.History, limit: c.MailboxLimit,
		onCrash: c.OnCrash, onFatal: c.OnFatal, violated: c.Violated,
		cells: map[string]*cell{}, endedStats: map[string]KindStats{}, shapes: map[shape]*shape{},
		props: map[propsKey]*actor.Props{},
	}
	switch {
	case s.history == 0:
		s.history = 16
	case s.history < 0:
		s.history = 0
	}
	if s.limit == 0 {
		s.limit = 65536
	}
	if v, ok := c.Clock.(*Virtual); ok {
		s.sched = v
	} else {
		s.sched = goroutines{}
	}
	s.actors = newActors()
	return s, nil
}

// Clock returns the system's clock.
func (s *System) Clock() Clock { return s.clock }

// DeadLetters counts messages to actors that no longer exist.
func (s *System) DeadLetters() uint64 { return s.deadLetters.Load() }

// Dropped counts messages dropped by full mailboxes.
func (s *System) Dropped() uint64 { return s.dropped.Load() }

func (s *System) deadLetter(path string, m any) {
	if _, is := m.(news); is {
		return // nobody waits for a value that is there for all who do
	}
	name := messageName(m)
	s.deadLetters.Add(1)
	s.lost.add(name)
	if s.tracer != nil {
		s.tracer.DeadLetter(s.clock.Now(), path, name)
	}
	s.log.Debug().Str("actor", path).Str("message", name).Msg("dead letter: message to a stopped actor")
}

func (s *System) cell(path string) *cell {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.cells[path]
}

func (s *System) addCell(c *cell) {
	s.mu.Lock()
	s.cells[c.path] = c
	s.mu.Unlock()
}

// removeCell frees a path once the actor has ended and its parent knows it. protoactor keeps
// children by name, and would forget one that was made between the two. It removes only cells that
// have ended.
func (s *System) removeCell(path string) {
	s.mu.Lock()
	if c := s.cells[path]; c != nil && c.hasEnded() {
		delete(s.cells, path)
		c.mu.Lock()
		past := s.endedStats[c.kind]
		past.Kind = c.kind
		c.countLocked(&past)
		c.mu.Unlock()
		s.endedStats[c.kind] = past
	}
	gone := s.endWaiters
	s.endWaiters = nil
	s.mu.Unlock()
	for _, ch := range gone {
		close(ch)
	}
}

// shape returns the shared copy of want.
func (s *System) shape(want shape) *shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shapes[want]
	if sh == nil {
		sh = new(want)
		s.shapes[want] = sh
	}
	return sh
}

// stream returns a random source for each path and incarnation.
func (s *System) stream(path string, incarnation uint32) *rand.Rand {
	h := fnv64(path)
	return rand.New(rand.NewPCG(s.seed^h, h<<1|1^uint64(incarnation)<<32))
}

func fnv64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h ^= uint64(s[i])
		h *= 1099511628211
	}
	return h
}

// Lookup finds an actor of protocol M by its path. It is for tests and tools: actors are given the
// Refs that they need.
func Lookup[M any](s *System, path string) (Ref[M], bool) {
	c := s.cell(path)
	if c == nil || c.protocol != reflect.TypeFor[M]() {
		return Ref[M]{}, false
	}
	return Ref[M]{c}, true
}

// Until waits, on real time, until the actor at path is gone. It is for the daemon's shutdown and
// for tests on the wall clock.
func (s *System) Until(path string, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.wait(ctx, func() bool { return s.cells[path] == nil }) == nil
}

// Shutdown stops all root actors, each after its subtree, and waits until they are gone. Running
// effects continue; see Runner.Close. On a Virtual it settles instead of waiting, so that only the
// first state of ctx counts.
func (s *System) Shutdown(ctx context.Context) error {
	s.mu.RLock()
	var roots []*cell
	for _, c := range s.cells { // order-free: sorted below
		if c.parent == nil {
			roots = append(roots, c)
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(roots, func(a, b *cell) int { return strings.Compare(a.path, b.path) })
	for _, c := range roots {
		c.stop()
	}
	if v, ok := s.sched.(*Virtual); ok {
		v.Settle()
	}
	return s.wait(ctx, func() bool { return len(s.cells) == 0 })
}

// wait returns when cond holds. It checks cond, under the lock, each time an actor ends.
func (s *System) wait(ctx context.Context, cond func() bool) error {
	for {
		s.mu.Lock()
		if cond() {
			s.mu.Unlock()
			return nil
		}
		n := len(s.cells)
		ch := make(chan struct{})
		s.endWaiters = append(s.endWaiters, ch)
		s.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of %d actors: %w", n, context.Cause(ctx))
		}
	}
}
