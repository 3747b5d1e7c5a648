package diskuse

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
)

// Tree is a directory of a pod.
type Tree struct {
	filecount.Tree
	// Pod tells the directories of one pod from those of others.
	Pod string
}

// Known is the newest count of a directory. One that was never counted is Partial.
type Known struct {
	filecount.Count
	// At is when the count was begun; zero if there is none.
	At time.Time
}

const (
	// share is the most of its time that the agent spends on counting one directory: one that took a second is not
	// counted again for nine.
	share = 10
	// forget is how long a directory is remembered for which nobody asks.
	forget = 30 * time.Minute
)

// entry is what is known of one directory, and how it is counted next.
//
//	together ──has more files than a slice, or a child failed──► lane 0 ──more than its time──► lane 1
//	together ◄──took less than half of a slice── lane 0 ◄──less than half of the time of lane 0── lane 1
type entry struct {
	tree Tree
	last Known
	// err is why the last count failed: then there is no last.
	err error
	// lane is where it is counted by a child of its own, from 1; 0 for together with others.
	lane int
	// rest is until when the last count is good enough.
	rest time.Time
	// asked is when it was last asked for, tried when it was last counted, zero for never.
	asked, tried time.Time
	// waits: for its turn in its lane. runs: it is being counted there.
	waits, runs bool
}

func (e *entry) known() Known {
	if e.last.At.IsZero() {
		return Known{Count: filecount.Count{Partial: true}}
	}
	return e.last
}

// counted takes in a count that was begun in a lane at a time. Another call may have a newer one.
func (e *entry) counted(c filecount.Count, lane int, began time.Time, f *Effort) {
	if c.Left || e.lane != lane || began.Before(e.last.At) {
		return
	}
	e.last, e.err, e.tried = Known{c, began}, nil, began
	e.rest = began.Add(share * c.Took)
	switch {
	case c.Partial && e.lane < len(f.Alone):
		e.lane++
		e.rest = time.Time{}
	case !c.Partial && e.lane > 0 && c.Took < f.time(e.lane-1)/2:
		e.lane--
	}
}

// failed takes in that the child failed that counted it in a lane, after so long.
func (e *entry) failed(err error, lane int, began time.Time, took time.Duration) {
	if e.lane != lane {
		return
	}
	e.last, e.tried = Known{}, began
	e.err = fmt.Errorf("count the files below %s: %w", e.tree.Path, err)
	if e.lane > 0 {
		e.rest = began.Add(share * took)
	}
	e.lane = max(e.lane, 1)
}

// book has all directories, by their paths. Its methods are pure but for what they change in it.
type book map[string]*entry

// ask notes who is asked for, and says which are to be counted together: those that were not for the longest time
// come first.
func (b book) ask(trees []Tree, now time.Time) (together []*entry) {
	for path, e := range b { // order-free: each alone
		if now.Sub(e.asked) > forget && !e.runs {
			delete(b, path)
		}
	}
	for _, t := range trees {
		e := b[t.Path]
		if e == nil {
			e = &entry{tree: t}
			b[t.Path] = e
		}
		e.asked = now
		if e.lane == 0 && !now.Before(e.rest) {
			together = append(together, e)
		}
	}
	slices.SortStableFunc(together, func(x, y *entry) int { return x.tried.Compare(y.tried) })
	return together
}

// queue lets those that need a child of their own wait for their turn.
func (b book) queue(trees []Tree, now time.Time) {
	for _, t := range trees {
		if e := b[t.Path]; e != nil && e.lane > 0 && !e.runs && !now.Before(e.rest) {
			e.waits = true
		}
	}
}

// next returns the least recently counted pod that waits in the lane, nil if none waits. So a pod with many large
// directories waits for the others.
func (b book) next(lane int) (first *entry) {
	served := map[string]time.Time{}
	for _, e := range b { // order-free: the maximum of each
		if e.lane > 0 && e.tried.After(served[e.tree.Pod]) {
			served[e.tree.Pod] = e.tried
		}
	}
	before := func(x, y *entry) bool {
		for _, c := range [...]int{served[x.tree.Pod].Compare(served[y.tree.Pod]), x.tried.Compare(y.tried)} {
			if c != 0 {
				return c < 0
			}
		}
		return x.tree.Path < y.tree.Path
	}
	for _, e := range b { // order-free: the minimum of a total order
		if e.waits && e.lane == lane && (first == nil || before(e, first)) {
			first = e
		}
	}
	return first
}

// awaited says whether one is still to be counted by a child of its own that may be done soon.
func (b book) awaited(trees []Tree) bool {
	return slices.ContainsFunc(trees, func(t Tree) bool {
		e := b[t.Path]
		return e != nil && e.lane == 1 && (e.waits || e.runs)
	})
}
