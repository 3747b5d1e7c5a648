package scenarios

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// stride is how many message boundaries a test goes on at a time: all of them
// with TROUPE_EVERY=1, a share of them (another in each seed) otherwise. With the race detector it is a smaller share: CI
// runs the whole share without it.
func stride(n int) int {
	if os.Getenv("TROUPE_EVERY") != "" {
		return 1
	}
	if testing.Short() || actortest.Raced {
		n *= 4
	}
	return n
}

// few are pods that have a bit of everything.
func few() []*spec {
	return []*spec{
		emptyPod("a-init").init("setup").sidecar("proxy").main("app").volume("data").about("info").part("data", "logs"),
		aPod("b-plain").startup(execProbe("check")).liveness(grpcProbe()).readiness(httpProbe("/")),
		aPod("c-slow").main("log").script("app", "term-delay", "1s"),
	}
}

// every is a stride, about one that comes to so many points.
func every(n int) func(int) int      { return func(int) int { return stride(n) } }
func about(points int) func(int) int { return func(all int) int { return stride(1 + all/points) } }

// atBoundaries counts the messages and timers of a world from its beginning until it is done. Then each is given worlds
// that begin like it and have come some of these steps further.
func atBoundaries(
	t *testing.T, by func(int) int, begin func(k int) *world, done func(*world) bool, each func(k int, w *world),
) {
	t.Helper()
	w := begin(0)
	all := 0
	for end := w.v.Now().Add(time.Minute); !done(w); all++ {
		if !w.step(end) {
			w.failf("the goal is not reached")
		}
	}
	w.kill()
	for k := 0; k <= all; k += by(all) {
		w := begin(k)
		w.steps(k)
		each(k, w)
		if w.crashes > 0 && w.around == nil {
			w.failf("%d actors crashed", w.crashes)
		}
		w.kill()
	}
	t.Logf("%d boundaries", all)
}

// steps goes on for so many messages and timers.
func (w *world) steps(n int) {
	for range n {
		w.step(w.v.Now().Add(time.Minute))
	}
}

func bringUp(w *world) {
	w.run(100 * time.Millisecond)
	w.add(few()...)
}

func takeDown(w *world) {
	bringUp(w)
	w.allUp(time.Minute)
	for _, s := range few() {
		w.drop(s.Name)
	}
}

func done(w *world) bool { return w.watch.up() == "" }

// TestKilledAtEveryBoundary kills the agent after each message, once, and starts
// another on the same machine: the pods come up, or go, as if nothing had been,
// and no container is restarted. What the runtime was asked for may happen all
// the same.
func TestKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*world){"coming up": bringUp, "going down": takeDown} {
		t.Run(name, func(t *testing.T) {
			atBoundaries(t, every(9), func(k int) *world {
				w := newNode(t, 1, withLateEffects(float64(k%3)/2))
				w.watch.restartsExpected = false
				prepare(w)
				return w
			}, done, func(_ int, w *world) {
				w.restart()
				w.allUp(2 * time.Minute)
				w.quiet()
			})
		})
	}
}

// TestKilledWhileAllRuns: nothing is touched, and people are told soon.
func TestKilledWhileAllRuns(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(many("p", 30, aPod)...)
	w.allUp(time.Minute)
	w.watch.restartsExpected = false
	changes := func() (n uint64) {
		for _, m := range []simcri.Method{simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer, simcri.StopContainer, simcri.StopPodSandbox, simcri.PullImage} {
			n += w.rt.Calls(m)
		}
		return n
	}
	before := changes()
	for range 3 {
		w.restart()
		w.run(500 * time.Millisecond)
		running := 0
		for _, p := range w.view().Pods {
			if p.Phase == "Running" && p.Ready && p.Containers[0].ID != "" {
				running++
			}
		}
		check.Equal(t, running, 30, "half a second after its start the agent shows %d of 30 pods running", running)
		w.run(2 * time.Minute)
	}
	check.Equal(t, changes(), before, "a restart of the agent made %d calls that change something", changes()-before)
	w.quiet()
}

// panics makes the n-th message of an actor a panic, once.
func panics(w *world, actor string, n int, handled bool) {
	seen := 0
	w.around = func(who string, m any, h bool) {
		if who != actor || h != handled {
			return
		}
		if seen++; seen == n+1 {
			panic(fmt.Sprintf("%s: %s on its message %d, %T", planted, who, n, m))
		}
	}
}

// panicsAnywhere lets each actor panic once on each of its messages in a course, or on about so many of them: before it
// is handled (it is lost) and after (what the actor knew is).
func panicsAnywhere(
	t *testing.T, points int, begin func(testing.TB) *world, course, end func(*world), actors ...string,
) {
	t.Parallel()
	count := map[string]int{}
	w := begin(t)
	w.around = func(who string, _ any, handled bool) {
		if handled {
			count[who]++
		}
	}
	course(w)
	for _, actor := range actors {
		t.Run(actor, func(t *testing.T) {
			if count[actor] == 0 {
				t.Fatal("it has nothing to do")
			}
			by := stride(1 + count[actor]/points)
			for n := 0; n < count[actor]; n += by {
				for _, handled := range []bool{false, true} {
					w := begin(t)
					w.watch.restartsExpected = false
					panics(w, actor, n, handled)
					course(w)
					end(w)
					if w.fatal != nil || w.crashes > 1 {
						w.failf("%d crashes", w.crashes)
					}
					w.kill()
				}
			}
			t.Logf("%d messages", count[actor])
		})
	}
}

func oneNode(t testing.TB) *world { return newNode(t, 1) }

func oneClusterNode(t testing.TB) *world {
	w, _ := newClusterNode(t, 1)
	return w
}

func TestActorPanics(t *testing.T) {
	panicsAnywhere(t, 15, oneNode, func(w *world) {
		bringUp(w)
		w.allUp(3 * time.Minute)
		w.drop("b-plain", "c-slow")
		w.allUp(3 * time.Minute)
		w.run(70 * time.Second) // a sweep of gc, a list of pleg
	}, func(w *world) {
		w.run(2 * time.Minute) // the deadline of a question that was lost
		w.quiet()
	}, "pods", "podset", "images", "volumes", "cgroups", "probes", "gc", "sources", "pleg", "standalone",
		"pod/a-init", "pod/b-plain")
}

// TestPodActorThatAlwaysPanics: that pod is put aside, and nobody else notices.
func TestPodActorThatAlwaysPanics(t *testing.T) {
	t.Parallel()
	usual := func(bad bool) time.Duration {
		w := newNode(t, 1)
		w.watch.restartsExpected = false
		w.add(aPod("bad"))
		w.allUp(time.Minute)
		if bad {
			w.around = func(who string, _ any, _ bool) {
				if who == "pod/bad" {
					panic(planted)
				}
			}
			w.end("bad", "app", 1)
			w.run(10 * time.Second)
			if p := w.pod("bad"); p.Problem == "" {
				w.failf("people are not told that the pod's actor is in quarantine: %+v", p)
			}
		}
		begin := w.v.Now()
		w.add(many("p", 20, aPod)...)
		w.until(time.Minute, "20 pods", func() bool {
			for _, n := range names("p", 20) {
				if !w.runs(n, "app", 0) {
					return false
				}
			}
			return true
		})
		took := w.v.Now().Sub(begin)
		if !bad {
			return took
		}
		w.run(10 * time.Minute)
		w.watch.restartsExpected = true
		w.around = nil
		w.until(2*time.Minute, "it works again", func() bool { return w.runs("bad", "app", 1) })
		w.run(time.Minute)
		w.quiet()
		return took
	}
	without, with := usual(false), usual(true)
	check.AtMost(t, with, without*12/10, "20 pods took %v beside one in quarantine, %v without", with, without)
}

// TestQuarantinedPodIsRemoved: its manifest goes while its actor is put aside.
func TestQuarantinedPodIsRemoved(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("bad"))
	w.allUp(time.Minute)
	broken := true
	w.around = func(who string, _ any, _ bool) {
		if who == "pod/bad" && broken {
			panic(planted)
		}
	}
	w.end("bad", "app", 1)
	w.run(10 * time.Second)
	w.drop("bad")
	w.run(5 * time.Minute)
	broken = false
	w.allUp(3 * time.Minute)
	w.quiet()
}
