// Package eventlog keeps the recent events of pods in memory and writes each
// into the log: what `kubectl describe pod` shows, on a node without a cluster.
package eventlog

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
)

// Entry is one kept event.
type Entry struct {
	At        time.Time
	Pod       string // namespace/name; empty for the node itself
	Container string
	Warning   bool
	Reason    string
	Message   string
	// Count is how often it came in a row, First when it came first.
	Count int
	First time.Time
}

// Log implements port.Recorder.
type Log struct {
	log zerolog.Logger

	mu   sync.Mutex
	ring []Entry
	next int
}

// New keeps the last size events.
func New(log zerolog.Logger, size int) *Log {
	return &Log{log: log, ring: make([]Entry, 0, size)}
}

// Record implements port.Recorder. An event that repeats the last one of its
// pod is counted, and logged at its 1st, 2nd, 4th, 8th, … time.
func (l *Log) Record(e port.Event) {
	entry := Entry{At: e.At, First: e.At, Container: e.Container, Warning: e.Warning, Reason: e.Reason,
		Message: e.Message, Count: 1}
	if e.Pod != nil {
		entry.Pod = e.Pod.Namespace + "/" + e.Pod.Name
	}
	if entry.Count = l.keep(entry); entry.Count&(entry.Count-1) != 0 {
		return
	}
	line := l.log.Info()
	if e.Warning {
		line = l.log.Warn()
	}
	if line = line.Str("reason", e.Reason); entry.Pod != "" {
		line = line.Str("pod", entry.Pod)
	}
	if e.Of != nil {
		line = line.Str(strings.ToLower(e.Of.Kind), e.Of.Namespace+"/"+e.Of.Name)
	}
	if e.Node != "" {
		line = line.Str("node", e.Node)
	}
	if e.Container != "" {
		line = line.Str("container", e.Container)
	}
	if entry.Count > 1 {
		line = line.Int("times", entry.Count)
	}
	line.Msg(e.Message)
}

// keep adds the entry or counts it onto an equal one, and returns its count.
func (l *Log) keep(e Entry) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.ring {
		o := &l.ring[i]
		if o.Pod == e.Pod && o.Container == e.Container && o.Reason == e.Reason && o.Message == e.Message {
			o.Count++
			o.At = e.At
			return o.Count
		}
	}
	if len(l.ring) < cap(l.ring) {
		l.ring = append(l.ring, e)
	} else {
		l.ring[l.next] = e
		l.next = (l.next + 1) % len(l.ring)
	}
	return 1
}

// Warnings gives the kept events of a pod that warn, in the order in which they
// came last.
func (l *Log) Warnings(pod string) []Entry {
	all := slices.DeleteFunc(l.Of(pod), func(e Entry) bool { return !e.Warning })
	slices.SortStableFunc(all, func(a, b Entry) int { return a.At.Compare(b.At) })
	return all
}

// Of gives the kept events of a pod (namespace/name), of all if that is empty,
// in the order in which they came first.
func (l *Log) Of(pod string) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Entry
	for i := range l.ring {
		e := l.ring[(l.next+i)%len(l.ring)]
		if pod == "" || e.Pod == pod {
			out = append(out, e)
		}
	}
	return out
}
