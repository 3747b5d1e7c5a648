package simapi

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/tests/check"
)

// life is a life of writes, watches and trouble, all drawn from a seed, and the
// hash of all that anybody was told, with its time.
func life(t testing.TB, seed uint64) string {
	script := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, func(c *Config) {
		lat := DefaultLatencies()
		c.Rand, c.Latencies, c.WatchLag = streams(seed), &lat, DefaultWatchLag()
		c.LateEffect, c.WatchSkip, c.WatchBuffer, c.History = 0.3, 0.1, 20, 50
		c.Fault = func(Call) Fault {
			switch script.IntN(20) {
			case 0:
				return Fault{Fail: true, Kind: port.TooManyRequests}
			case 1:
				return Fault{LoseReply: true}
			}
			return Fault{}
		}
	})
	h := fnv.New64a()
	n := 0
	note := func(format string, args ...any) {
		n++
		fmt.Fprintf(h, "%v ", w.v.Now().Sub(epoch))
		fmt.Fprintf(h, format+"\n", args...)
	}
	var listeners []*listener
	for i := range 5 {
		listeners = append(listeners, w.listen(nodeName(i), port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + nodeName(i)}))
	}
	check.Value(w.Watch(WatchOptions{Select: Select{Kind: port.PodKind, Label: "app=web"}}, func(e Event) {
		note("%s %s@%d %s", e.Type, e.Object.GetName(), e.Version, e.Object.GetUID())
	}))(t)
	for i := range 300 {
		node := nodeName(script.IntN(5))
		api := w.Client(node)
		ctx := w.ending()
		said := func(o port.APIObject, err error) {
			if err != nil {
				note("%d %v", i, err)
				return
			}
			note("%d %s@%s", i, o.GetName(), o.GetResourceVersion())
		}
		all := check.Value(Objects[*v1.Pod](w.Server, Select{}))(t)
		var p *v1.Pod
		if len(all) > 0 {
			p = all[script.IntN(len(all))]
		}
		switch action := script.IntN(10); {
		case p == nil || action < 3:
			o := aPod("", node)
			o.GenerateName = "web-"
			api.Create(ctx, o, said)
		case action < 6:
			api.Patch(ctx, port.APIPatch{Key: podKey(p.Name), From: p, To: withStatus(p, runningStatus(p, metav1.NewTime(w.seconds()), int32(i))), Status: true}, said)
		case action == 6:
			api.Delete(ctx, port.APIDelete{Key: podKey(p.Name), UID: p.UID}, func(err error) { note("%d deleted: %v", i, err) })
		case action == 7:
			w.SetLink(node, Link(script.IntN(3)))
		case action == 8:
			api.Update(ctx, with(p, func(p *v1.Pod) { p.Labels = map[string]string{"app": "web", "i": fmt.Sprint(i)} }), said)
		default:
			w.Expire()
			w.CloseWatches(node)
		}
		if script.IntN(4) == 0 {
			w.v.AfterFunc(3*time.Millisecond, func() { ctx.End(errors.New("enough")) })
		}
		w.v.Advance(time.Duration(script.IntN(5000)) * time.Millisecond)
	}
	w.v.Advance(2 * time.Minute)
	for _, l := range listeners {
		for _, said := range l.said {
			note("%s", said)
		}
	}
	if n < 100 {
		t.Fatalf("seed %d: only %d things were told", seed, n)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestSameSeedSameLife: the same calls give the same answers at the same times.
func TestSameSeedSameLife(t *testing.T) {
	seen := map[string]uint64{}
	for seed := range uint64(50) {
		first := life(t, seed)
		check.Count(t, life(t, seed), first, "seed %d gave %s, then %s", seed, first)
		if other, known := seen[first]; known {
			t.Errorf("seeds %d and %d gave the same", seed, other)
		}
		seen[first] = seed
	}
}

// TestStreamsAreApart: a draw more in one subsystem moves no other's.
func TestStreamsAreApart(t *testing.T) {
	uids := func(latency bool) (out []string) {
		w := newWorld(t, func(c *Config) {
			if latency {
				lat := DefaultLatencies()
				c.Latencies, c.WatchSkip = &lat, 0.5
			}
		})
		w.listen("n1", port.Selection{Kind: port.ConfigMapKind})
		for i := range 5 {
			w.create(w.ending(), "n1", fmt.Sprint("m", i))
			w.v.Advance(time.Second)
			out = append(out, string(check.Value(w.Get(mapKey(fmt.Sprint("m", i))))(w).GetUID()))
		}
		return out
	}
	if a, b := fmt.Sprint(uids(false)), fmt.Sprint(uids(true)); a != b {
		t.Errorf("UIDs are %s, and %s when calls take long", a, b)
	}
}

// TestWallClockConcurrent is for the race detector: calls from many goroutines,
// contexts that end, links that break, and callbacks that never overlap.
func TestWallClockConcurrent(t *testing.T) {
	lat := Latencies{}
	for v := range lat {
		lat[v] = simport.Uniform(0, 3*time.Millisecond)
	}
	s, err := New(Config{Clock: kernel.WallClock{}, Rand: streams(1), Latencies: &lat, WatchLag: simport.Uniform(0, time.Millisecond), LateEffect: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	var inside atomic.Int32
	alone := func() {
		check.Equal(t, inside.Add(1), 1, "two callbacks at once")
		inside.Add(-1)
	}
	var all sync.WaitGroup
	watching, endWatches := context.WithCancel(context.Background())
	var watches sync.WaitGroup
	for i := range 5 {
		watches.Add(1)
		s.Client(nodeName(i)).Watch(watching, port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + nodeName(i)},
			func(port.APIChange) { alone() }, func(error) { alone(); watches.Done() })
	}
	stop, err := s.Watch(WatchOptions{Select: Select{Kind: port.PodKind}, Bookmarks: time.Millisecond}, func(Event) { alone() })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		all.Add(1)
		go func() {
			api, name := s.Client(nodeName(i%5)), fmt.Sprint("p", i)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond/5)
			api.Create(ctx, aPod(name, nodeName(i%5)), func(o port.APIObject, err error) {
				alone()
				if err != nil {
					cancel()
					all.Done()
					return
				}
				p := o.(*v1.Pod)
				api.Patch(ctx, port.APIPatch{Key: podKey(name), From: p, To: withStatus(p, runningStatus(p, metav1.NewTime(epoch), 0)), Status: true}, func(port.APIObject, error) {
					api.Delete(ctx, port.APIDelete{Key: podKey(name)}, func(error) {
						alone()
						cancel()
						all.Done()
					})
				})
			})
			if i%7 == 0 {
				s.SetLink(nodeName(i%5), Refused)
				s.SetLink(nodeName(i%5), Up)
			}
			if i%11 == 0 {
				s.CloseWatches(nodeName(i % 5))
			}
		}()
	}
	all.Wait()
	stop()
	endWatches()
	watches.Wait()
}
