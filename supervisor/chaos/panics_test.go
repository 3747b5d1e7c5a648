package chaos

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// otherwise is where a method of a port is shown to fail alone if its code panics, and no case of chaos has it. With
// "real" the real one is struck: TestPanicsOfPorts of supervisor/node.
var otherwise = map[string]string{
	"Runtime.Events":           "a stream that ends with an error: cases with no-events and kill-runtime",
	"Host.GrowVolume":          "no pod of a case has a local volume; real",
	"Network.HTTPGet":          "no pod of a case has a hook over HTTP; real",
	"Network.ProbeTCP":         "as ProbeHTTP",
	"Network.ProbeGRPC":        "as ProbeHTTP",
	"Files.MakeFiles":          "containers of simulated pods have no files; real",
	"Files.WriteHosts":         "as MakeFiles",
	"Files.ReadEnvFiles":       "no pod of a case has env files; real",
	"Manifests.Watch":          "no case loses the directory; rescue.Do",
	"Manifests.Fetch":          "no case has a manifest URL; rescue.Ask",
	"Checkpoints.SetAside":     "no case damages a file; rescue.Answer",
	"States.SetAside":          "as Checkpoints",
	"DeviceStates.SetAside":    "as Checkpoints",
	"DevicePlugins.Prefer":     "no plugin of a case has a preference; as Allocate",
	"DevicePlugins.PreStart":   "no plugin of a case asks for it; as Allocate",
	"DRADrivers":               "not simulated; real",
	"ResourceSlices":           "not simulated; real",
	"PullRecords.RemovePulled": "no image of a case goes; as SavePulled",
	"PullRecords.SetAside":     "no case damages a record; as SavePulled",
	"CredentialPlugins":        "no node of a case has plugins; real",
	"Events":                   "it runs in the actor",
	"Logs":                     "not simulated; real",
	"LogReopener":              "not simulated; real",
	"LogLinks":                 "not simulated; real",
	"OOM":                      "no actor of it in a case; real",
	"Pressure.Use":             "asked for when a node is short; rescue.Ask in host/pressure",
	"PodNetwork":               "not simulated; real",
	"Inhibitor":                "not simulated; real",
	"Cgroups.Get":              "no pod of a case is resized; hostcall",
	"Host.MountSubPaths":       "no pod of a case has a subPath; real",
	"API.CreateToken":          "no pod of a case has a token of a service account; as Create",
	"Runtime.UpdateSandbox":    "no pod of a case is resized; real",
	"Runtime.ContainerMemory":  "no pod of a case is resized; real",
	"Runtime.RemoveImage":      "no image of a case goes; real",
	"Files.TerminationMessage": "no container of a case ends with one; real",
	"DeviceStates.Load":        "as Checkpoints",
	"DeviceStates.Save":        "as Checkpoints",
	"States.Load":              "as Checkpoints",
	"States.Save":              "as Checkpoints",
}

// subjects are what cases call methods whose subject has another name.
var subjects = map[string]string{
	"Manifests.Read": "ReadManifests", "Manifests.Fetch": "FetchManifest", "Checkpoints.Load": "LoadCheckpoint",
	"Checkpoints.Save": "SaveCheckpoint", "Checkpoints.SetAside": "SetAsideCheckpoint", "States.Load": "LoadState",
	"States.Save": "SaveState", "DeviceStates.Load": "LoadState", "DeviceStates.Save": "SaveState",
	"DevicePlugins.Registrations": "WatchDevicePlugins", "DevicePlugins.Devices": "ListDevices",
	"DevicePlugins.Allocate": "AllocateDevices", "PullRecords.Load": "LoadPullRecords",
	"PullRecords.SaveIntent": "SavePullIntent", "PullRecords.SavePulled": "SavePullRecord",
	"PullRecords.RemovePulled": "RemovePullRecord", "CSI.Drivers": "WatchCSIDrivers", "CSI.NodeInfo": "NodeGetInfo",
	"CSI.StageVolume": "NodeStageVolume", "CSI.PublishVolume": "NodePublishVolume",
	"CSI.UnpublishVolume": "NodeUnpublishVolume", "CSI.UnstageVolume": "NodeUnstageVolume",
	"CSI.ExpandVolume": "NodeExpandVolume", "CSI.VolumeStats": "NodeGetVolumeStats", "Cgroups.Set": "SetCgroup",
	"Cgroups.Get": "GetCgroup", "Cgroups.RemovePod": "RemovePodCgroup", "Cgroups.Pods": "PodCgroups",
	"Facts.Machine": "ReadFacts", "Pressure.Left": "MeasureNode", "Pressure.Use": "MeasurePods",
}

// methods are all methods of all ports, as Port.Method.
func methods() (all []string) {
	ports := reflect.TypeFor[node.Ports]()
	for i := range ports.NumField() {
		if f := ports.Field(i); f.Type.Kind() == reflect.Interface {
			for m := range f.Type.NumMethod() {
				all = append(all, f.Name+"."+f.Type.Method(m).Name)
			}
		}
	}
	return all
}

// beside are cases of what no life has: a node that protects itself, and a second pod that nothing may happen to.
var beside = []string{
	"pressure disks=1; create a main=app; create b main=app ready=app; on a Ready: use a/app memory=1Gi; at 40s: delete a",
	"create a init=setup main=app live=app volume=data; create b main=app ready=app; on a Ready: kill-agent; " +
		"on a Ready +20s: exit a/app code=1; at 90s: delete a",
}

// pair is a case with a panic, and the same without.
type pair struct {
	c    *plan.Case
	twin *Result
}

// panicking are cases with a panic in each call of each port once, before it and as its answer is read.
func panicking(t *testing.T) (cases []pair, struck map[string]bool) {
	t.Helper()
	struck = map[string]bool{}
	lives := Lives()
	for _, text := range beside {
		lives = append(lives, Life{Case: parse(t, text)})
	}
	slices.Reverse(lives) // those with two pods come first
	for i, l := range lives {
		twin, last := Run(l.Case, WithPoints()), map[string]Point{}
		add := func(p Point, e plan.EffectKind) { cases = append(cases, pair{withFault(l.Case, p.fault(e)), twin}) }
		for _, p := range twin.Points {
			if f := p.fault(plan.Panic); !f.Panics() || !p.Stream.Can(p.Subject, plan.Panic) {
				continue
			}
			if last[p.Subject] = p; !struck[p.Subject] {
				struck[p.Subject] = true
				add(p, plan.Panic)
				add(p, plan.PanicAfter)
			}
		}
		if i > 0 {
			continue
		}
		for _, s := range sorted(last) { // those of the agent that has started again
			add(last[s], plan.PanicAfter)
		}
	}
	return cases, struck
}

// TestPanics: a panic in a port touches only the pod that the port was called for. Each call of each port panics once.
// A new method of a port is to be struck too.
func TestPanics(t *testing.T) {
	cases, struck := panicking(t)
	for _, m := range methods() {
		of, name, _ := strings.Cut(m, ".")
		if subjects[m] != "" {
			name = subjects[m]
		}
		has := struck[name]
		if of == "API" {
			for s := range struck { // order-free: any
				has = has || strings.HasPrefix(s, name+"-")
			}
		}
		if why := otherwise[m] + otherwise[of]; has == (why != "") {
			t.Errorf("%s: a case strikes it: %t; shown otherwise: %q", m, has, why)
		}
	}
	stride := 1
	if actortest.Raced || testing.Short() {
		stride = 7
	}
	some := func(yield func(pair) bool) {
		for i := 0; i < len(cases) && yield(cases[i]); i += stride {
		}
	}
	var tally Summary
	each(t.Context(), some, 0, func(p pair) *Result { return compared(Run(p.c), p.twin) }, func(r *Result) bool {
		if len(r.Reached) == 0 {
			t.Errorf("it was never struck: %s", r.Case.Line())
		}
		tally.Add(r)
		return true
	})
	fail(t, &tally)
}

// TestSeedsOfPanics runs seeds of which half of the faults are panics in ports. TROUPE_PANICS=N runs so many.
func TestSeedsOfPanics(t *testing.T) {
	seeds(t, "TROUPE_PANICS", 50, plan.Profile{Panics: true})
}

// TestQuarantine: a pod for which ports panic again and again is quarantined, by its own calls and by those of others for
// it. The other is Ready as without that.
func TestQuarantine(t *testing.T) {
	for _, call := range []string{"call CreateContainer a/app", "host MountVolume a", "host SetCgroup a"} {
		text := "create a main=app volume=data; create b main=app volume=data"
		for n := range 7 {
			text += fmt.Sprintf("; fault %s #%d = panic", call, n+1)
		}
		r := Twinned(parse(t, text))
		if r.Verdict() != Held || r.Crashes != 7 || r.Ready["a"] < kernel.ForPods.Retry || r.Ready["b"] == 0 {
			t.Errorf("%s: %v %v, %d crashes, Ready after %v", call, r.Violations, r.Unreached, r.Crashes, r.Ready)
		}
	}
}

// TestInconsistent: an invariant of an actor that does not hold violates I49, and ends the case.
func TestInconsistent(t *testing.T) {
	r := newRunner(parse(t, "create a main=app"))
	r.inconsistent(&kernel.Violation{Path: "n1/gc", Message: "gc.Collect", Invariant: errors.New("gc: orphans: telling")})
	check.Fatal(t, check.That(r.broken(), "the case goes on"))
	check.Equal(t, r.out.Violations[0].String(), "I49: n1/gc, after gc.Collect: gc: orphans: telling", "it is told as")
}

// TestTouches: an actor that crashes of a panic in a port that was not called for it violates I47.
func TestTouches(t *testing.T) {
	r := newRunner(parse(t, "create a main=app; create b main=app"))
	for _, c := range []struct {
		name    string
		of      plan.Role
		path    string
		violate bool
	}{
		{"its own", plan.Role{Pod: "a"}, "n1/pods/uid-a", false},
		{"another's", plan.Role{Pod: "b"}, "n1/pods/uid-a", true},
		{"of all", plan.Role{Pod: "a"}, "n1/volumes", true},
	} {
		r.out.Violations = nil
		clear(r.panicked)
		r.names["uid-a"] = "a"
		r.struck("n1", &plan.Fault{Stream: plan.Host, Role: c.of, Effect: plan.Effect{Do: plan.Panic}})
		r.touches(crash(c.path))
		if (len(r.out.Violations) > 0) != c.violate {
			t.Errorf("%s: %v", c.name, r.out.Violations)
		}
	}
}

// TestAllocate: calls that take as much memory as a pod may change nothing, and leave nothing.
func TestAllocate(t *testing.T) {
	c := parse(t, "create a init=setup main=app; create b main=app; on a Ready +1s: delete a; "+
		"fault call RunPodSandbox a #1 = allocate; fault call CreateContainer a/app #1 = allocate; "+
		"fault call StartContainer b/app #1 = allocate")
	twin := *c
	twin.Faults = nil
	other := Run(&twin, WithRest())
	before := live()
	r := Run(c, WithRest())
	if r.Verdict() != Held || r.Simulated != other.Simulated || Unchanged(r, other) != "" {
		t.Error(r.Verdict(), r.Violations, r.Unreached, r.Simulated, other.Simulated, Unchanged(r, other))
	}
	if more := int(live()) - int(before); more > containerplan.MaxExpanded {
		t.Errorf("%d bytes more are live than before", more)
	}
	other.Hash++
	if Unchanged(r, other) == "" {
		t.Error("another run was not found")
	}
}

// live is what is left of the heap.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func crash(path string) *kernel.CrashReport {
	return &kernel.CrashReport{Path: path, Reason: Planted, Message: kernel.WorkOfEffect + "MountVolume"}
}
