package timeline

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Kind is what an entry is about.
type Kind uint8

const (
	// Message is one that the pod's actor was given.
	Message Kind = iota
	// Call is an effect: of the runtime, the host, the apiserver, the network.
	Call
	// Event is one that users see.
	Event
	// Status is the status that the pod's actor reported.
	Status
	// Crash is a panic of the pod's actor.
	Crash
)

var kinds = [...]string{"message", "call", "event", "status", "crash"}

func (k Kind) String() string { return kinds[k] }

const (
	// entryCost is the size of an entry without its own texts, in bytes.
	entryCost = 160
	// textLimit bounds a text, in bytes.
	textLimit = 320
	// firstKept are the entries of a timeline's begin that are never dropped, and
	// dropAtOnce how many go when it is full.
	firstKept, dropAtOnce = 24, 8
	// near is how far back an entry is looked for that a new one only repeats.
	near = 8
)

// entry is one thing that happened.
type entry struct {
	// at is when it came or was requested, last when it was repeated; Unix nanoseconds. waited is
	// how long a call waited for its lane and slot, took how long it ran.
	at, last, waited, took int64
	id                     kernel.EffectID
	// seq identifies an entry within its timeline.
	seq   uint32
	count uint32
	kind  Kind
	phase kernel.EffectPhase
	bad   bool
	// by is the actor that did it, if it is not the pod's own. by and what are
	// constants of the program, and so is waitedFor, see kernel.EffectInfo.
	by, what, waitedFor, object, text string
}

func (e *entry) cost() int { return entryCost + len(e.object) + len(e.text) }

// over reports whether a call has ended.
func (e *entry) over() bool { return e.kind != Call || e.phase > kernel.EffectStarted }

// repeats reports whether e is but the same again.
func (e *entry) repeats(o *entry) bool {
	return e.kind == o.kind && e.what == o.what && e.object == o.object && e.text == o.text && e.by == o.by &&
		e.bad == o.bad && e.phase == o.phase && o.over() && e.kind != Crash
}

// podTimeline is what happened to one pod.
//
// Invariant: len(entries) <= limit, which is at least firstKept+dropAtOnce; of
// those dropped all came after the first firstKept; bytes is the sum of costs.
type podTimeline struct {
	uid             types.UID
	namespace, name string
	entries         []entry
	bytes           int
	seq             uint32
	dropped         uint64
	// touched is when the last entry came, ended when only the timeline was left of the pod, 0
	// before.
	touched, ended int64
}

// add appends e, unless it only repeats an entry not far back, and keeps at most
// limit.
func (s *podTimeline) add(e entry, limit int) {
	s.touched = max(s.touched, e.at)
	e.last, e.count = e.at, 1
	if e.over() && s.merge(&e, len(s.entries)) {
		return
	}
	s.shrink(limit - 1)
	s.seq++
	e.seq = s.seq
	s.entries = append(s.entries, e)
	s.bytes += e.cost()
}

// merge counts e on an earlier entry that it repeats, before the one at i. Steps that restarts of
// a container share are recorded again each time; probes, messages and equal statuses are not.
func (s *podTimeline) merge(e *entry, i int) bool {
	back := near
	if e.kind == Call && e.by != probing {
		back = 1
	}
	for j := i - 1; j >= max(0, i-back); j-- {
		o := &s.entries[j]
		if !e.repeats(o) {
			if e.kind == Status && o.kind == Status {
				return false
			}
			continue
		}
		o.count += e.count
		o.last, o.took, o.waited, o.waitedFor = e.last, e.took, e.waited, cmp.Or(e.waitedFor, o.waitedFor)
		return true
	}
	return false
}

// call finds the entry of a call.
func (s *podTimeline) call(id kernel.EffectID) int {
	for i := len(s.entries) - 1; i >= 0; i-- {
		if s.entries[i].id == id && s.entries[i].kind == Call {
			return i
		}
	}
	return -1
}

// settle is called when the call at i has ended: a call that only repeats an earlier one is
// counted there.
func (s *podTimeline) settle(i int) {
	e := s.entries[i]
	e.last = e.at
	if !s.merge(&e, i) {
		return
	}
	s.bytes -= e.cost()
	s.entries = slices.Delete(s.entries, i, i+1)
}

// say sets the text of the entry at i.
func (s *podTimeline) say(i int, text string) {
	e := &s.entries[i]
	s.bytes += len(text) - len(e.text)
	e.text = text
}

// shrink drops what is oldest but for the begin, until at most limit are left.
func (s *podTimeline) shrink(limit int) {
	if len(s.entries) <= limit {
		return
	}
	to := min(len(s.entries), firstKept+max(dropAtOnce, len(s.entries)-limit))
	for i := firstKept; i < to; i++ {
		s.bytes -= s.entries[i].cost()
	}
	s.dropped += uint64(max(0, to-firstKept))
	s.entries = slices.Delete(s.entries, firstKept, to)
}

// View is a timeline as it is shown.
type View struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Ended is when nothing was left of the pod on this node.
	Ended *time.Time `json:"ended,omitempty"`
	// Dropped is how many entries were, behind the first DroppedAfter.
	Dropped      uint64  `json:"dropped,omitempty"`
	DroppedAfter int     `json:"droppedAfter,omitempty"`
	Entries      []Entry `json:"entries"`
}

// Entry is one thing that happened to a pod.
type Entry struct {
	// Seq tells it from others of the pod, for ever. Entries are in order of it.
	Seq uint32    `json:"seq"`
	At  time.Time `json:"at"`
	// Count is how often it came, the last time at Last.
	Count uint32     `json:"count,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
	// Kind is message, call, event, status or crash.
	Kind string `json:"kind"`
	// By is the actor that did it, if it is not the pod's own: images, volumes, ….
	By string `json:"by,omitempty"`
	// What is the type of the message, the call, the reason of the event.
	What   string `json:"what"`
	Object string `json:"object,omitempty"`
	Text   string `json:"text,omitempty"`
	// Phase is how far a call got: queued, running, finished, overdue, late, dropped.
	Phase string `json:"phase,omitempty"`
	// Waited is how long a call waited for its lane and a slot, Took how long it
	// ran, in nanoseconds.
	Waited time.Duration `json:"waited,omitempty"`
	Took   time.Duration `json:"took,omitempty"`
	// WaitedFor is the pool of the slot that it waited for, or lane; empty if it began at once. Of calls
	// that are counted together it is the last that one of them waited for.
	WaitedFor string `json:"waitedFor,omitempty"`
	// Bad: it failed, or warns.
	Bad bool `json:"bad,omitempty"`
}

func (s *podTimeline) view() View {
	v := View{Namespace: s.namespace, Name: s.name, UID: s.uid, Dropped: s.dropped, Entries: make([]Entry, len(s.entries))}
	if s.dropped > 0 {
		v.DroppedAfter = min(firstKept, len(s.entries))
	}
	if s.ended != 0 {
		at := time.Unix(0, s.ended)
		v.Ended = &at
	}
	for i := range s.entries {
		v.Entries[i] = s.entries[i].view()
	}
	return v
}

func (e *entry) view() Entry {
	v := Entry{
		Seq: e.seq, At: time.Unix(0, e.at), Kind: e.kind.String(), By: e.by, What: e.what, Object: e.object, Text: e.text,
		Waited: time.Duration(e.waited), Took: time.Duration(e.took), WaitedFor: e.waitedFor,
		Bad: e.bad,
	}
	if e.count > 1 {
		last := time.Unix(0, e.last)
		v.Count, v.Last = e.count, &last
	}
	if e.kind == Call {
		v.Phase = e.phase.String()
	}
	return v
}
