package simcri

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// faulty makes a world in which the next call of a method goes wrong.
func faulty(t *testing.T) (*world, func(Method, Fault)) {
	next := map[Method]Fault{}
	w := newWorld(t, func(c *Config) {
		c.Fault = func(call Call) Fault {
			f := next[call.Method]
			delete(next, call.Method)
			return f
		}
	})
	w.MakeImagePresent(testImage, RegistryImage{})
	return w, func(m Method, f Fault) { next[m] = f }
}

func TestFaultFail(t *testing.T) {
	w, set := faulty(t)
	p := aPod("p")
	set(RunPodSandbox, Fault{Fail: true, Kind: port.Unavailable, Detail: "gone fishing", Latency: time.Second})
	begun := w.clock.Now()
	_, err := w.run(p, 0)
	wantKind(t, "run", err, port.Unavailable)
	if want := "RunPodSandbox default/p: unavailable: gone fishing"; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
	check.Equal(t, w.clock.Now().Sub(begun), time.Second+time.Millisecond, "it took")
	check.Value(w.run(p, 0))(t) // nothing took effect
}

func TestFaultHangAndLoseReply(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  Fault
		effect bool
	}{
		{"hang", Fault{Hang: true}, false},
		{"lost reply", Fault{LoseReply: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, set := faulty(t)
			p := aPod("p")
			set(RunPodSandbox, c.fault)
			ctx := w.ending()
			a, done := give[string](w)
			w.RunPodSandbox(ctx, port.RunPodSandbox{Pod: p}, done)
			w.clock.Advance(24 * time.Hour)
			check.Fatal(t, check.Is(a.n, 0, "it answered %v", a.err))
			ctx.End(context.DeadlineExceeded)
			w.clock.Advance(0)
			wantKind(t, "after the deadline", a.err, port.Deadline)
			check.Equal(t, len(w.Truth().Runtime.Pods) == 1, c.effect, "took effect")
			_, err := w.run(p, 0)
			if c.effect {
				wantKind(t, "again", err, port.NameReserved)
			} else if err != nil {
				t.Error(err)
			}
			check.Count(t, w.Truth().InFlight, 0, "%d calls are left")
		})
	}
}

func TestFaultPartial(t *testing.T) {
	w, set := faulty(t)
	p := aPod("p")
	partial := Fault{Partial: true, Kind: port.Other, Detail: "half"}

	set(RunPodSandbox, partial)
	_, err := w.run(p, 0)
	wantKind(t, "run", err, port.Other)
	if truth := w.Truth(); truth.Runtime.Pods[0].Sandboxes[0].State != observed.SandboxNotReady || truth.Addresses != 0 {
		t.Errorf("left behind: %+v", truth)
	}
	_, err = w.run(p, 0)
	wantKind(t, "again", err, port.NameReserved)

	sandbox := check.Value(w.run(p, 1))(t)
	set(CreateContainer, partial)
	_, err = w.create(p, sandbox, 0)
	wantKind(t, "create", err, port.Other)
	c, _ := w.Find(p.UID, "app")
	set(StartContainer, partial)
	wantKind(t, "start", w.startSync(c.ID), port.Other)
	if c, _ = w.Find(p.UID, "app"); c.State != observed.ContainerRunning {
		t.Errorf("container is %v", c.State)
	}
	set(StopPodSandbox, partial)
	wantKind(t, "stop", w.stopSandboxSync(sandbox), port.Other)
	if c, _ = w.Find(p.UID, "app"); c.State != observed.ContainerExited || check.Value(w.sandboxStatus(sandbox))(t).State != observed.SandboxReady {
		t.Errorf("container is %v", c.State)
	}
	set(RemovePodSandbox, partial)
	wantKind(t, "remove", w.removeSandboxSync(sandbox), port.Other)
	if _, there := w.Find(p.UID, "app"); there || check.Value(w.sandboxStatus(sandbox))(t).State != observed.SandboxReady {
		t.Error("the container is left, or the sandbox is not")
	}
}

// TestLateEffect: a call whose context ended takes effect or not, by chance.
func TestLateEffect(t *testing.T) {
	for _, chance := range []float64{0, 1} {
		w := newWorld(t, func(c *Config) { c.LateEffect = chance })
		ctx := w.ending()
		a, done := give[string](w)
		w.RunPodSandbox(ctx, port.RunPodSandbox{Pod: aPod("p")}, done)
		ctx.End(context.Canceled)
		w.clock.Advance(0)
		wantKind(t, "run", a.err, port.Canceled)
		w.clock.Advance(time.Second)
		check.Equal(t, len(w.Truth().Runtime.Pods) == 1, (chance == 1), "chance %v: took effect", chance)
		check.Equal(t, a.n, 1, "done was called %d times", a.n)
	}
}

func TestKillAndRestart(t *testing.T) {
	w := newWorld(t)
	_, id := w.running(aPod("p", "run-for", "10s", "exit-code", "4"))
	var opened int
	stream, streamDone := giveErr(w)
	w.Events(context.Background(), func() { opened++ }, func(port.RuntimeEvent) {}, streamDone)
	w.clock.Advance(time.Second)
	pending, done := give[string](w)
	w.RunPodSandbox(context.Background(), port.RunPodSandbox{Pod: aPod("q")}, done)

	w.Kill()
	check.Equal(t, pending.n, 0, "done was called inside of Kill")
	w.clock.Advance(0)
	wantKind(t, "call under way", pending.err, port.Unavailable)
	wantKind(t, "stream", stream.err, port.Unavailable)
	_, err := w.status(id)
	wantKind(t, "call", err, port.Unavailable)
	w.clock.Advance(time.Minute)

	w.Restart()
	c := check.Value(w.status(id))(t)
	if c.State != observed.ContainerExited || c.ExitCode != 4 || c.FinishedAt.Sub(c.StartedAt) != 10*time.Second {
		t.Errorf("the container is %+v, want it to have run on and ended", c)
	}
	check.Value(w.run(aPod("q"), 0))(t) // its name was given back
	if opened != 1 || w.Truth().InFlight != 0 {
		t.Errorf("opened %d times, %d calls are left", opened, w.Truth().InFlight)
	}
}

// TestKillDuringGrace: nobody is left to send SIGKILL.
func TestKillDuringGrace(t *testing.T) {
	w := newWorld(t)
	_, id := w.running(aPod("p", "ignore-term", "true"))
	a, done := giveErr(w)
	w.StopContainer(context.Background(), id, 10*time.Second, done)
	w.clock.Advance(5 * time.Second)
	w.Kill()
	w.clock.Advance(time.Minute)
	wantKind(t, "stop", a.err, port.Unavailable)
	w.Restart()
	check.Equal(t, check.Value(w.status(id))(t).State, observed.ContainerRunning, "container")
}

func TestEventPolicy(t *testing.T) {
	count := func(p EventPolicy) int {
		w := newWorld(t, func(c *Config) { c.Events = p })
		n := 0
		_, done := giveErr(w)
		w.Events(context.Background(), func() {}, func(port.RuntimeEvent) { n++ }, done)
		w.clock.Advance(time.Second)
		w.running(aPod("p", "run-for", "1s"))
		w.clock.Advance(time.Minute)
		return n
	}
	const all = 5 // sandbox created and started, container created, started and stopped
	for _, c := range []struct {
		policy EventPolicy
		want   int
	}{
		{EventPolicy{}, all}, {EventPolicy{Drop: 1}, 0}, {EventPolicy{Duplicate: 1}, 2 * all},
		{EventPolicy{Delay: Constant(time.Second)}, all},
	} {
		if got := count(c.policy); got != c.want {
			t.Errorf("%+v: %d events, want %d", c.policy, got, c.want)
		}
	}
	w := newWorld(t, func(c *Config) { c.Events.Off = true })
	a, done := giveErr(w)
	w.Events(context.Background(), func() { t.Error("opened") }, nil, done)
	w.clock.Advance(time.Second)
	wantKind(t, "events", a.err, port.Unsupported)
}
