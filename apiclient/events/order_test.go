package events

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

// story is what a client that watches was told of events.
type story struct {
	order map[string][]string // reasons by pod
	late  []time.Duration     // from when each was recorded
}

func (w *world) watched() *story {
	s := &story{order: map[string][]string{}}
	check.Value(w.api.Watch(simapi.WatchOptions{Select: simapi.Select{Kind: port.EventKind}}, func(told simapi.Event) {
		if e := told.Object.(*v1.Event); told.Type == simapi.Added {
			s.order[e.InvolvedObject.Name] = append(s.order[e.InvolvedObject.Name], e.Reason)
			// Its timestamps have whole seconds, its name has all of the time.
			nanos := check.Value(strconv.ParseInt(e.Name[strings.LastIndexByte(e.Name, '.')+1:], 16, 64))(w.t)
			s.late = append(s.late, w.v.Now().Sub(time.Unix(0, nanos)))
		}
	}))(w.t)
	return s
}

// TestBound: however many pods start, every event is there within two seconds of what
// happened, and those of each pod come in their order. An answer
// takes as long as one of an apiserver that shares a small machine with pods that start; the
// images of all are there, so that the first event of all happens at one time.
func TestBound(t *testing.T) {
	const bound, answer = 2 * time.Second, 100 * time.Millisecond
	for _, pods := range []int{1, 13, 30, 100} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Wait = Wait })
			w.fault = func(simapi.Call) simapi.Fault { return simapi.Fault{Latency: answer} }
			s := w.watched()
			for i := range pods { // five start in a second
				name, begin := fmt.Sprint("web-", i), time.Duration(i)*200*time.Millisecond
				w.record(pod(name), "app", "Pulled", "")
				w.v.AfterFunc(begin+100*time.Millisecond, func() { w.record(pod(name), "app", "Created", "") })
				w.v.AfterFunc(begin+150*time.Millisecond, func() { w.record(pod(name), "app", "Started", "") })
			}
			w.v.Advance(time.Duration(pods)*200*time.Millisecond + 10*time.Second)
			if len(s.late) != 3*pods || len(w.dropped) > 0 {
				t.Fatalf("%d events of %d pods, dropped %v", len(s.late), pods, w.dropped)
			}
			if late := slices.Max(s.late); late > bound {
				t.Errorf("an event came %v late", late)
			} else {
				t.Log(late)
			}
			for name, got := range s.order { // order-free: each by itself
				check.Same(t, got, []string{"Pulled", "Created", "Started"}, "%s", name)
			}
		})
	}
}

// TestOrder: whatever goes wrong, the events of a pod come in their order, and none is lost.
func TestOrder(t *testing.T) {
	const pods, each = 5, 8
	for seed := range uint64(60) {
		w := newWorld(t, func(c *Config) {
			c.Wait, c.Busy, c.Patience, c.Calls = Wait, func() bool { return seed%2 == 0 }, time.Second, 3
		})
		s := w.watched()
		draw := rand.New(rand.NewPCG(seed, 1))
		outage := seed%3 == 0
		w.fault = func(simapi.Call) simapi.Fault {
			if outage {
				return simapi.Fault{Fail: true, Kind: port.Other}
			}
			switch draw.IntN(6) {
			case 0:
				return simapi.Fault{LoseReply: true}
			case 1:
				return simapi.Fault{Fail: true, Kind: port.Unavailable}
			case 2:
				return simapi.Fault{Latency: 2 * time.Second}
			default:
				return simapi.Fault{}
			}
		}
		w.v.AfterFunc(20*time.Second, func() { outage = false })
		want := map[string][]string{}
		for i := range pods * each {
			w.v.Advance(time.Duration(draw.IntN(300)) * time.Millisecond)
			name, reason := fmt.Sprint("web-", i%pods), fmt.Sprint("E", i)
			w.r.Record(port.Event{Pod: pod(name), Reason: reason, Warning: draw.IntN(3) == 0, At: w.v.Now()})
			want[name] = append(want[name], reason)
		}
		w.v.Advance(10 * time.Minute)
		for name := range want { // order-free: each by itself
			if !slices.Equal(s.order[name], want[name]) {
				t.Fatalf("seed %d, %s: got %v, want %v; dropped %v", seed, name, s.order[name], want[name], w.dropped)
			}
		}
	}
}

// TestUrgent: a warning is not behind the events of others.
func TestUrgent(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Busy, c.Patience, c.Calls = func() bool { return true }, time.Second, 1 })
	w.fault = func(simapi.Call) simapi.Fault { return simapi.Fault{Latency: 100 * time.Millisecond} }
	for i := range 100 {
		w.record(pod(fmt.Sprint("web-", i)), "app", "Pulled", "")
	}
	w.v.Advance(2 * time.Second)
	w.record(pod("bad"), "app", "BackOff", "")
	w.v.Advance(500 * time.Millisecond)
	check.Equal(t, w.events()[0].Reason, "BackOff", "after half a second there")
}

// TestStorm: a storm of warnings does not keep the events of other pods waiting, and they do
// not keep it.
func TestStorm(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Wait, c.Calls = Wait, 2 })
	w.fault = func(simapi.Call) simapi.Fault { return simapi.Fault{Latency: 100 * time.Millisecond} }
	s := w.watched()
	for i := range 200 {
		w.record(pod(fmt.Sprint("bad-", i)), "app", "BackOff", "")
	}
	for i := range 5 {
		w.record(pod(fmt.Sprint("web-", i)), "app", "Pulled", "")
	}
	w.v.Advance(2 * time.Second)
	web := 0
	for name := range s.order { // order-free: it counts
		if strings.HasPrefix(name, "web-") {
			web++
		}
	}
	if web != 5 || len(s.order) < 30 {
		t.Errorf("after two seconds %d of the others are there, of %d", web, len(s.order))
	}
}

// TestFlush: what waits is written when the agent ends, unless nobody listens.
func TestFlush(t *testing.T) {
	for _, c := range []struct {
		name string
		link simapi.Link
		want int
		in   time.Duration
	}{{"there", simapi.Up, 4, time.Second}, {"away", simapi.Refused, 0, time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Busy, c.Patience = func() bool { return true }, time.Minute })
			w.api.SetLink("n1", c.link)
			for _, reason := range []string{"Pulled", "Created", "Started"} {
				w.record(pod("web"), "app", reason, "")
			}
			w.record(pod("other"), "app", "Killing", "")
			w.v.Advance(100 * time.Millisecond)
			if n := len(w.events()); n > 0 {
				t.Fatalf("%d events were written before", n)
			}
			done := 0
			w.r.Flush(func() { done++ })
			w.v.Advance(c.in)
			if n := len(w.events()); n != c.want || done != 1 {
				t.Errorf("%d events, want %d; done %d times", n, c.want, done)
			}
			w.r.Close()
			if n := len(w.dropped); n != 4-c.want {
				t.Errorf("%d were dropped: %v", n, w.dropped)
			}
			w.v.Advance(time.Minute)
		})
	}
}

// TestNext: what is written next, of events that have waited for so long.
func TestNext(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	type ev struct {
		pod     string
		warning bool
		waited  time.Duration
	}
	base := haste{wait: Wait, busy: func() bool { return true }, patience: 2 * time.Second}
	for name, c := range map[string]struct {
		list  []ev
		haste func(*haste)
		taken string // the pod of which one is being written
		at    int
		in    time.Duration
	}{
		"none":                         {nil, nil, "", -1, 0},
		"a moment first":               {[]ev{{"a", false, 100 * time.Millisecond}}, nil, "", -1, 400 * time.Millisecond},
		"even if it is not busy":       {[]ev{{"a", false, 100 * time.Millisecond}}, func(h *haste) { h.busy = func() bool { return false } }, "", -1, 400 * time.Millisecond},
		"or never is":                  {[]ev{{"a", false, 100 * time.Millisecond}}, func(h *haste) { h.busy = nil }, "", -1, 400 * time.Millisecond},
		"and no more then":             {[]ev{{"a", false, Wait}}, func(h *haste) { h.busy = nil }, "", 0, 0},
		"then as long as it is busy":   {[]ev{{"a", false, time.Second}}, nil, "", -1, relook},
		"and no longer":                {[]ev{{"a", false, time.Second}}, func(h *haste) { h.busy = func() bool { return false } }, "", 0, 0},
		"not more than it may":         {[]ev{{"a", false, 1800 * time.Millisecond}}, nil, "", -1, 200 * time.Millisecond},
		"and then at once":             {[]ev{{"a", false, 2 * time.Second}}, nil, "", 0, 0},
		"the clock was set back":       {[]ev{{"a", false, -time.Hour}}, nil, "", 0, 0},
		"all, at the end":              {[]ev{{"a", false, 0}}, func(h *haste) { h.all = true }, "", 0, 0},
		"a warning":                    {[]ev{{"a", true, 0}}, nil, "", 0, 0},
		"a warning before others":      {[]ev{{"a", false, time.Minute}, {"b", true, 0}}, nil, "", 1, 0},
		"what is before it in its pod": {[]ev{{"a", false, time.Minute}, {"b", false, 0}, {"b", true, 0}}, nil, "", 1, 0},
		"one of a pod at a time":       {[]ev{{"a", false, time.Minute}, {"b", false, time.Minute}}, nil, "a", 1, 0},
		"be it a warning":              {[]ev{{"a", true, time.Minute}, {"b", false, time.Second}}, nil, "a", -1, relook},
		"the rest of it waits":         {[]ev{{"a", false, time.Minute}}, nil, "a", -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue()
			for _, e := range c.list {
				q.add(waiting{event: port.Event{Pod: pod(e.pod), Warning: e.warning}, since: now.Add(-e.waited)})
			}
			h := base
			if c.haste != nil {
				c.haste(&h)
			}
			at, in := q.next(now, h, func(of about) bool { return of != about{uid: pod(c.taken).UID} })
			if at != c.at || in != c.in {
				t.Errorf("got %d, %v, want %d, %v", at, in, c.at, c.in)
			}
		})
	}
}
