package probe

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

// container has the given probes, and begins at once after its start.
func container(probes map[Kind]v1.Probe, b Beginning) *Container {
	c := &Container{}
	for k, p := range probes {
		c.Probes[k] = &Probe{Rules: RulesOf(k, &p)}
	}
	if b.Now.IsZero() {
		b.Now = epoch
	}
	if b.StartedAt.IsZero() {
		b.StartedAt = b.Now
	}
	c.Begin(b)
	return c
}

// dues are when the probes are due, in seconds since the epoch; -1 for never.
func (c *Container) dues() (out [Kinds]float64) {
	for k, p := range c.Probes {
		out[k] = -1
		if p != nil && p.Due() != 0 {
			out[k] = time.Duration(p.Due() - epoch.UnixNano()).Seconds()
		}
	}
	return out
}

func TestRulesOf(t *testing.T) {
	r := RulesOf(Readiness, &v1.Probe{})
	if r.Period != 10*time.Second || r.Timeout != time.Second || r.SuccessRun != 1 || r.FailureRun != 3 || r.InitialDelay != 0 {
		t.Errorf("the API's defaults are not %+v", r)
	}
	five := int64(5)
	r = RulesOf(Liveness, &v1.Probe{
		InitialDelaySeconds: 1, PeriodSeconds: 2, TimeoutSeconds: 3, SuccessThreshold: 1, FailureThreshold: 7,
		TerminationGracePeriodSeconds: &five,
	})
	if r.InitialDelay != time.Second || r.Period != 2*time.Second || r.Timeout != 3*time.Second || r.FailureRun != 7 || *r.Grace != 5 {
		t.Errorf("%+v", r)
	}
}

// TestBegin: when the first run is, and what counts until then.
func TestBegin(t *testing.T) {
	every10 := v1.Probe{PeriodSeconds: 10}
	delayed := v1.Probe{PeriodSeconds: 10, InitialDelaySeconds: 30}
	all := map[Kind]v1.Probe{Startup: every10, Liveness: every10, Readiness: every10}
	two := map[Kind]v1.Probe{Liveness: every10, Readiness: every10}
	ready := Health{Liveness: Success, Readiness: Success}
	const unknown, failure, success = Unknown, Failure, Success
	for _, c := range []struct {
		name   string
		probes map[Kind]v1.Probe
		b      Beginning
		due    [Kinds]float64
		health [Kinds]Result
	}{
		{"just started", two, Beginning{Jitter: 0.3}, [...]float64{-1, 3, 0}, [...]Result{0, success, failure}},
		{"startup gates", all, Beginning{Jitter: 0.3}, [...]float64{0, -1, -1}, [...]Result{unknown, success, failure}},
		{"initial delay", map[Kind]v1.Probe{Liveness: delayed, Readiness: delayed}, Beginning{Jitter: 0.3},
			[...]float64{-1, 33, 30}, [...]Result{0, success, failure}},
		{"it started a while ago, within its delay", map[Kind]v1.Probe{Readiness: delayed}, Beginning{StartedAt: at(-20 * time.Second)},
			[...]float64{-1, -1, 10}, [...]Result{0, 0, failure}},
		{"taken over, ready", two, Beginning{StartedAt: at(-time.Hour), Known: ready, Jitter: 0.3},
			[...]float64{-1, 3, 3}, [...]Result{0, success, success}},
		{"taken over, nobody knows", two, Beginning{StartedAt: at(-time.Hour), Jitter: 0.5},
			[...]float64{-1, 5, 0.5}, [...]Result{0, success, failure}},
		{"taken over, started", all, Beginning{StartedAt: at(-time.Hour), Known: Health{Startup: success, Readiness: success}, Jitter: 0.2},
			[...]float64{-1, 2, 2}, [...]Result{success, success, success}},
		{"taken over, starting", all, Beginning{StartedAt: at(-time.Hour), Jitter: 0.2},
			[...]float64{0.2, -1, -1}, [...]Result{unknown, success, failure}},
		{"taken over, about to be killed", two, Beginning{StartedAt: at(-time.Hour), Known: Health{Liveness: failure}, Jitter: 0.2},
			[...]float64{-1, -1, 0.2}, [...]Result{0, failure, failure}},
		{"taken over, its startup failed", all, Beginning{StartedAt: at(-time.Hour), Known: Health{Startup: failure}},
			[...]float64{-1, -1, -1}, [...]Result{failure, success, failure}},
		{"the clock was set back", two, Beginning{StartedAt: at(time.Hour)}, [...]float64{-1, 0, 0}, [...]Result{0, success, failure}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := container(c.probes, c.b)
			check.Equal(t, got.dues(), c.due, "due at")
			h := got.Health()
			check.Equal(t, [...]Result{h.Startup, h.Liveness, h.Readiness}, c.health, "health")
		})
	}
}

// TestAnswers: rows of answers, one each second, and what they make of a probe
// that runs every second. p, f, e: passed, failed, errored.
func TestAnswers(t *testing.T) {
	const success, failure = Success, Failure
	for _, c := range []struct {
		name     string
		kind     Kind
		probe    v1.Probe
		known    Health
		answers  string
		results  string // s, f or u after each
		ends     bool
		counting string // y or n for each
	}{
		{"not ready at first", Readiness, v1.Probe{}, Health{}, "fffpp", "fffss", false, "nyyyy"},
		{"not ready any more", Readiness, v1.Probe{FailureThreshold: 3}, Health{}, "pffpfff", "ssssssf", false, "yyyyyyy"},
		{"ready again", Readiness, v1.Probe{FailureThreshold: 1, SuccessThreshold: 2}, Health{}, "ppfppfpfpp", "fsffsffffs", false, "yyyyyyyyyy"},
		{"errors say nothing", Readiness, v1.Probe{FailureThreshold: 2}, Health{}, "pfefeeff", "sssfffff", false, "yyyyyyyy"},
		{"it lives", Liveness, v1.Probe{FailureThreshold: 2}, Health{}, "pfpfpf", "ssssss", false, "yyyyyy"},
		{"it does not live", Liveness, v1.Probe{FailureThreshold: 2}, Health{}, "ffp", "sff", true, "yyn"},
		{"it lives after a restart of the agent", Liveness, v1.Probe{FailureThreshold: 2}, Health{Liveness: success}, "fpf", "sss", false, "yyy"},
		{"started", Startup, v1.Probe{}, Health{}, "ffpf", "uuss", true, "nyyn"},
		{"not started", Startup, v1.Probe{FailureThreshold: 2}, Health{}, "fffp", "uuff", true, "nyyn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.probe.PeriodSeconds = 1
			known := c.known
			x := container(map[Kind]v1.Probe{c.kind: c.probe}, Beginning{Known: known})
			p := x.Probes[c.kind]
			for i, a := range c.answers {
				now := at(time.Duration(i) * time.Second)
				p.Begun(now, Grid{})
				v := map[rune]Verdict{'p': Passed, 'f': Failed, 'e': Errored}[a]
				was := p.Result
				counted, changed := x.Answered(c.kind, v, now)
				want := map[byte]Result{'s': success, 'f': failure, 'u': Unknown}[c.results[i]]
				check.Fatal(t, check.Is(p.Result, want, "answer %d: result", i))
				check.Equal(t, changed, (was != p.Result), "answer %d: changed", i)
				check.Equal(t, counted, (c.counting[i] == 'y'), "answer %d: counted", i)
			}
			check.Equal(t, p.Due() == 0, c.ends, "it is over")
		})
	}
}

// TestHurry: one that has yet to pass is asked again soon, then ever later, and
// from the second in turn on only in turn.
func TestHurry(t *testing.T) {
	for name, c := range map[string]struct {
		probe v1.Probe
		want  []float64
	}{
		"network": {v1.Probe{}, []float64{0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 10, 20, 30}},
		"command": {v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{}}}, []float64{0, 1, 3, 7, 10, 20}},
		"seldom":  {v1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 1}, []float64{5, 5.1, 5.3, 5.7, 6, 7, 8}},
	} {
		x := container(map[Kind]v1.Probe{Readiness: c.probe}, Beginning{})
		p := x.Probes[Readiness]
		for i, want := range c.want {
			if got := x.dues()[Readiness]; got != want {
				t.Errorf("%s: run %d is due at %v, want %v", name, i, got, want)
				break
			}
			now := time.Unix(0, p.Due())
			p.Begun(now, Grid{})
			x.Answered(Readiness, Failed, now)
		}
	}
}

func TestStartupOpens(t *testing.T) {
	p := v1.Probe{PeriodSeconds: 10}
	x := container(map[Kind]v1.Probe{Startup: p, Liveness: p, Readiness: p}, Beginning{Jitter: 0.5})
	now := at(100 * time.Second)
	x.Probes[Startup].Begun(now, Grid{})
	if _, changed := x.Answered(Startup, Passed, now); !changed {
		t.Fatal("nothing changed")
	}
	if got, want := x.dues(), [...]float64{-1, 105, 100}; got != want {
		t.Errorf("due at %v, want %v: readiness at once, liveness within a period", got, want)
	}
	if h := x.Health(); h.Startup != Success {
		t.Errorf("%+v", h)
	}
}

func TestStopping(t *testing.T) {
	p := v1.Probe{PeriodSeconds: 10, FailureThreshold: 1}
	x := container(map[Kind]v1.Probe{Liveness: p, Readiness: p}, Beginning{})
	x.Stopping()
	check.Equal(t, x.dues(), [...]float64{-1, -1, 0}, "due at")
	x.Answered(Liveness, Failed, epoch) // it was under way
	if h := x.Health(); h.Liveness != Success {
		t.Errorf("a container that is being stopped: %+v", h)
	}
	// One that has not started is not asked whether it is ready.
	x = container(map[Kind]v1.Probe{Startup: p, Liveness: p, Readiness: p}, Beginning{})
	x.Stopping()
	x.Answered(Startup, Passed, epoch)
	check.Equal(t, x.dues(), [...]float64{-1, -1, -1}, "due at")
}

func TestGrace(t *testing.T) {
	three, four := int64(3), int64(4)
	s := v1.Probe{FailureThreshold: 1, PeriodSeconds: 1, TerminationGracePeriodSeconds: &three}
	l := v1.Probe{FailureThreshold: 1, PeriodSeconds: 1, TerminationGracePeriodSeconds: &four}
	x := container(map[Kind]v1.Probe{Liveness: l}, Beginning{})
	if x.Health().Grace != nil {
		t.Error("a container that lives has a grace")
	}
	x.Probes[Liveness].Begun(epoch, Grid{})
	x.Answered(Liveness, Failed, epoch)
	if g := x.Health().Grace; g == nil || *g != 4 {
		t.Errorf("grace %v, want that of the liveness probe", g)
	}
	x = container(map[Kind]v1.Probe{Startup: s, Liveness: l}, Beginning{})
	x.Probes[Startup].Begun(at(time.Second), Grid{})
	x.Answered(Startup, Failed, at(time.Second))
	if g := x.Health().Grace; g == nil || *g != 3 {
		t.Errorf("grace %v, want that of the startup probe", g)
	}
}

// TestSchedule: whatever the answers and however late the machine is, a probe
// comes again, in turn never sooner than a period after it was due before, by the
// grid at the most a tick later, and out of turn only a few times.
func TestSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := Kind(rapid.IntRange(0, 2).Draw(t, "kind"))
		period := time.Duration(rapid.IntRange(1, 40).Draw(t, "period")) * time.Second
		p := v1.Probe{
			PeriodSeconds: int32(period / time.Second), InitialDelaySeconds: rapid.Int32Range(0, 20).Draw(t, "delay"),
			FailureThreshold: 1 << 30,
		}
		grid := Grid{Tick: time.Second, Phase: time.Duration(rapid.Int64Range(0, int64(time.Second)-1).Draw(t, "phase"))}
		x := container(map[Kind]v1.Probe{kind: p}, Beginning{
			StartedAt: at(-time.Duration(rapid.Int64Range(-5, 60).Draw(t, "ago")) * time.Second),
			Jitter:    rapid.Float64Range(0, 0.999).Draw(t, "jitter"),
		})
		r := x.Probes[kind]
		turn, extra := r.due, 0
		for i := range 20 {
			due := r.Due()
			if due == 0 {
				if i == 0 || kind != Startup {
					t.Fatalf("run %d never comes", i)
				}
				return
			}
			late := time.Duration(0)
			if rapid.IntRange(0, 3).Draw(t, "late?") == 0 {
				late = time.Duration(rapid.Int64Range(0, int64(3*period)).Draw(t, "late"))
			}
			now := time.Unix(0, due).Add(late)
			wasTurn := r.due <= now.UnixNano()
			if rapid.IntRange(0, 5).Draw(t, "skip") == 0 {
				r.Skipped(now, grid)
			} else {
				r.Begun(now, grid)
				x.Answered(kind, []Verdict{Passed, Warned, Failed, Errored}[rapid.IntRange(0, 3).Draw(t, "verdict")], now)
			}
			if r.Due() != 0 && r.Due() <= now.UnixNano() {
				t.Fatalf("run %d, at %v, is followed by one at %v", i, now, time.Unix(0, r.Due()))
			}
			if !wasTurn {
				extra++
			} else if r.due != 0 {
				if gap := time.Duration(r.due - turn); gap < period || i > 0 && late == 0 && gap >= period+grid.Tick {
					t.Fatalf("runs in turn are %v apart, the period is %v", gap, period)
				}
				if off := (r.due - int64(grid.Phase)) % int64(grid.Tick); off != 0 {
					t.Fatalf("a run in turn is %v off the grid", time.Duration(off))
				}
				turn = r.due
			}
		}
		if extra > 10 {
			t.Fatalf("%d runs out of turn", extra)
		}
	})
}

// TestThresholds: a result changes only after as many answers in a row as its
// threshold says, and by the last of them.
func TestThresholds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := v1.Probe{
			PeriodSeconds: 1, SuccessThreshold: rapid.Int32Range(1, 4).Draw(t, "successes"), FailureThreshold: rapid.Int32Range(1, 4).Draw(t, "failures"),
		}
		x := container(map[Kind]v1.Probe{Readiness: p}, Beginning{})
		r := x.Probes[Readiness]
		row, last := int32(0), Verdict(0)
		for i := range 60 {
			v := []Verdict{Passed, Failed, Errored}[rapid.IntRange(0, 2).Draw(t, "verdict")]
			now := at(time.Duration(i+5) * time.Second) // past its patience
			r.Begun(now, Grid{})
			was := r.Result
			_, changed := x.Answered(Readiness, v, now)
			if v == Errored {
				if changed {
					t.Fatal("an error changed the result")
				}
				continue
			}
			if v != last {
				row, last = 0, v
			}
			row++
			want, limit := Success, p.SuccessThreshold
			if v == Failed {
				want, limit = Failure, p.FailureThreshold
			}
			if changes := row >= limit && was != want; changes != changed || changes && r.Result != want {
				t.Fatalf("%d × %v in a row, threshold %d: the result went from %v to %v", row, v, limit, was, r.Result)
			}
		}
	})
}
