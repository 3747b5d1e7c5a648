package simcri

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// chaos makes random calls, many at a time, on few pods, under faults.
type chaos struct {
	*world
	pick  func(n int) int // 0 to n-1
	pods  []*v1.Pod
	trace strings.Builder

	calls    int
	answers  map[int]int // how often call i was answered
	contexts []actortest.Ending
	ids      []string // of sandboxes and containers, gone ones too

	before map[string]observed.Container // the last state of each container seen
}

var chaosScripts = [][]string{
	{}, {"run-for", "20ms..2s", "exit-code", "3"}, {"crash-loop", "true"}, {"oom-after", "1s"},
	{"ignore-term", "true"}, {"term-delay", "0s..3s"}, {"start-latency", "1s"}, {"exec-hang", "true"}, {"exit-code", "bad"},
}

func newChaos(t tester, seed uint64, pick func(int) int) *chaos {
	c := &chaos{pick: pick, answers: map[int]int{}, before: map[string]observed.Container{}}
	c.world = newWorld(t, func(cfg *Config) {
		cfg.Rand = streams(seed)
		cfg.Latencies = nil
		cfg.LateEffect = 0.5
		cfg.PodCIDR = mustPrefix("10.0.0.0/29")
		cfg.Events = EventPolicy{Delay: Uniform(0, 50*time.Millisecond), Drop: 0.1, Duplicate: 0.1}
		cfg.Registry = NewRegistry()
		cfg.Registry.Put(testImage, RegistryImage{SizeBytes: 20 << 20})
		cfg.Fault = func(Call) Fault {
			switch pick(20) {
			case 0:
				return Fault{Fail: true, Kind: port.Other}
			case 1:
				return Fault{Hang: true}
			case 2:
				return Fault{LoseReply: true}
			case 3:
				return Fault{Partial: true}
			case 4:
				return Fault{Latency: time.Second}
			}
			return Fault{}
		}
	})
	for i, script := range chaosScripts {
		c.pods = append(c.pods, aPod(fmt.Sprintf("p%d", i), script...))
	}
	return c
}

// called notes a call and gives what notes its answer.
func (c *chaos) called(what string) func(result any, err error) {
	n := c.calls
	c.calls++
	fmt.Fprintf(&c.trace, "%v call %d %s\n", c.clock.Now().Sub(epoch), n, what)
	return func(result any, err error) {
		c.answers[n]++
		fmt.Fprintf(&c.trace, "%v answer %d %v %v\n", c.clock.Now().Sub(epoch), n, result, err)
		if id, ok := result.(string); ok && err == nil {
			c.ids = append(c.ids, id)
		}
	}
}

func (c *chaos) context() context.Context {
	ctx := c.ending()
	c.contexts = append(c.contexts, ctx)
	return ctx
}

// anID is one of a sandbox or container that is there or was.
func (c *chaos) anID() string {
	if len(c.ids) == 0 {
		return "none"
	}
	// Late ones first: most of the others are gone.
	return c.ids[max(0, len(c.ids)-1-c.pick(12))]
}

func (c *chaos) step() {
	ctx, p, id := c.context(), c.pods[c.pick(len(c.pods))], c.anID()
	note := func(what string) func(error) {
		f := c.called(what)
		return func(err error) { f(nil, err) }
	}
	switch what := c.pick(18); what {
	case 0, 1:
		attempt := uint32(c.pick(3))
		f := c.called(fmt.Sprintf("run %s %d", p.Name, attempt))
		c.RunPodSandbox(ctx, port.RunPodSandbox{Pod: p, Attempt: attempt}, func(id string, err error) { f(id, err) })
	case 2, 3:
		q := creation(p, id, uint32(c.pick(3)))
		f := c.called(fmt.Sprintf("create %s %d in %s", p.Name, q.Attempt, id))
		c.CreateContainer(ctx, q, func(id string, err error) { f(id, err) })
	case 4, 5, 6:
		c.StartContainer(ctx, id, note("start "+id))
	case 7:
		c.StopContainer(ctx, id, time.Duration(c.pick(3))*time.Second, note("stop "+id))
	case 8:
		c.RemoveContainer(ctx, id, note("remove "+id))
	case 9:
		c.StopPodSandbox(ctx, id, note("stop sandbox "+id))
	case 10:
		c.RemovePodSandbox(ctx, id, note("remove sandbox "+id))
	case 11:
		f := c.called("exec " + id)
		c.ExecSync(ctx, id, port.Words(), time.Duration(c.pick(3))*time.Second, func(r port.ExecResult, err error) { f(r.ExitCode, err) })
	case 12:
		f := c.called("pull")
		c.PullImage(ctx, port.PullImage{Image: testImage, Pod: p}, func(_ string, err error) { f(nil, err) })
	case 13:
		f := c.called("list")
		c.List(ctx, "", func(seen observed.Runtime, err error) { f(fmt.Sprintf("%+v", seen.Pods), err) })
	case 14:
		over, done := false, note("events")
		c.Events(ctx, func() {}, func(e port.RuntimeEvent) {
			if over {
				c.t.Fatalf("an event came after the end of its stream: %+v", e)
			}
			fmt.Fprintf(&c.trace, "%v event %v %s\n", c.clock.Now().Sub(epoch), e.Kind, e.ContainerID)
		}, func(err error) { over = true; done(err) })
	case 15:
		c.contexts[c.pick(len(c.contexts))].End(context.Canceled)
	case 16:
		if c.pick(4) == 0 {
			c.Kill()
			c.advanceAndCheck(time.Duration(c.pick(500)) * time.Millisecond)
			c.Restart()
		}
	case 17:
		_ = c.EndContainer(id, Exit{Code: 9})
	}
	c.advanceAndCheck(time.Duration(c.pick(200)) * time.Millisecond)
}

func (c *chaos) advanceAndCheck(d time.Duration) {
	limit := c.clock.Now().Add(d)
	for c.world.step(limit) {
		c.check()
	}
	c.clock.Advance(limit.Sub(c.clock.Now()))
	c.check()
}

// check holds the truth to the invariants.
func (c *chaos) check() {
	truth := c.Truth()
	ready := 0
	ips := map[string]bool{}
	seen := map[string]observed.Container{}
	for _, p := range truth.Runtime.Pods {
		names := map[string]bool{}
		boxes := map[string]observed.Sandbox{}
		for _, s := range p.Sandboxes {
			key := fmt.Sprint("sandbox ", s.Attempt)
			if names[key] {
				c.t.Fatalf("pod %s has two of %s", p.Ref, key)
			}
			names[key], boxes[s.ID] = true, s
			if s.State == observed.SandboxReady {
				ready++
				if len(s.IPs) != 1 || ips[s.IPs[0]] {
					c.t.Fatalf("ready sandbox %s has addresses %v", s.ID, s.IPs)
				}
				ips[s.IPs[0]] = true
			} else if len(s.IPs) != 0 {
				c.t.Fatalf("stopped sandbox %s has addresses %v", s.ID, s.IPs)
			}
		}
		for _, k := range p.Containers {
			key := fmt.Sprint(k.Name, " ", k.Attempt)
			if names[key] {
				c.t.Fatalf("pod %s has two of %s", p.Ref, key)
			}
			names[key] = true
			box, ok := boxes[k.SandboxID]
			if !ok {
				c.t.Fatalf("container %s is in no sandbox", k.ID)
			}
			if k.State == observed.ContainerRunning && box.State != observed.SandboxReady {
				c.t.Fatalf("container %s runs in a stopped sandbox", k.ID)
			}
			if was, ok := c.before[k.ID]; ok {
				if k.State < was.State {
					c.t.Fatalf("container %s went from %v to %v", k.ID, was.State, k.State)
				}
				if was.State == observed.ContainerExited && (k.ExitCode != was.ExitCode || k.FinishedAt != was.FinishedAt || k.Reason != was.Reason) {
					c.t.Fatalf("container %s ended twice: %+v, %+v", k.ID, was, k)
				}
			}
			seen[k.ID] = k
		}
	}
	if truth.Addresses != ready {
		c.t.Fatalf("%d addresses are taken by %d ready sandboxes", truth.Addresses, ready)
	}
	for n, times := range c.answers {
		check.Fatal(c.t, check.Is(times, 1, "call %d was answered %d times", n, times))
	}
	c.before = seen
}

// finish ends all contexts and then expects every call to have been answered,
// and everything to be removable.
func (c *chaos) finish() {
	for _, ctx := range c.contexts {
		ctx.End(context.DeadlineExceeded)
	}
	c.advanceAndCheck(time.Minute)
	check.Fatal(c.t, check.Is(len(c.answers), c.calls, "%d of %d calls were answered", len(c.answers), c.calls))
	if n := c.Truth().InFlight; n != 0 {
		c.t.Fatalf("%d calls are left", n)
	}
	c.cfg.Fault = nil
	for _, p := range c.Truth().Runtime.Pods {
		for _, s := range p.Sandboxes {
			check.Fatal(c.t, c.removeSandboxSync(s.ID))
		}
	}
	if truth := c.Truth(); len(truth.Runtime.Pods) != 0 || truth.Addresses != 0 || len(c.Runtime.pods) != 0 {
		c.t.Fatalf("after removal there is %+v", truth)
	}
}

func TestChaosKeepsInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		numbers := rapid.IntRange(0, 1<<16)
		c := newChaos(rt, rapid.Uint64().Draw(rt, "seed"), func(n int) int { return numbers.Draw(rt, "pick") % n })
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			c.step()
		}
		c.finish()
	})
}

func chaosTrace(t tester, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := newChaos(t, seed, rng.IntN)
	for range 400 {
		c.step()
	}
	c.finish()
	return c.trace.String()
}

// TestSameSeedSameRun: the same calls give the same answers and events at the
// same times; another seed gives others.
func TestSameSeedSameRun(t *testing.T) {
	runs := map[string]bool{}
	for seed := range uint64(20) {
		first, second := chaosTrace(t, seed), chaosTrace(t, seed)
		if first != second {
			a, b := strings.Split(first, "\n"), strings.Split(second, "\n")
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					t.Fatalf("seed %d: line %d is\n%s\nand then\n%s", seed, i, a[i], b[i])
				}
			}
			t.Fatalf("seed %d: %d lines and then %d", seed, len(a), len(b))
		}
		runs[first] = true
		for _, rare := range []string{"event stopped", "name reserved", "unavailable", "canceled"} {
			if !strings.Contains(first, rare) {
				t.Logf("seed %d never saw %q", seed, rare)
			}
		}
	}
	check.Equal(t, len(runs), 20, "20 seeds gave %d different runs", len(runs))
}
