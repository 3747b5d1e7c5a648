package kernel

import (
	"encoding/binary"
	"hash"
	"hash/fnv"
	"time"
)

// Tracer is told of everything that happens, in order. In a simulation all calls come from one
// goroutine, in the daemon from many. It must not call back into the System or a Runner.
type Tracer interface {
	// Deliver is called before a message is handled. Start, Stop, Overflowed and ChildStopped are
	// names too, with no message.
	Deliver(at time.Time, path, name string, msg any)
	Effect(at time.Time, path string, phase EffectPhase, e EffectInfo)
	// Crash is called when the decision is made for the actor at path: the one that crashed, or one
	// above it that the crash was escalated to.
	Crash(at time.Time, path string, r *CrashReport)
	DeadLetter(at time.Time, path, name string)
}

// Traced is a message that adds its content to a trace. Other messages appear by type only. The
// content must not contain addresses or depend on the order of a map.
type Traced interface{ AppendTrace([]byte) []byte }

// Outcome is a message that is the result of an effect, and tells observers how it ended: err is
// nil on success.
type Outcome interface {
	Outcome() (id EffectID, err error)
}

// HashTracer hashes everything into one number: two runs are the same if their numbers are. Not
// safe for concurrent use.
type HashTracer struct {
	h   hash.Hash64
	buf []byte
	n   uint64
}

// NewHashTracer makes an empty HashTracer.
func NewHashTracer() *HashTracer { return &HashTracer{h: fnv.New64a()} }

// Sum is the hash of everything traced so far.
func (t *HashTracer) Sum() uint64 { return t.h.Sum64() }

// Events is the number of traced events.
func (t *HashTracer) Events() uint64 { return t.n }

func (t *HashTracer) begin(kind byte, at time.Time, path string) []byte {
	b := append(t.buf[:0], kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.UnixNano()))
	b = append(b, path...)
	return append(b, 0)
}

func (t *HashTracer) end(b []byte) {
	t.buf = b
	_, _ = t.h.Write(b) // a hash never fails
	t.n++
}

// Deliver implements Tracer.
func (t *HashTracer) Deliver(at time.Time, path, name string, msg any) {
	b := append(t.begin('m', at, path), name...)
	b = append(b, 0)
	if m, ok := msg.(Traced); ok {
		b = m.AppendTrace(b)
	}
	t.end(b)
}

// Effect implements Tracer.
func (t *HashTracer) Effect(at time.Time, path string, phase EffectPhase, e EffectInfo) {
	b := append(t.begin('e', at, path), byte(phase))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.ID))
	b = append(append(append(append(b, e.Kind...), 0), e.Object...), 0)
	t.end(append(b, e.Lane...))
}

// Crash implements Tracer.
func (t *HashTracer) Crash(at time.Time, path string, r *CrashReport) {
	b := append(t.begin('c', at, path), r.Path...)
	b = append(append(append(b, 0), r.Message...), 0)
	t.end(append(append(b, r.Reason...), byte(r.Decision)))
}

// DeadLetter implements Tracer.
func (t *HashTracer) DeadLetter(at time.Time, path, name string) {
	t.end(append(t.begin('d', at, path), name...))
}
