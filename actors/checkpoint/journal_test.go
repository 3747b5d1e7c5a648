package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// counter is an actor that counts, and tells each number only when its checkpoint has it.
type counter struct {
	disk    *disk
	journal checkpoint.Journal[any, int]
	waiting checkpoint.Waiting[int]
	number  int
	// told is the last number that it has told, loaded whether it knows what was on the disk.
	told   int
	loaded bool
	news   []checkpoint.News
}

// one more is to be counted.
type one struct{}

// Start implements kernel.Behavior.
func (c *counter) Start(ctx *kernel.Context[any]) {
	c.journal.Load(ctx, c.disk, &c.disk.file, func(e checkpoint.Event) any { return e })
}

// Receive implements kernel.Behavior.
func (c *counter) Receive(ctx *kernel.Context[any], m any) {
	switch m := m.(type) {
	case one:
		c.number++
		c.waiting.Put(c.number, c.journal.Changed())
	case checkpoint.Event:
		news, found := c.journal.Hear(ctx, m)
		c.news = append(c.news, news)
		if news == checkpoint.Loaded {
			c.loaded = true
			c.number += found
		}
		for _, c.told = range c.waiting.Take(&c.journal.Progress) {
			if c.told > c.disk.has {
				c.disk.rig.T.Fatalf("%d is told, and the disk has %d", c.told, c.disk.has)
			}
		}
	}
	c.journal.Write(ctx, func() int { return c.number })
}

// disk does with each call what it was told, and then works.
type disk struct {
	rig    *actortest.Rig
	file   checkpoint.File[int]
	next   []string
	has    int
	writes int
}

func newDisk(t actortest.TB, awaits string, next ...string) (*disk, *counter, *actortest.Actor[any]) {
	d := &disk{rig: actortest.New(t), next: next}
	d.file = checkpoint.File[int]{
		Name: "count", Without: "counting from 0", Awaits: awaits, Unwritten: "cannot write the count",
		Codec: &checkpoint.Codec[int]{
			Format: func(n int) []byte { return []byte("v2 " + strconv.Itoa(n)) },
			Parse: func(data []byte) (n int, err error) {
				_, err = fmt.Sscanf(string(data), "v2 %d", &n)
				return n, err
			},
		},
	}
	c := &counter{disk: d}
	ref := actortest.Spawn(d.rig, kernel.Spec[any]{
		Name: "counter", Policy: kernel.ForPods, New: func() kernel.Behavior[any] { return c },
	})
	return d, c, ref
}

// does is what happens to the next call.
func (d *disk) does() (what string) {
	if len(d.next) > 0 {
		what, d.next = d.next[0], d.next[1:]
	}
	return what
}

// Load implements port.Checkpoints.
func (d *disk) Load(_ context.Context, _ string, done func([]byte, error)) {
	switch d.does() {
	case "fails":
		done(nil, errors.New("input/output error"))
	case "damaged":
		done([]byte("v3 ?"), nil)
	case "hangs", "hangs, and writes":
	default:
		done(d.file.Codec.Format(d.has), nil)
	}
}

// SetAside implements port.Checkpoints.
func (d *disk) SetAside(_ context.Context, name string, done func(string, error)) {
	d.has = 0
	done("/"+name+".damaged", nil)
}

// Save implements port.Checkpoints.
func (d *disk) Save(ctx context.Context, _ string, data []byte, done func(error)) {
	n := check.Must(d.file.Codec.Parse(data))
	what := d.does()
	if d.writes++; d.writes > 1 {
		d.rig.T.Fatalf("%d writes are under way", d.writes)
	}
	ended := false
	end := func() {
		if !ended {
			ended, d.writes = true, d.writes-1
		}
	}
	ctx.(interface{ AfterFunc(func()) func() bool }).AfterFunc(end)
	if what != "fails" && what != "hangs" {
		d.has = n
	}
	if what == "hangs" || what == "hangs, and writes" {
		return
	}
	d.rig.Soon(func() {
		if end(); what == "fails" || what == "fails, and writes" {
			done(errors.New("no space left on device"))
			return
		}
		done(nil)
	})
}

// TestJournal draws changes, and what the disk does.
//
//   - What is told is on the disk.
//   - At most one write is under way.
//   - The last value is written and told in the end, soon after the disk works again.
func TestJournal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		faults := rapid.SampledFrom([]string{"", "fails", "fails, and writes", "hangs", "hangs, and writes", "damaged"})
		d, c, ref := newDisk(t, rapid.SampledFrom([]string{"", "it waits"}).Draw(t, "awaits"),
			rapid.SliceOfN(faults, 0, 8).Draw(t, "disk")...)
		for _, wait := range rapid.SliceOf(rapid.IntRange(0, 7000)).Draw(t, "changes, after ms") {
			d.rig.Advance(time.Duration(wait) * time.Millisecond)
			ref.Tell(one{})
		}
		d.rig.Advance(9 * (2*checkpoint.Deadline + checkpoint.RetryAfter + time.Second))
		if !c.loaded || c.journal.State() != checkpoint.Clean || d.has != c.number || c.told != c.number {
			t.Fatalf("in the end it is %v, the disk has %d of %d, and %d is told", c.journal.State(), d.has, c.number, c.told)
		}
	})
}

// TestHear: what an actor hears, and what people do.
func TestHear(t *testing.T) {
	n := func(news ...checkpoint.News) []checkpoint.News { return news }
	for name, tt := range map[string]struct {
		awaits string
		does   []string
		want   []checkpoint.News
		logged []string
	}{
		"all goes well": {"", nil, n(checkpoint.Loaded, checkpoint.Saved), nil},
		"damaged": {"", []string{"damaged"}, n(checkpoint.Loaded, checkpoint.Saved),
			[]string{`"checkpoint":"count","error":"`, `"setAside":"/count.damaged"`, "was set aside; counting from 0"}},
		"the disk does not answer": {"", []string{"hangs"}, n(checkpoint.Loaded, checkpoint.Saved),
			[]string{"cannot read checkpoint; counting from 0"}},
		"the disk does not answer, and it is awaited": {"it waits", []string{"hangs"},
			n(checkpoint.Nothing, checkpoint.Again, checkpoint.Loaded, checkpoint.Saved),
			[]string{`"level":"error"`, "cannot read checkpoint; it waits"}},
		"the disk is full": {"", []string{"", "fails"},
			n(checkpoint.Loaded, checkpoint.Failed, checkpoint.Again, checkpoint.Saved),
			[]string{`"level":"warn"`, "no space left on device", "cannot write the count"}},
		"it is full, and it is awaited": {"it waits", []string{"", "fails"},
			n(checkpoint.Loaded, checkpoint.Failed, checkpoint.Again, checkpoint.Saved), []string{`"level":"error"`, "cannot write the count"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, c, ref := newDisk(t, tt.awaits, tt.does...)
			ref.Tell(one{})
			d.rig.Advance(time.Minute)
			check.Same(t, c.news, tt.want, "news")
			check.Equal(t, d.has, 1, "on the disk")
			if tt.logged != nil && d.rig.Logged(tt.logged...) != 1 || tt.logged == nil && d.rig.Log.Len() > 0 {
				t.Errorf("logged %s", d.rig.Log.String())
			}
		})
	}
}
