package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestExcess: a case may cost more calls than its twin by what its faults and its length excuse.
func TestExcess(t *testing.T) {
	twin := &Result{Writes: 20, Changes: 30, Simulated: time.Minute}
	restored := parse(t, "create a main=app; backup; restore")
	for name, c := range map[string]struct {
		r    Result
		good bool
	}{
		"restored":         {Result{Case: restored, Writes: 1000, Changes: 30}, true},
		"as many":          {Result{Writes: 20, Changes: 30, Simulated: time.Minute}, true},
		"a few more":       {Result{Writes: 30, Changes: 40, Simulated: time.Minute}, true},
		"too many writes":  {Result{Writes: 31, Changes: 30, Simulated: time.Minute}, false},
		"too many changes": {Result{Writes: 20, Changes: 41, Simulated: time.Minute}, false},
		"with a fault":     {Result{Writes: 40, Changes: 50, Simulated: time.Minute, Reached: make([]plan.Fault, 1)}, true},
		"longer":           {Result{Writes: 40, Changes: 50, Simulated: 2 * time.Minute}, true},
		"shorter":          {Result{Writes: 31, Changes: 50, Simulated: 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.r.Case == nil {
				c.r.Case = parse(t, "create a main=app")
			}
			if why := Excess(&c.r, twin); (why == "") != c.good {
				t.Errorf("%q", why)
			}
		})
	}
}

// TestRepeated: a run that was another the first time is found.
func TestRepeated(t *testing.T) {
	c := parse(t, "create a main=app")
	if r := repeated(c, Run(c)); r.Verdict() != Held {
		t.Error(r.Violations)
	}
	r := Run(c)
	r.Hash++
	if r = repeated(c, r); r.Verdict() != Violated || r.Violations[0].ID != sameAgain {
		t.Error(r.Violations)
	}
}

// TestRest: an agent that does something at rest violates I23, and one at work does not.
func TestRest(t *testing.T) {
	r := newRunner(parse(t, "create a main=app"))
	if r.disturbed("", "it calls"); len(r.out.Violations) > 0 {
		t.Error(r.out.Violations)
	}
	r.resting = true
	if r.disturbed("", "it calls"); len(r.out.Violations) != 1 || r.out.Violations[0].ID != atRest {
		t.Error(r.out.Violations)
	}
}

// TestBusyForNothing: an agent that does something while all is well violates L02, unless it is about a pod with
// which there is always something to do, or a fault has struck.
func TestBusyForNothing(t *testing.T) {
	for name, of := range map[string]struct {
		calm bool
		pod  string
		want bool
	}{
		"about a pod":             {true, "a", true},
		"about a pod that is not": {true, "gone", true},
		"about a crash loop":      {true, "loop", false},
		"before":                  {false, "a", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(parse(t, "create a main=app; create loop main=app app.crash-loop=2"))
			r.live()
			r.settling = of.calm
			r.disturbed(of.pod, "it calls")
			r.disturbed(of.pod, "it calls again")
			if got := strings.HasSuffix(r.stirred, "it calls"); got != of.want || len(r.out.Violations) > 0 {
				t.Errorf("%q %v", r.stirred, r.out.Violations)
			}
		})
	}
	calls := func(text string) string {
		r := newRunner(parse(t, text))
		r.live()
		r.v.AfterFunc(settle-time.Second, func() { r.disturbed("a", "it calls") })
		return r.watch()
	}
	if calls("create a main=app") == "" {
		t.Error("what is done at the end of the quiet was not noticed")
	}
}

// TestBeside: what a fault of another pod must not do to a pod.
func TestBeside(t *testing.T) {
	c := parse(t, "create a main=app; create b main=app; fault call StartContainer a/app #1 = fail")
	twin := &Result{Ready: map[string]time.Duration{"a": time.Second, "b": time.Second}, Restarts: map[string]int{"a": 0, "b": 1}}
	for name, of := range map[string]struct {
		ready    time.Duration
		restarts int
		of       string
		good     bool
	}{
		"as in the twin":     {time.Second, 1, "b", true},
		"a little later":     {3 * time.Second, 1, "b", true},
		"much later":         {4 * time.Second, 1, "b", false},
		"a restart more":     {time.Second, 2, "b", false},
		"the pod of a fault": {time.Minute, 5, "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Result{
				Case: c, Ready: map[string]time.Duration{of.of: of.ready}, Restarts: map[string]int{of.of: of.restarts},
			}
			if why := Beside(r, twin); (why == "") != of.good {
				t.Errorf("%q", why)
			}
		})
	}
}

// TestReadyThatStays: a pod counts as Ready from when it is shown as Ready and stays so.
func TestReadyThatStays(t *testing.T) {
	begin := time.Unix(1000, 0)
	for name, of := range map[string]struct {
		at   []time.Duration // when it is Ready and is not, in turns
		want time.Duration
	}{
		"for a moment":           {[]time.Duration{time.Second, 1005 * time.Millisecond}, 0},
		"for good":               {[]time.Duration{2 * time.Second, time.Minute}, 2 * time.Second},
		"for a moment, and then": {[]time.Duration{time.Second, 1005 * time.Millisecond, 3 * time.Second, time.Minute}, 3 * time.Second},
		"twice":                  {[]time.Duration{time.Second, 5 * time.Second, 6 * time.Second, time.Minute}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := &podState{at: begin}
			for i, d := range of.at {
				c.readySince(i%2 == 0, begin.Add(d))
			}
			check.Equal(t, c.first, of.want, "Ready after")
		})
	}
}

// TestFewCalls: what was found with I19 stays mended.
func TestFewCalls(t *testing.T) {
	for name, text := range map[string]string{
		// A container was asked to stop each second while its inspection had no answer: 116 times.
		"stops during an inspection": "create a main=app; at 5s: delete a; fault call ContainerStatus a/app #3 = lose",
		// Twelve sweeps had waited for the host, and each removed what the first had removed: 40 calls.
		"sweeps that waited": "seed 33753; write c main=app live=app app.unhealthy-after=20s; fault host PodDirs - #1 = hang",
	} {
		t.Run(name, func(t *testing.T) {
			c := parse(t, text)
			quiet := *c
			quiet.Faults = nil
			if r := compared(Run(c), Run(&quiet)); r.Verdict() != Held {
				t.Errorf("%s: %v %v", r.Verdict(), r.Violations, r.Unreached)
			}
		})
	}
}
