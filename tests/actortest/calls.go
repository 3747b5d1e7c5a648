package actortest

import (
	"context"
	"slices"

	"github.com/troupe-dev/troupe/actors/port"
)

// Calls are calls of a port that wait until the test answers them.
type Calls struct {
	rig  *Rig
	of   string
	open []call
}

// call is one that was not answered.
type call struct {
	text   string
	answer func(error)
}

// NewCalls makes a port without open calls. of is who is called, as in the transcript: "runtime".
func (r *Rig) NewCalls(of string) *Calls { return &Calls{rig: r, of: of} }

// Called says that a call was made, and keeps it until answer answers it. If ctx ends before, it says
// that the call was given up. ctx is the context of an effect.
func (c *Calls) Called(ctx context.Context, text string, answer func(error)) {
	c.rig.Say("%s: %s", c.of, text)
	c.open = append(c.open, call{text, answer})
	ctx.(interface{ AfterFunc(func()) func() bool }).AfterFunc(func() {
		if c.index(text) >= 0 {
			c.rig.Say("%s: %s: given up", c.of, text)
		}
	})
}

// Answer answers these calls, one after another, with the same error.
func (c *Calls) Answer(err error, texts ...string) {
	c.rig.T.Helper()
	for _, text := range texts {
		c.rig.Settle()
		n := c.index(text)
		if n < 0 {
			var open []string
			for _, other := range c.open {
				open = append(open, other.text)
			}
			c.rig.T.Fatalf("at %v: the %s was not asked to %q; not answered are %q", c.rig.Since(), c.of, text, open)
			return
		}
		answer := c.open[n].answer
		c.open = slices.Delete(c.open, n, n+1)
		answer(err)
		c.rig.Settle()
	}
}

// Open says whether there is such a call that is not answered.
func (c *Calls) Open(text string) bool {
	c.rig.Settle()
	return c.index(text) >= 0
}

func (c *Calls) index(text string) int {
	return slices.IndexFunc(c.open, func(o call) bool { return o.text == text })
}

// Answers are answers of a port, which come soon. While Silent they are kept.
type Answers struct {
	rig    *Rig
	Silent bool
	kept   []func()
}

// NewAnswers makes the answers of a port that is not silent.
func (r *Rig) NewAnswers() *Answers { return &Answers{rig: r} }

// Give gives an answer.
func (a *Answers) Give(answer func()) {
	if a.Silent {
		a.kept = append(a.kept, answer)
		return
	}
	a.rig.Soon(answer)
}

// Kept is how many answers are kept.
func (a *Answers) Kept() int { return len(a.kept) }

// Release gives one of the kept answers, at once. 0 is the oldest.
func (a *Answers) Release(n int) {
	a.rig.T.Helper()
	if n >= len(a.kept) {
		a.rig.T.Fatalf("at %v: %d answers are kept, and number %d is to be given", a.rig.Since(), len(a.kept), n)
		return
	}
	answer := a.kept[n]
	a.kept = slices.Delete(a.kept, n, n+1)
	answer()
	a.rig.Settle()
}

// Watches are the watches of an apiserver that the test plays.
type Watches struct {
	rig *Rig
	// All are those that were begun, the newest last.
	All []*Watch
}

// Watch is one watch of an apiserver.
type Watch struct {
	Selection port.Selection
	// Context ends when the actor cancels the watch.
	Context context.Context
	// Change tells of a change, Ended says that the apiserver gives up.
	Change func(port.APIChange)
	Ended  func(error)
}

// NewWatches makes an apiserver without watches.
func (r *Rig) NewWatches() *Watches { return &Watches{rig: r} }

// Watch implements portcall.Watcher.
func (w *Watches) Watch(ctx context.Context, s port.Selection, change func(port.APIChange), ended func(error)) {
	w.rig.Say("watch %s", s)
	w.All = append(w.All, &Watch{s, ctx, change, ended})
}

// Newest is the watch that was begun last.
func (w *Watches) Newest() *Watch {
	w.rig.T.Helper()
	w.rig.Settle()
	if len(w.All) == 0 {
		w.rig.T.Fatalf("at %v: no watch was begun", w.rig.Since())
	}
	return w.All[len(w.All)-1]
}

// Tell lets the newest watch tell of changes, one after another.
func (w *Watches) Tell(changes ...port.APIChange) {
	w.rig.T.Helper()
	for _, c := range changes {
		w.Newest().Change(c)
		w.rig.Settle()
	}
}
