package commands

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/troupe-dev/troupe/supervisor/sim/run"
)

// What a node and a pod of a simulation take at the most, and what there is
// beside them. The heap is let grow to twice what lives, as ever, up to what the
// whole world should take, and collected harder from there on.
const (
	heapOfNode  = 64 << 10
	heapOfPod   = 8 << 10
	heapAtLeast = 256 << 20
	// heapSpare is how much more than what lives there is in any case, in
	// hundredths: with less the collector would take most of the time.
	heapSpare = 115
	heapLook  = 50 * time.Millisecond
)

// boundHeap bounds the memory of this process while a simulation runs in it:
// what is live when all pods are there is much of it, and the garbage of their
// start need not come on top of that as often again. A user who sets GOGC or
// GOMEMLIMIT knows better. release ends it.
func boundHeap(o *run.Options) (release func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	limit := heapLimit(o)
	before := debug.SetMemoryLimit(limit)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		look := time.NewTicker(heapLook)
		defer look.Stop()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			select {
			case <-stop:
				return
			case <-look.C:
			}
			metrics.Read(live)
			if least := int64(live[0].Value.Uint64()) / 100 * heapSpare; least > limit {
				limit = least
				debug.SetMemoryLimit(limit)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		debug.SetMemoryLimit(before)
	}
}

// heapLimit is what the world of a run should take, as far as its options say how
// large it becomes.
func heapLimit(o *run.Options) int64 {
	nodes, pods := int64(o.Nodes), int64(0)
	if s := o.Scenario; s != nil {
		if nodes == 0 {
			nodes = int64(s.Nodes.Count)
		}
		for i := range s.Steps {
			if c := s.Steps[i].Create; c != nil {
				pods += int64(c.Replicas)
			}
		}
	}
	pods += nodes * int64(o.PodsPerNode)
	return max(heapAtLeast, (nodes*heapOfNode+pods*heapOfPod)/10*11)
}
