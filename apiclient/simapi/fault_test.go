package simapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/tests/check"
)

func aMap(name string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func mapKey(name string) port.APIKey {
	return port.APIKey{Kind: port.ConfigMapKind, Namespace: "default", Name: name}
}

// answer is when a call was answered and with what; empty if not yet.
type answer struct{ said string }

// create makes a call to create a map.
func (w *world) create(ctx context.Context, node, name string) *answer {
	a := &answer{}
	w.Client(node).Create(ctx, aMap(name), func(o port.APIObject, err error) {
		switch at := w.v.Now().Sub(epoch); {
		case a.said != "":
			a.said += " and again"
		case err != nil:
			a.said = fmt.Sprintf("%v %s", at, port.KindOf(err))
		default:
			a.said = fmt.Sprintf("%v %s", at, o.GetName())
		}
	})
	check.Equal(w, a.said, "", "answered inside the call")
	return a
}

func (w *world) there(name string) bool {
	_, err := w.Get(mapKey(name))
	return err == nil
}

func TestFaults(t *testing.T) {
	gone := errors.New("gave up")
	for _, c := range []struct {
		name  string
		fault Fault
		late  float64
		// endAt ends the context, 0 for never.
		endAt time.Duration
		// meanwhile happens after 5 ms, half of a call's latency.
		meanwhile func(*world)
		want      string
		there     bool
		left      int // calls in flight at the end
	}{
		{name: "nothing", want: "10ms m", there: true},
		{name: "fail", fault: Fault{Fail: true, Kind: port.Forbidden}, want: "10ms forbidden"},
		{name: "conflict", fault: Fault{Fail: true, Kind: port.Conflict}, want: "10ms conflict"},
		{name: "late", fault: Fault{Latency: time.Second}, want: "1.01s m", there: true},
		{name: "fail late", fault: Fault{Fail: true, Kind: port.TooManyRequests, Latency: time.Second}, want: "1.01s too many requests"},
		{name: "hang", fault: Fault{Hang: true}, left: 1},
		{name: "hang until the context ends", fault: Fault{Hang: true}, late: 1, endAt: 2 * time.Second, want: "2s canceled"},
		{name: "lost reply", fault: Fault{LoseReply: true}, there: true, left: 1},
		{name: "lost reply, context ends", fault: Fault{LoseReply: true}, endAt: 2 * time.Second, want: "2s canceled", there: true},
		{name: "takes effect and fails", fault: Fault{Partial: true, Kind: port.Unavailable}, want: "10ms unavailable", there: true},
		{name: "late answer", fault: Fault{AnswerLate: time.Second}, want: "1.01s m", there: true},
		{name: "late answer, context ends", fault: Fault{AnswerLate: time.Minute}, endAt: 2 * time.Second, want: "2s canceled", there: true},
		{name: "late answer, silence meanwhile", fault: Fault{AnswerLate: time.Second}, meanwhile: func(w *world) { w.SetLink("n1", Silent) }, there: true, left: 1},
		{name: "late work", fault: Fault{WorkLate: time.Second}, want: "1.01s m", there: true},
		{name: "late work, context ends", fault: Fault{WorkLate: 3 * time.Second}, endAt: 2 * time.Second, want: "2s canceled", there: true},
		{name: "late work, connection refused meanwhile", fault: Fault{WorkLate: time.Second}, meanwhile: func(w *world) { w.SetLink("n1", Refused) }, want: "5ms unavailable", there: true},
		{name: "context ends first", endAt: 5 * time.Millisecond, want: "5ms canceled"},
		{name: "context ends first, too late", endAt: 5 * time.Millisecond, late: 1, want: "5ms canceled", there: true},
		{name: "connection refused meanwhile", meanwhile: func(w *world) { w.SetLink("n1", Refused) }, want: "5ms unavailable"},
		{name: "connection refused meanwhile, too late", late: 1, meanwhile: func(w *world) { w.SetLink("n1", Refused) }, want: "5ms unavailable", there: true},
		{name: "another's connection", meanwhile: func(w *world) { w.SetLink("n2", Refused) }, want: "10ms m", there: true},
		{name: "silence meanwhile", meanwhile: func(w *world) { w.SetLink("n1", Silent) }, there: true, left: 1},
		{name: "silence, context ends", meanwhile: func(w *world) { w.SetLink("n1", Silent) }, endAt: time.Second, want: "1s canceled", there: true},
		{name: "server down meanwhile", meanwhile: func(w *world) { w.SetDown(true) }, want: "5ms unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls []Call
			w := newWorld(t, func(cfg *Config) {
				cfg.LateEffect = c.late
				cfg.Fault = func(call Call) Fault { calls = append(calls, call); return c.fault }
			})
			ctx := w.ending()
			a := w.create(ctx, "n1", "m")
			if c.meanwhile != nil {
				w.v.AfterFunc(5*time.Millisecond, func() { c.meanwhile(w) })
			}
			if c.endAt != 0 {
				w.v.AfterFunc(c.endAt, func() { ctx.End(gone) })
			}
			w.v.Advance(time.Minute)
			if a.said != c.want || w.there("m") != c.there {
				t.Errorf("said %q, there %v; want %q, %v", a.said, w.there("m"), c.want, c.there)
			}
			if left := w.Stats().InFlight; left != c.left {
				t.Errorf("%d calls are left, want %d", left, c.left)
			}
			if len(calls) != 1 || calls[0] != (Call{Node: "n1", Verb: Create, Key: mapKey("m")}) {
				t.Errorf("the hook saw %+v", calls)
			}
		})
	}
}

// TestEchoBeforeAnswer: with a late answer, a watch tells of a write before the write is answered.
func TestEchoBeforeAnswer(t *testing.T) {
	w := newWorld(t, func(cfg *Config) {
		cfg.Fault = func(call Call) Fault {
			if call.Verb == Create {
				return Fault{AnswerLate: time.Second}
			}
			return Fault{}
		}
	})
	l := w.listen("n1", port.Selection{Kind: port.ConfigMapKind})
	w.v.Advance(time.Second)
	l.heard()
	a := w.create(w.ending(), "n1", "m")
	w.v.Advance(500 * time.Millisecond)
	if got := strings.Join(l.heard(), ", "); got != "1.011s set m@2" || a.said != "" {
		t.Errorf("the watch told %q, the answer was %q", got, a.said)
	}
	w.v.Advance(time.Second)
	check.Equal(t, a.said, "2.01s m", "the answer was")
}

// TestLateList: a list that is answered late has the objects of its instant, and what changed
// meanwhile follows.
func TestLateList(t *testing.T) {
	w := newWorld(t, func(cfg *Config) {
		cfg.Fault = func(call Call) Fault {
			if call.Verb == List {
				return Fault{AnswerLate: time.Second}
			}
			return Fault{}
		}
	})
	l := w.listen("n1", port.Selection{Kind: port.ConfigMapKind})
	w.v.Advance(500 * time.Millisecond)
	w.created(aMap("m"))
	w.v.Advance(time.Second)
	check.Equal(t, strings.Join(l.heard(), ", "), "1.011s replaced 0, 1.011s set m@2", "the watch told")
}

// TestLinks: calls while the connection is not as it should be.
func TestLinks(t *testing.T) {
	w := newWorld(t, nil)
	w.SetLink("n1", Refused)
	refused, fine := w.create(w.ending(), "n1", "refused"), w.create(w.ending(), "n2", "fine")
	w.v.Advance(time.Second)
	if refused.said != "500µs unavailable" || fine.said != "10ms fine" {
		t.Errorf("refused: %q; another: %q", refused.said, fine.said)
	}
	w.SetLink("n1", Silent)
	ctx := w.ending()
	silent := w.create(ctx, "n1", "silent")
	w.v.Advance(time.Minute)
	if silent.said != "" || w.there("silent") {
		t.Errorf("a call into the void: %q", silent.said)
	}
	w.SetLink("n1", Up)
	up := w.create(w.ending(), "n1", "up")
	w.v.Advance(time.Second)
	ctx.End(context.DeadlineExceeded)
	w.v.Advance(time.Second)
	if up.said != "1m1.01s up" || silent.said != "1m2s deadline exceeded" {
		t.Errorf("up again: %q; the call before: %q", up.said, silent.said)
	}
	w.SetDown(true)
	down := w.create(w.ending(), "n2", "down")
	w.created(aMap("owner"))
	w.v.Advance(time.Second)
	if !strings.HasSuffix(down.said, "unavailable") || !w.there("owner") {
		t.Errorf("down: %q", down.said)
	}
	w.SetDown(false)
	again := w.create(w.ending(), "n2", "down")
	w.v.Advance(time.Second)
	if !strings.HasSuffix(again.said, " down") {
		t.Errorf("up again: %q", again.said)
	}
}

// TestFollowLinks: a watch over connections that break.
func TestFollowLinks(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Rand = streams(3) })
	sel := port.Selection{Kind: port.ConfigMapKind}
	l := w.listen("n1", sel)
	w.v.Advance(time.Second)
	l.heard()
	w.SetLink("n1", Refused)
	w.created(aMap("a"))
	w.v.Advance(10 * time.Second)
	wantSaid(t, "refused", l.heard(), "1s broken Watch ConfigMap: unavailable: read: connection reset by peer",
		"1.140265837s broken Watch ConfigMap: unavailable: connect: connection refused")
	w.SetLink("n1", Up)
	w.v.Advance(time.Minute)
	if said := l.heard(); len(said) != 1 || !strings.HasSuffix(said[0], "set a@2") {
		t.Errorf("up again: %q", said)
	}

	// A short silence costs time and nothing else.
	from := w.v.Now()
	w.SetLink("n1", Silent)
	w.created(aMap("b"))
	w.v.Advance(7 * time.Second)
	wantSaid(t, "silent", l.heard())
	w.SetLink("n1", Up)
	w.v.Advance(0)
	wantSaid(t, "up after 7 s", l.heard(), fmt.Sprintf("%v set b@3", from.Add(7*time.Second).Sub(epoch)))

	// A long one is noticed.
	from = w.v.Now()
	w.SetLink("n1", Silent)
	w.v.Advance(2 * time.Minute)
	w.created(aMap("c"))
	said := l.heard()
	if len(said) != 2 || said[0] != fmt.Sprintf("%v broken Watch ConfigMap: unavailable: http2: client connection lost", from.Add(pingTimeout).Sub(epoch)) ||
		!strings.HasSuffix(said[1], "broken Watch ConfigMap: unavailable: dial tcp: i/o timeout") {
		t.Errorf("silent for two minutes: %q", said)
	}
	w.SetLink("n1", Up)
	w.v.Advance(2 * time.Minute)
	if said := l.heard(); len(said) != 1 || !strings.HasSuffix(said[0], "set c@4") {
		t.Errorf("up again: %q", said)
	}
	// One whose context ends while it hangs leaves nothing.
	w.SetLink("n1", Silent)
	late := w.listen("n1", sel)
	w.v.Advance(time.Second)
	late.ctx.End(context.Canceled)
	l.ctx.End(context.Canceled)
	w.v.Advance(5 * time.Minute)
	if len(late.ended) != 1 || len(l.ended) != 1 || len(late.heard()) > 0 || w.Stats().InFlight != 0 || w.Stats().Watches != 0 {
		t.Errorf("ended %v and %v, left %+v", late.ended, l.ended, w.Stats())
	}
}

// TestFollowFaults: what the hook does to lists and watches.
func TestFollowFaults(t *testing.T) {
	var fault Fault
	var calls []string
	w := newWorld(t, func(c *Config) {
		c.Fault = func(call Call) Fault {
			calls = append(calls, fmt.Sprint(call.Verb, " ", call.Key.Kind, " ", call.Field))
			return fault
		}
	})
	fault = Fault{Fail: true, Kind: port.TooManyRequests, Detail: "later"}
	l := w.listen("n1", port.Selection{Kind: port.PodKind, Field: "spec.nodeName=n1"})
	w.v.Advance(10 * time.Second)
	wantSaid(t, "refused lists", l.heard(), "10ms broken List Pod spec.nodeName=n1: too many requests: later")
	fault = Fault{Hang: true}
	w.v.Advance(time.Minute)
	wantSaid(t, "lists that hang", l.heard())
	w.SetLink("n1", Refused)
	w.SetLink("n1", Up)
	fault = Fault{}
	w.v.Advance(time.Minute)
	if said := l.heard(); len(said) != 2 || !strings.HasSuffix(said[1], "replaced 0") {
		t.Errorf("at last: %q", said)
	}
	w.CloseWatches("n1")
	w.v.Advance(time.Second)
	if last := calls[len(calls)-1]; last != "Watch Pod spec.nodeName=n1" || calls[0] != "List Pod spec.nodeName=n1" {
		t.Errorf("the hook saw %q", calls)
	}
}

// TestStaleWatch: the hook says how late one watch is told; another is not.
func TestStaleWatch(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.ExtraLag = func(of Watching) time.Duration {
			if of.Node == "n1" && of.Selection.Kind == port.ConfigMapKind {
				return time.Minute
			}
			return 0
		}
	})
	stale, fresh := w.listen("n1", port.Selection{Kind: port.ConfigMapKind}), w.listen("n2", port.Selection{Kind: port.ConfigMapKind})
	w.v.Advance(2 * time.Minute)
	stale.heard()
	fresh.heard()
	w.created(aMap("a"))
	w.v.Advance(30 * time.Second)
	wantSaid(t, "stale, soon", stale.heard())
	wantSaid(t, "fresh", fresh.heard(), "2m0.001s set a@2")
	w.v.Advance(31 * time.Second)
	wantSaid(t, "stale, late", stale.heard(), "3m0.001s set a@2")
}

func TestConfigRefused(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Clock = nil }, "Clock is required"},
		{func(c *Config) { c.Rand = nil }, "Rand is required"},
		{func(c *Config) { c.LateEffect = 1.5 }, "LateEffect 1.5: want a chance"},
		{func(c *Config) { c.WatchSkip = -1 }, "WatchSkip -1: want a chance"},
		{func(c *Config) { c.History = -1 }, "want none negative"},
		{func(c *Config) { c.WatchLag = simport.Constant(-1) }, "WatchLag: -1ns is negative"},
		{func(c *Config) { c.Latencies = &Latencies{Patch: simport.Uniform(2, 1)} }, "Latencies[Patch]: 2ns..1ns"},
	} {
		cfg := Config{Clock: newWorld(t, nil).v, Rand: streams(1)}
		c.change(&cfg)
		check.Says(t, check.Err(New(cfg)), c.want, "error is")
	}
}
