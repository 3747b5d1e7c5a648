package invariants

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// step is something that happens to a pod that runs.
type step = func(r *rig)

func pass(d time.Duration) step { return func(r *rig) { r.now = r.now.Add(d) } }

func crash(n uint32) step {
	return func(r *rig) { r.end("app", n, ended, 1, simcri.ByItself) }
}

func again(n uint32) step { return func(r *rig) { r.container("app", n, made, started) } }

func stopIn(grace time.Duration) step {
	return func(r *rig) { r.Called(r.stop("app", grace), simcri.Fault{}) }
}

func ask(r *rig) { r.ask() }

func clock(r *rig) { r.ClockSet() }

func begins(r *rig) { r.Began() }

func deleted(grace int64) step {
	return func(r *rig) {
		p := r.spec()
		at := r.now
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: at}, &grace
		r.tell(p)
	}
}

func sleeps(r *rig) {
	p := r.spec()
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}}}
	r.tell(p)
}

func shows(started bool) step {
	return func(r *rig) {
		p := r.hooked()
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", ContainerID: "sim://u1app0", Started: &started}}
		r.Shown(p, false)
	}
}

func runs(command string) step {
	return func(r *rig) {
		r.Called(simcri.Call{Method: simcri.ExecSync, Object: "u1app0", Pod: r.ref, Container: "app", Command: command}, simcri.Fault{})
	}
}

// TestTimes: what the rules about times, and about hooks, hold against a pod that runs.
func TestTimes(t *testing.T) {
	lost := func(r *rig) { r.Troubled(r.ref.UID, time.Minute) }
	always := func(r *rig) {
		p := r.spec()
		p.Spec.RestartPolicy = v1.RestartPolicyAlways
		r.tell(p)
	}
	killed := func(n uint32) step {
		return func(r *rig) {
			c := r.stop("app", 30*time.Second)
			c.Object = fmt.Sprint(r.ref.UID, "app", n)
			r.Called(c, simcri.Fault{})
		}
	}
	another := func(r *rig) {
		p := r.spec()
		p.Spec.RestartPolicy, p.Spec.Containers[0].Image = v1.RestartPolicyAlways, "another"
		r.tell(p)
	}
	ends := func(r *rig) { r.sandbox("s0", 0, ended) }
	probed := func(r *rig) { r.tell(r.probed()) }
	hooked := func(r *rig) { r.tell(r.hooked()) }
	renewed := func(r *rig) { r.Renewed(r.now) }
	asks := func(r *rig) { r.Asked(simapi.Call{}, simapi.Fault{}) }
	settled := func(r *rig) { r.Settled() }
	gone := func(r *rig) { r.tell() }
	reports := func(r *rig) { r.tell(); r.reported(podspec.API) }
	next := func(r *rig) {
		p := r.spec()
		p.UID = "u2"
		r.tell(p)
	}
	down := func(r *rig) { crash(0)(r); r.container("proxy", 0, ended) }
	stops := func(r *rig) { r.call(simcri.StopPodSandbox, "s0") }
	refused := func(r *rig) {
		p := r.spec()
		p.Status.Phase, p.Status.Reason = v1.PodFailed, "NodeAffinity"
		r.Shown(p, false)
	}
	sidecar := func(r *rig) { r.Called(r.stop("proxy", time.Second), simcri.Fault{}) }
	for name, c := range map[string]struct {
		steps []step
		want  string // the rule; empty for none
	}{
		"deleted by force, with a sidecar": {
			[]step{deleted(0), stopIn(2 * time.Second), pass(time.Second / 2), sidecar}, "",
		},
		"gone, with a sidecar":         {[]step{gone, stopIn(30 * time.Second), pass(time.Second), sidecar}, "I26"},
		"its whole grace period":       {[]step{stopIn(30 * time.Second)}, ""},
		"less than its grace period":   {[]step{stopIn(20 * time.Second)}, "I26"},
		"deleted with a shorter one":   {[]step{deleted(5), stopIn(5 * time.Second)}, ""},
		"and killed sooner":            {[]step{deleted(5), pass(time.Second), stopIn(3 * time.Second)}, "I26"},
		"the rest of its grace period": {[]step{deleted(5), pass(time.Second), stopIn(4 * time.Second)}, ""},
		"deleted, and then with a shorter one": {[]step{
			deleted(30), stopIn(30 * time.Second), pass(10 * time.Second), deleted(20), stopIn(10 * time.Second),
		}, ""},
		"deleted by force":              {[]step{deleted(0), stopIn(2 * time.Second)}, ""},
		"and killed at once":            {[]step{deleted(0), stopIn(0)}, "I26"},
		"by force while it is deleted":  {[]step{deleted(30), stopIn(30 * time.Second), deleted(0), stopIn(2 * time.Second)}, ""},
		"gone":                          {[]step{gone, stopIn(30 * time.Second)}, ""},
		"gone and killed soon":          {[]step{gone, stopIn(2 * time.Second)}, "I26"},
		"gone, and another of its name": {[]step{gone, next, stopIn(2 * time.Second)}, ""},
		"gone with another of its name": {[]step{next, stopIn(2 * time.Second)}, ""},
		"gone long ago":                 {[]step{begins, reports, pass(40 * time.Second), crash(0)}, "I42"},
		"gone long ago, and it runs":    {[]step{reports, pass(40 * time.Second), settled}, "I42"},
		"gone, and it ends in time":     {[]step{reports, pass(32 * time.Second), crash(0), settled}, ""},
		"gone, and wanted again":        {[]step{reports, func(r *rig) { r.tell(r.spec()); r.reported(podspec.API) }, pass(time.Minute), settled}, ""},
		"gone from another source":      {[]step{func(r *rig) { r.reported(podspec.File) }, pass(time.Minute), settled}, ""},
		"refused by the next agent":     {[]step{begins, down, refused}, "I41"},
		"refused by the first":          {[]step{down, refused}, ""},
		"refused without a sandbox":     {[]step{down, ends, begins, refused}, ""},
		"its sandbox ends, and refused": {[]step{begins, down, ends, refused}, ""},
		"stopped, and refused":          {[]step{begins, down, stops, ends, refused}, "I41"},
		"stopped, an actor crashed, and refused": {[]step{
			begins, down, stops, ends, func(r *rig) { r.Crashed(0) }, refused,
		}, ""},
		"killed with its sandbox too soon": {[]step{stopIn(30 * time.Second), func(r *rig) { r.end("app", 0, ended, 137, simcri.WithSandbox) }}, "I26"},
		"the clock was set":                {[]step{pass(time.Second), clock, stopIn(time.Second)}, ""},
		"ended in time":                    {[]step{deleted(5), stopIn(5 * time.Second), pass(7 * time.Second), crash(0)}, ""},
		"ended late":                       {[]step{deleted(5), stopIn(5 * time.Second), pass(9 * time.Second), crash(0)}, "I27"},
		"ended late after a fault":         {[]step{deleted(5), lost, stopIn(5 * time.Second), pass(9 * time.Second), crash(0)}, ""},

		"made again too soon": {[]step{always, crash(0), again(1), crash(1), pass(9 * time.Second), again(2)}, "I21"},
		"made again in time":  {[]step{always, crash(0), again(1), crash(1), pass(11 * time.Second), again(2)}, ""},
		"made again late":     {[]step{always, crash(0), again(1), crash(1), pass(20 * time.Second), again(2)}, "I21"},
		"not made again":      {[]step{always, crash(0), pass(20 * time.Second), settled}, "I21"},
		"the third time too soon": {[]step{
			always, crash(0), again(1), crash(1), pass(11 * time.Second), again(2), crash(2), pass(19 * time.Second), again(3),
		}, "I21"},
		"another image for a time": {[]step{
			always, crash(0), again(1), another, always, crash(1), again(2), crash(2), pass(11 * time.Second), again(3),
		}, ""},
		"and then too soon": {[]step{
			always, crash(0), again(1), another, always, crash(1), again(2), crash(2), again(3), crash(3),
			pass(11 * time.Second), again(4),
		}, "I21"},
		"after a long run": {[]step{always, crash(0), again(1), pass(longRun), crash(1), again(2)}, ""},
		"stopped, and made again at once": {[]step{
			always, crash(0), again(1), pass(11 * time.Second), killed(1), crash(1), again(2),
		}, ""},
		"stopped too soon after the one before": {[]step{
			always, crash(0), again(1), pass(9 * time.Second), killed(1), crash(1), again(2),
		}, "I21"},
		"the first is stopped, and counts for nothing": {[]step{
			always, killed(0), crash(0), again(1), crash(1), again(2), crash(2), again(3),
		}, "I21"},
		"and the next is the first": {[]step{always, killed(0), crash(0), again(1), crash(1), again(2)}, ""},

		"asked in time":              {[]step{probed, pass(11 * time.Second), ask, pass(12 * time.Second), ask}, ""},
		"asked late":                 {[]step{probed, pass(11 * time.Second), ask, pass(13 * time.Second), ask}, "I22"},
		"not asked":                  {[]step{probed, pass(13 * time.Second), settled}, "I22"},
		"asked late after a fault":   {[]step{probed, lost, pass(time.Minute), ask}, ""},
		"not asked as it is stopped": {[]step{probed, stopIn(30 * time.Second), pass(time.Minute), ask}, ""},

		"renewed in time":       {[]step{asks, renewed, pass(leaseGap), renewed}, ""},
		"renewed late":          {[]step{asks, renewed, pass(leaseGap + 1), renewed}, "I16"},
		"not renewed":           {[]step{asks, pass(leaseGap + 1), settled}, "I16"},
		"renewed after an exit": {[]step{asks, renewed, pass(time.Hour), begins, renewed}, ""},
		"renewed after a cut":   {[]step{asks, renewed, func(r *rig) { r.CutOff(time.Minute) }, pass(time.Minute), renewed}, ""},

		"its command ran":           {[]step{hooked, runs("/stop"), stopIn(30 * time.Second)}, ""},
		"another command ran":       {[]step{hooked, runs("/start"), stopIn(30 * time.Second)}, "I07"},
		"shown as started, and was": {[]step{hooked, pass(time.Second), runs("/start"), shows(true)}, ""},
		"shown as started too soon": {[]step{hooked, pass(time.Second), shows(true)}, "I07"},
		"not shown as started":      {[]step{hooked, pass(time.Second), shows(false)}, ""},
		"slept, and was stopped":    {[]step{sleeps, pass(time.Second), deleted(30), sleeps, pass(5 * time.Second), stopIn(25 * time.Second)}, ""},
		"stopped before it slept":   {[]step{sleeps, pass(time.Second), deleted(30), sleeps, pass(4 * time.Second), stopIn(26 * time.Second)}, "I07"},
		"slept as its sandbox ended": {[]step{
			sleeps, pass(time.Second), ends, pass(4 * time.Second), deleted(30), sleeps, pass(time.Second), stopIn(29 * time.Second),
		}, ""},
		"its sandbox ended, and it slept too short": {[]step{
			sleeps, pass(time.Second), ends, pass(3 * time.Second), deleted(30), sleeps, pass(time.Second), stopIn(29 * time.Second),
		}, "I07"},
		"there is no time for sleep": {[]step{sleeps, pass(time.Second), deleted(1), sleeps, pass(time.Second), stopIn(2 * time.Second)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.Began()
			r.now = r.now.Add(recovery + 1)
			r.up()
			r.Timely()
			for _, s := range c.steps {
				s(r)
			}
			var got string
			if len(r.found) > 0 {
				got = r.found[0].ID
			}
			check.Equal(t, got, c.want, "found %v", r.found)
		})
	}
}

// TestFaultsExcuse: every kind of fault excuses for a while that something is late, and no longer.
func TestFaultsExcuse(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(r *rig)
		long  time.Duration
	}{
		"a call that fails":     {func(r *rig) { r.Called(r.stop("app", time.Minute), simcri.Fault{Fail: true}) }, recovery},
		"a call that is slow":   {func(r *rig) { r.Called(r.stop("app", time.Minute), simcri.Fault{Latency: 3}) }, recovery + 3},
		"a call that hangs":     {func(r *rig) { r.Called(r.stop("app", time.Minute), simcri.Fault{Hang: true}) }, recovery + givenUp},
		"a mount that hangs":    {func(r *rig) { r.Hosted(machine.Call{Pod: "u1"}, machine.Fault{Hang: true}) }, recovery + givenUp},
		"a list that is late":   {func(r *rig) { r.Hosted(machine.Call{}, machine.Fault{WorkLate: 5}) }, recovery + 5},
		"a crash":               {func(r *rig) { r.Crashed(time.Minute) }, recovery + time.Minute},
		"another agent":         {func(r *rig) { r.Began() }, recovery},
		"a message in time":     {func(r *rig) { r.Stands(0) }, 0},
		"a pause":               {func(r *rig) { r.Stands(time.Minute) }, time.Minute},
		"two sleeps at a time":  {func(r *rig) { r.Slept(time.Minute); r.Slept(time.Minute) }, 2*time.Minute + 2*recovery},
		"nothing goes wrong":    {func(r *rig) { r.Called(r.stop("app", time.Minute), simcri.Fault{}) }, 0},
		"the apiserver is away": {func(r *rig) { r.CutOff(time.Hour) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig().up()
			r.Timely()
			before := r.now
			c.fault(r)
			check.Equal(t, max(r.calm(r.pods["u1"]).Sub(before), 0), c.long, "it")
		})
	}
}

// TestUndelivered: dead letters are excused by a crash, dropped messages by nothing.
func TestUndelivered(t *testing.T) {
	for name, c := range map[string]struct {
		dead, dropped uint64
		crashed       bool
		want          int
	}{
		"none": {0, 0, false, 0}, "dead": {1, 0, false, 1}, "dead after a crash": {1, 0, true, 0},
		"dropped after a crash": {0, 1, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig().up()
			r.Timely()
			if c.crashed {
				r.Crashed(0)
			}
			if r.Undelivered(c.dead, c.dropped); len(r.found) != c.want {
				t.Errorf("found %v", r.found)
			}
		})
	}
}

// TestSometimes: rare states are told of once they were reached.
func TestSometimes(t *testing.T) {
	r := newRig().up()
	check.None(t, r.Reached(), "reached")
	deleted(0)(r)
	r.Called(r.stop("app", time.Second), simcri.Fault{})
	r.Began()
	r.Crashed(0)
	r.Crashed(0)
	r.Hosted(machine.Call{Verb: "UnmountPod", Pod: "u1"}, machine.Fault{Hang: true})
	r.end("app", 0, ended, 0, simcri.ByItself)
	r.end("proxy", 0, ended, 0, simcri.ByItself)
	r.Done(machine.Call{Verb: "UnmountPod", Pod: "u1"})
	want := []string{
		"a container ends by itself while it is stopped", "a container is stopped by force",
		"an unmount that failed is tried again", "an agent begins while a container is stopped",
		"an agent begins while a container runs that nobody wants", "two actors crash within a second",
	}
	got := r.Reached()
	check.Same(t, got, want, "reached")
	for _, name := range got {
		if !slices.Contains(Sometimes(), name) {
			t.Errorf("%q is not in the list", name)
		}
	}
}
