package sim

import (
	"fmt"
	"runtime"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
)

// Metrics are the numbers of a world.
type Metrics struct {
	// Nodes that there are, and pods in the API. PodsRunning are those whose phase
	// is Running, PodsReady those that are Ready.
	Nodes, Pods, PodsRunning, PodsReady int
	// StartP50, StartP90 and StartP99 are how long pods took from being bound to
	// being Ready for the first time.
	StartP50, StartP90, StartP99 time.Duration
	// Restarts of containers, Crashes of actors.
	Restarts, Crashes int
	// Messages that actors have handled.
	Messages uint64
	// Timers that are set.
	Timers int
	// HeapBytes is the heap of the whole process in use.
	HeapBytes uint64
	// TraceHash is over every delivered message and every effect.
	TraceHash uint64
}

// Metrics reads them.
func (w *World) Metrics() Metrics {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	pods := w.Pods()
	return Metrics{
		Nodes: len(w.nodes), Pods: pods.Len(), PodsRunning: pods.Running(), PodsReady: w.Ready(),
		StartP50: pods.StartPercentile(0.5), StartP90: pods.StartPercentile(0.9), StartP99: pods.StartPercentile(0.99),
		Restarts: pods.Restarts(), Crashes: w.crashes,
		Messages: w.clock.Steps(), Timers: w.clock.Timers(), HeapBytes: m.HeapAlloc, TraceHash: w.tracer.Sum(),
	}
}

// TraceHash is over every delivered message and every effect so far: two runs
// are the same if theirs are.
func (w *World) TraceHash() uint64 { return w.tracer.Sum() }

// Messages is how many messages actors have handled.
func (w *World) Messages() uint64 { return w.clock.Steps() }

// Timeline is what happened to one pod, in order.
type Timeline struct {
	Namespace, Name string
	Moments         []Moment
}

// Moment is one thing that happened to a pod.
type Moment struct {
	At time.Time
	// What is the reason of an event (Pulled, Started, …), or "Status".
	What string
	Text string
}

func (m Moment) String() string {
	return fmt.Sprintf("%s %s %s", m.At.Format("15:04:05.000"), m.What, m.Text)
}

// Follow begins to write down what happens to the pod of a name: what its node's
// agent says (Events), and what the API shows of it. Another pod of that name
// that comes later continues in the same timeline.
func (w *World) Follow(namespace, name string) *Timeline {
	key := namespace + "/" + name
	if t := w.follow[key]; t != nil {
		return t
	}
	t := &Timeline{Namespace: namespace, Name: name}
	w.follow[key] = t
	w.watchPod(t)
	return t
}

func (w *World) recorded(_ *Node, e port.Event) {
	if len(w.follow) == 0 || e.Pod == nil {
		return
	}
	if t := w.follow[e.Pod.Namespace+"/"+e.Pod.Name]; t != nil {
		t.Moments = append(t.Moments, Moment{At: e.At, What: e.Reason, Text: e.Message})
	}
}
