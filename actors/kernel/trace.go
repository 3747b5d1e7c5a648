package kernel

import "time"

// Tracer is told of everything that happens, in order. In a simulation all calls come from one
// goroutine, in the daemon from many. It must not call back into the System or a Runner.
type Tracer interface {
	// Deliver is called before a message is handled. Start, Stop, Overflowed, Resync and ChildStopped
	// are names too, with no message.
	Deliver(at time.Time, path, name string, msg any)
	Effect(at time.Time, path string, phase EffectPhase, e EffectInfo)
	// Crash is called when the decision is made for the actor at path: the one that crashed, or one
	// above it that the crash was escalated to.
	Crash(at time.Time, path string, r *CrashReport)
	DeadLetter(at time.Time, path, name string)
}

// Outcome is a message that is the result of an effect, and tells observers how it ended: err is
// nil on success.
type Outcome interface {
	Outcome() (id EffectID, err error)
}

// HashTracer hashes everything into one number, with all contents of messages: two runs are the same
// if their numbers are. For simulations: it costs too much for a node. Not safe for concurrent use.
type HashTracer struct {
	d digest
	w walker
	n uint64
}

// NewHashTracer makes an empty HashTracer.
func NewHashTracer() *HashTracer { return &HashTracer{} }

// Sum is the hash of everything traced so far.
func (t *HashTracer) Sum() uint64 { return t.d.sum() }

// Events is the number of traced events.
func (t *HashTracer) Events() uint64 { return t.n }

func (t *HashTracer) add(kind byte, at time.Time, texts ...string) {
	t.n++
	t.d = t.d.word(uint64(kind)).word(uint64(at.UnixNano()))
	for _, s := range texts {
		t.d = t.d.text(s)
	}
}

// Deliver implements Tracer.
func (t *HashTracer) Deliver(at time.Time, path, name string, msg any) {
	t.add('m', at, path, name)
	t.d = t.w.message(t.d, msg)
}

// Effect implements Tracer.
func (t *HashTracer) Effect(at time.Time, path string, phase EffectPhase, e EffectInfo) {
	t.add('e', at, path, e.Kind, e.Object, e.Lane)
	t.d = t.d.word(uint64(phase)).word(uint64(e.ID))
}

// Crash implements Tracer.
func (t *HashTracer) Crash(at time.Time, path string, r *CrashReport) {
	t.add('c', at, path, r.Path, r.Message, r.Reason)
	t.d = t.d.word(uint64(r.Decision))
}

// DeadLetter implements Tracer.
func (t *HashTracer) DeadLetter(at time.Time, path, name string) {
	t.add('d', at, path, name)
}
