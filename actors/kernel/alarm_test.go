package kernel

import (
	"testing"
	"time"
	"unsafe"
)

// TestAlarm: an alarm is set for one time at most, and sends each message once.
func TestAlarm(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	b.took()
	var a Alarm[do]
	fire := func(s string) do {
		return func(ctx *Context[do]) {
			a.Fired()
			b.say(s)(ctx)
		}
	}
	for _, c := range []struct {
		name string
		do   do
		set  bool
		want []string
	}{
		{"set again", func(ctx *Context[do]) {
			a.SetIn(ctx, time.Second, fire("first"))
			a.SetIn(ctx, 2*time.Second, fire("later"))
		}, true, []string{"later"}},
		{"set sooner", func(ctx *Context[do]) {
			a.SetAt(ctx, ctx.Now().Add(2*time.Second), fire("first"))
			a.SetAt(ctx, ctx.Now().Add(time.Second), fire("sooner"))
		}, true, []string{"sooner"}},
		{"zero time", func(ctx *Context[do]) {
			a.SetIn(ctx, time.Second, fire("first"))
			a.SetAt(ctx, time.Time{}, fire("never"))
		}, false, nil},
		{"stopped", func(ctx *Context[do]) {
			a.SetIn(ctx, time.Second, fire("no"))
			a.Stop()
			a.Stop()
		}, false, nil},
		{"past time", func(ctx *Context[do]) { a.SetAt(ctx, ctx.Now().Add(-time.Hour), fire("at once")) }, true,
			[]string{"at once"}},
	} {
		r.Tell(func(ctx *Context[do]) {
			c.do(ctx)
			if a.IsSet() != c.set {
				t.Errorf("%s: set is %v", c.name, a.IsSet())
			}
		})
		b.Advance(time.Minute)
		equal(t, c.name, b.took(), c.want)
		if a.IsSet() {
			t.Errorf("%s: it is still set", c.name)
		}
	}
}

// TestAlarmInTheMailbox: a message that was in the mailbox when its alarm was set again leaves no second timer.
func TestAlarmInTheMailbox(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	b.took()
	var a Alarm[do]
	fired := func(ctx *Context[do]) {
		a.Fired()
		b.say("fired")(ctx)
	}
	r.Tell(func(ctx *Context[do]) {
		a.SetIn(ctx, 0, fired)
		b.next(b.Now()) // it fires while this message is handled
		a.SetIn(ctx, time.Second, fired)
	})
	b.Advance(time.Minute)
	equal(t, "messages", b.took(), []string{"fired"})
}

// TestSoonest: a later time is ignored, an earlier one counts, and after the message any does.
func TestSoonest(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	b.took()
	var s Soonest[do]
	fire := func(text string) do {
		return func(ctx *Context[do]) {
			s.Fired()
			b.say(text)(ctx)
		}
	}
	set := func(ctx *Context[do], d time.Duration, text string) { s.SetAt(ctx, ctx.Now().Add(d), fire(text)) }
	r.Tell(func(ctx *Context[do]) {
		set(ctx, 2*time.Second, "two")
		set(ctx, 2*time.Second, "two again")
		set(ctx, 3*time.Second, "three")
		set(ctx, time.Second, "one")
	})
	b.Advance(time.Minute)
	equal(t, "the soonest", b.took(), []string{"one"})
	r.Tell(func(ctx *Context[do]) { set(ctx, time.Hour, "hour") })
	b.Advance(time.Minute)
	r.Tell(func(ctx *Context[do]) {
		s.Stop()
		set(ctx, 2*time.Hour, "two hours")
	})
	b.Advance(3 * time.Hour)
	equal(t, "after the first", b.took(), []string{"two hours"})
}

// TestAlarmIsSmall: a node has several for each pod.
func TestAlarmIsSmall(t *testing.T) {
	if a, s := unsafe.Sizeof(Alarm[do]{}), unsafe.Sizeof(Soonest[do]{}); a > 8 || s > 32 {
		t.Errorf("an Alarm takes %d bytes, a Soonest %d", a, s)
	}
}
