package run

import (
	"time"

	"github.com/troupe-dev/troupe/supervisor/sim/observe"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
)

// samples are what a run looked like over time. Their number is bounded: when they are full, every second one is
// dropped, and samples are taken less often.
type samples struct {
	next, every time.Duration
	phases      []report.PhaseSample

	column time.Duration
	// cells and last are of nodes, in the order of run.nodes; of none if the report is not wanted.
	cells [][]report.Cell
	last  []observe.Node
}

const (
	maxSamples = 2048
	maxColumns = 128
)

// look takes a sample of the world.
func (r *run) look() {
	f, now := &r.samples, r.now()
	if f.every == 0 {
		f.every, f.column = lookEvery, lookEvery
	}
	f.phases = append(f.phases, report.PhaseSample{At: now, Pods: r.pods.Counts()})
	if r.options.Report {
		r.lookAtNodes(now)
	}
	if len(f.phases) >= maxSamples {
		half := f.phases[:0]
		for i := 0; i < len(f.phases); i += 2 {
			half = append(half, f.phases[i])
		}
		f.phases, f.every = half, 2*f.every
	}
	f.next = now - now%f.every + f.every
	if r.options.Progress != nil {
		r.options.Progress(Progress{Simulated: now, Of: r.options.Duration, Pods: r.pods.Len(),
			Running: r.pods.Running(), Doing: r.doing})
	}
}

// lookAtNodes adds to the cells of all nodes.
func (r *run) lookAtNodes(now time.Duration) {
	f := &r.samples
	for int(now/f.column) >= maxColumns {
		f.widen()
	}
	at := int(now / f.column)
	for i, name := range r.nodes {
		if i == len(f.cells) {
			f.cells, f.last = append(f.cells, nil), append(f.last, observe.Node{})
		}
		for len(f.cells[i]) <= at {
			f.cells[i] = append(f.cells[i], report.Cell{})
		}
		up, registered := r.nodeReady[name]
		if !registered {
			continue // it is not there yet
		}
		n, old, c := r.pods.Node(name), &f.last[i], &f.cells[i][at]
		c.Looks++
		if !up {
			c.Down++
		}
		c.Pods += uint64(n.Pods)
		c.Ready += uint64(n.Ready)
		c.Starts += uint32(n.Starts - old.Starts)
		c.Restarts += uint32(n.Restarts - old.Restarts)
		*old = n
	}
}

// widen makes one column of two.
func (f *samples) widen() {
	f.column *= 2
	for n, cells := range f.cells {
		half := cells[:0]
		for i := 0; i < len(cells); i += 2 {
			c := cells[i]
			if i+1 < len(cells) {
				o := cells[i+1]
				c.Looks, c.Down = c.Looks+o.Looks, c.Down+o.Down
				c.Pods, c.Ready = c.Pods+o.Pods, c.Ready+o.Ready
				c.Starts, c.Restarts = c.Starts+o.Starts, c.Restarts+o.Restarts
			}
			half = append(half, c)
		}
		f.cells[n] = half
	}
}

func (f *samples) heat(nodes []string) report.Heat {
	h := report.Heat{Column: f.column}
	for i, cells := range f.cells {
		h.Nodes = append(h.Nodes, report.NodeHeat{Name: nodes[i], Cells: cells})
	}
	return h
}
