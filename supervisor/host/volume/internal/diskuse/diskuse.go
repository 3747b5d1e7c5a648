// Package diskuse knows what directories of pods take of a disk. Children count the files (package filecount): one
// child all directories that are quick to count, and one child of its own each that is not, beside the calls, so that
// no pod with many files delays the counts of another. A count that did not come to its end says so.
package diskuse

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/supervisor/internal/again"
)

// Effort bounds what counting costs. A directory that takes longer than Slice is counted by a child of its own: first
// for Alone[0], then for Alone[1], and so on. Of each of these, one child runs at a time, and then rests for as long
// as it took.
type Effort struct {
	Slice time.Duration
	// Budget is how long directories are counted together, and Patience how long their children may take altogether.
	Budget, Patience time.Duration
	// Alone ascends. Grace is how much longer than that the child may take to answer.
	Alone []time.Duration
	Grace time.Duration
	// Wait is how long a call may take that waits for directories that are counted alone.
	Wait time.Duration
}

// Default is what an agent spends: for each look at the pods ten seconds at most, and beside that half of two CPUs.
var Default = Effort{
	Slice: 500 * time.Millisecond, Budget: 10 * time.Second, Patience: 15 * time.Second,
	Alone: []time.Duration{time.Minute, 15 * time.Minute}, Grace: 5 * time.Second, Wait: 10 * time.Second,
}

// time is how long one directory is counted in a lane, 0 for together.
func (f *Effort) time(lane int) time.Duration {
	if lane == 0 {
		return f.Slice
	}
	return f.Alone[lane-1]
}

// Config says how a child counts.
type Config struct {
	Effort
	// Home is a directory: what is not on its file system counts nothing.
	Home string
	// Ask has a child count. It gives the counts of all trees in their order, or with an error those of the first ones,
	// as far as the child got.
	Ask func(context.Context, filecount.Request) ([]filecount.Count, error)
	// Counted is told of each directory that was counted.
	Counted func(filecount.Tree, filecount.Count)
}

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	if c.Ask == nil || c.Counted == nil || len(c.Alone) == 0 {
		return errors.New("counts: nothing counts, is told, or counts large directories")
	}
	return nil
}

// Counts are the directories that were asked for lately.
type Counts struct {
	config Config
	// ctx ends with Close, lanes are the goroutines that count directories alone.
	ctx   context.Context
	close context.CancelFunc
	lanes sync.WaitGroup

	// mu guards the rest.
	mu   sync.Mutex
	book book
	// busy are the lanes that have a goroutine. told is closed when a directory was counted alone.
	busy map[int]bool
	told chan struct{}
}

// New makes one that knows nothing.
func New(c *Config) (*Counts, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	n := &Counts{config: *c, book: book{}, busy: map[int]bool{}, told: make(chan struct{})}
	n.ctx, n.close = context.WithCancel(context.Background())
	return n, nil
}

// Close ends all counts.
func (n *Counts) Close() {
	n.mu.Lock()
	n.close()
	n.mu.Unlock()
	n.lanes.Wait()
}

const (
	// batch is how many directories one child counts: its start costs as much as a thousand files.
	batch = 1000
	// strikes is how many children may fail in one call. The tree at which a child failed is counted alone from then on.
	strikes = 2
)

// Of counts directories, if their last counts are not good enough. Those that are counted alone are awaited for a while
// with wait; without, they are as of their last counts. The error says which could not be counted.
func (n *Counts) Of(ctx context.Context, trees []Tree, wait bool) (map[string]Known, error) {
	began := time.Now()
	n.mu.Lock()
	together := n.book.ask(trees, began)
	n.mu.Unlock()
	n.together(ctx, together, began)
	n.alone(trees)
	if wait {
		n.wait(ctx, trees, n.config.Wait-time.Since(began))
	}
	errs := []error{ctx.Err()}
	out := make(map[string]Known, len(trees))
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range trees {
		out[t.Path] = Known{Count: filecount.Count{Partial: true}}
		if e := n.book[t.Path]; e != nil {
			out[t.Path] = e.known()
			errs = append(errs, e.err)
		}
	}
	return out, errors.Join(errs...)
}

// together counts in children that count many directories, in the order given.
func (n *Counts) together(ctx context.Context, all []*entry, began time.Time) {
	f := &n.config.Effort
	bound, cancel := context.WithTimeout(ctx, f.Patience)
	defer cancel()
	for failed := 0; len(all) > 0 && failed < strikes; {
		at := time.Now()
		r := filecount.Request{Home: n.config.Home, Slice: f.Slice, Budget: f.Budget - at.Sub(began)}
		if r.Budget <= 0 {
			return
		}
		some := all[:min(batch, len(all))]
		for _, e := range some {
			r.Trees = append(r.Trees, e.tree.Tree)
		}
		got, err := n.config.Ask(bound, r)
		if ctx.Err() != nil {
			return // nothing is wrong with the directories
		}
		n.mu.Lock()
		for i, c := range got {
			n.counted(some[i], c, 0, at)
			at = at.Add(c.Took)
		}
		all = all[len(got):]
		if err != nil && len(got) < len(some) {
			failed++
			all[0].failed(err, 0, at, time.Since(at))
			all = all[1:]
		}
		n.mu.Unlock()
	}
}

func (n *Counts) counted(e *entry, c filecount.Count, lane int, began time.Time) {
	e.counted(c, lane, began, &n.config.Effort)
	if c.Walked {
		n.config.Counted(e.tree.Tree, c)
	}
}

// alone begins to count those that need a child of their own.
func (n *Counts) alone(trees []Tree) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.book.queue(trees, time.Now())
	for lane := 1; lane <= len(n.config.Alone) && n.ctx.Err() == nil; lane++ {
		if !n.busy[lane] && n.book.next(lane) != nil {
			n.busy[lane] = true
			n.lanes.Go(func() { again.Run(n.ctx, func() { n.serve(lane) }, rescue.Answered) })
		}
	}
}

// serve counts the directories of a lane, one at a time, as long as some wait.
func (n *Counts) serve(lane int) {
	for {
		n.mu.Lock()
		e := n.book.next(lane)
		if e == nil || n.ctx.Err() != nil {
			n.busy[lane] = false
			n.mu.Unlock()
			return
		}
		e.waits, e.runs = false, true
		tree, most := e.tree.Tree, n.config.time(lane)
		n.mu.Unlock()
		began := time.Now()
		ctx, cancel := context.WithTimeout(n.ctx, most+n.config.Grace)
		got, err := rescue.Try(ctx, func() ([]filecount.Count, error) {
			return n.config.Ask(ctx, filecount.Request{
				Home: n.config.Home, Trees: []filecount.Tree{tree}, Slice: most, Budget: most + n.config.Grace,
			})
		})
		cancel()
		took := time.Since(began)
		n.note(e, got, err, lane, began, took)
		rest := time.NewTimer(took)
		select {
		case <-rest.C:
		case <-n.ctx.Done():
			rest.Stop()
		}
	}
}

// note takes in what was counted in a lane.
func (n *Counts) note(e *entry, got []filecount.Count, err error, lane int, began time.Time, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e.runs = false
	if err == nil {
		n.counted(e, got[0], lane, began)
	} else if n.ctx.Err() == nil {
		e.failed(err, lane, began, took)
	}
	close(n.told)
	n.told = make(chan struct{})
}

// wait waits until directories that may be counted soon are.
func (n *Counts) wait(ctx context.Context, trees []Tree, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		n.mu.Lock()
		awaited, told := n.book.awaited(trees), n.told
		n.mu.Unlock()
		if !awaited {
			return
		}
		select {
		case <-told:
		case <-ctx.Done():
			return
		case <-n.ctx.Done():
			return
		}
	}
}
