package podplan

import (
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

// stopInput is a running pod with a sidecar that is being taken down within 30 s.
func stopInput() Input {
	in := runInput()
	withInit(&in, true)
	in.View.Containers = append(in.View.Containers, exited("i", 0, 0, time.Hour), alive("s", 0))
	in.Life, in.Stop = podlife.Terminating, &podlife.Stop{At: t0, Grace: 30 * time.Second}
	return in
}

// downInput is one of which nothing lives any more.
func downInput() Input {
	in := stopInput()
	in.View.Containers = []observed.Container{exited("a", 0, 0, 0)}
	return in
}

func TestPlanTerminating(t *testing.T) {
	preStop := func(c *v1.Container) { c.Lifecycle = &v1.Lifecycle{PreStop: hook()} }
	const killing = "Killing! Stopping container "
	const exceeded = "ExceededGracePeriod! Container runtime did not kill the pod within specified grace period."
	byNode := func(in *Input) { in.Stop.Fail, in.Stop.Reason = true, "Evicted" }
	// stopping: the stop of the only container began ago, and has not returned.
	stopping := func(in *Input, ago time.Duration) {
		in.Stop.At = t0.Add(-ago)
		containers(in, alive("a", 0))
		busyWith(in, StopContainer{Name: "a", ID: "a0", Grace: in.Stop.Grace})
		in.KillAt = map[string]time.Time{"a0": in.Stop.At.Add(in.Stop.Grace)}
	}
	checkPlans(t, []planCase{
		{"not known", stopInput, func(in *Input) { in.Known = false }, "observe"},
		{"main first", stopInput, nil, "stop a0 30s; " + killing + "a; wake +30s"},
		{"main under way", stopInput, func(in *Input) {
			busyWith(in, StopContainer{Name: "a", ID: "a0", Grace: 30 * time.Second})
			in.KillAt = map[string]time.Time{"a0": t0.Add(30 * time.Second)}
		}, "wake +30s"},
		{"then the sidecar, with what is left", stopInput, func(in *Input) {
			containers(in, exited("a", 0, 0, 0), alive("s", 0))
			in.Stop.At = t0.Add(-10 * time.Second)
		}, "stop s0 20s; " + killing + "s"},
		{"the last sidecar first", stopInput, func(in *Input) {
			r := in.Pod.Spec.InitContainers[1]
			r.Name = "r"
			in.Pod.Spec.InitContainers = append(in.Pod.Spec.InitContainers, r)
			containers(in, exited("a", 0, 0, 0), alive("r", 0), alive("s", 0))
		}, "stop r0 30s; " + killing + "r; wake +30s"},
		{"a sidecar does not wait for ephemeral and init containers", stopInput, func(in *Input) {
			in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
			containers(in, alive("e", 0), alive("i", 0), alive("s", 0))
		}, "stop e0 30s; stop i0 30s; stop s0 30s; " + killing + "e; " + killing + "i; " + killing + "s"},
		{"grace is over: all", stopInput, func(in *Input) { in.Stop.At = t0.Add(-30 * time.Second) },
			"stop a0 2s; stop s0 2s; " + killing + "a; " + killing + "s"},
		{"no grace: two seconds", stopInput, func(in *Input) { in.Stop.Grace = 0 }, "stop a0 2s; " + killing + "a; wake +1s"},
		{"no grace: the last second is for the sidecar", stopInput, func(in *Input) {
			in.Stop.At, in.Stop.Grace = t0.Add(-time.Second), 0
			busyWith(in, StopContainer{Name: "a", ID: "a0", Grace: 2 * time.Second})
			in.KillAt = map[string]time.Time{"a0": t0.Add(time.Second)}
		}, "stop s0 1s; " + killing + "s"},
		{"no grace: the hook has a second", stopInput, func(in *Input) {
			in.Stop.Grace = 0
			preStop(main0(in))
		}, "preStop a0 1s; " + killing + "a; wake +1s"},
		{"no grace: then the stop signal has one", stopInput, func(in *Input) {
			in.Stop.At, in.Stop.Grace = t0.Add(-time.Second), 0
			preStop(main0(in))
			containers(in, alive("a", 0))
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookRunning}}
			busyWith(in, RunPreStop{Name: "a", ID: "a0"})
		}, "stop a0 1s"},
		{"no grace: the hook is soon over", stopInput, func(in *Input) {
			in.Stop.At, in.Stop.Grace = t0.Add(-500*time.Millisecond), 0
			preStop(main0(in))
			containers(in, alive("a", 0))
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookDone}}
		}, "stop a0 1.5s"},
		{"hooks first, in all", stopInput, func(in *Input) {
			preStop(main0(in))
			preStop(&in.Pod.Spec.InitContainers[1])
		}, "preStop a0 30s; preStop s0 30s; " + killing + "a; " + killing + "s; wake +30s"},
		{"hook over", stopInput, func(in *Input) {
			preStop(main0(in))
			in.Stop.At = t0.Add(-10 * time.Second)
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookFailed}}
		}, "stop a0 20s; wake +20s"},
		{"hook takes too long", stopInput, func(in *Input) {
			preStop(main0(in))
			in.Stop.At = t0.Add(-30 * time.Second)
			containers(in, alive("a", 0))
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookRunning}}
			busyWith(in, RunPreStop{Name: "a", ID: "a0"})
		}, "stop a0 2s"},
		{"hook goes on beside the stop", stopInput, func(in *Input) {
			preStop(main0(in))
			in.Stop.At = t0.Add(-31 * time.Second)
			containers(in, alive("a", 0))
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookRunning}}
			busyWith(in, RunPreStop{Name: "a", ID: "a0"}, StopContainer{Name: "a", ID: "a0", Grace: 2 * time.Second})
			in.KillAt = map[string]time.Time{"a0": t0.Add(time.Second)}
		}, ""},
		{"grace shortened while the hook runs", stopInput, func(in *Input) {
			preStop(main0(in))
			in.Stop.At, in.Stop.Grace = t0.Add(-5*time.Second), 5*time.Second
			containers(in, alive("a", 0))
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookRunning}}
			busyWith(in, RunPreStop{Name: "a", ID: "a0"})
		}, "stop a0 2s"},
		{"by force while the hook runs", stopInput, func(in *Input) {
			preStop(main0(in))
			in.Stop.Grace = 0
			containers(in, alive("a", 0))
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookRunning}}
			busyWith(in, RunPreStop{Name: "a", ID: "a0"})
		}, "wake +1s"},
		{"by force, and it was asked to stop long ago", stopInput, func(in *Input) {
			in.Stop.At, in.Stop.Grace = t0.Add(-time.Minute), 0
			containers(in, alive("a", 0))
		}, "stop a0 1s; " + killing + "a"},
		{"killed while its hook ran", stopInput, func(in *Input) {
			preStop(main0(in))
			containers(in, exited("a", 0, 137, 0))
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookRunning}}
			busyWith(in, RunPreStop{Name: "a", ID: "a0"})
		}, "stop sandbox s0; end hook of a0"},
		{"removed while its hook ran", stopInput, func(in *Input) {
			containers(in)
			busyWith(in, RunPreStop{Name: "a", ID: "a0"})
		}, "stop sandbox s0; end hook of a0"},
		{"a hook of one that is not known to be gone", stopInput, func(in *Input) {
			containers(in)
			in.Known = false
			busyWith(in, RunPreStop{Name: "a", ID: "a0"})
		}, "observe"},
		{"unmounted, a hook of the dead hangs", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
			busyWith(in, RunPreStop{Name: "a", ID: "a0"})
		}, "ALL DOWN; end hook of a0"},
		{"postStart is ended", stopInput, func(in *Input) {
			preStop(main0(in))
			containers(in, alive("a", 0))
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookRunning}}
			busyWith(in, RunPostStart{Name: "a", ID: "a0"})
		}, "end hook of a0; wake +30s"},
		{"postStart is ended, no preStop", stopInput, func(in *Input) {
			containers(in, alive("a", 0))
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookRunning}}
			busyWith(in, RunPostStart{Name: "a", ID: "a0"})
		}, "stop a0 30s; " + killing + "a; end hook of a0"},
		{"a grace without end", stopInput, func(in *Input) {
			in.Stop.Grace = podspec.Seconds(9223372037)
			containers(in, alive("a", 0))
		}, "stop a0 596523h14m7s; " + killing + "a"},
		{"grace shortened", stopInput, func(in *Input) {
			containers(in, alive("a", 0))
			busyWith(in, StopContainer{Name: "a", ID: "a0", Grace: 30 * time.Second})
			in.KillAt = map[string]time.Time{"a0": t0.Add(25 * time.Second)}
			in.Stop.Grace = 5 * time.Second
		}, "stop a0 5s (1)"},
		{"grace shortened, the stop is of a predecessor", stopInput, func(in *Input) {
			containers(in, alive("a", 0))
			busyWith(in, StopContainer{Name: "a", ID: "a0", Grace: 30 * time.Second})
			in.Stop.Grace = 0
		}, "stop a0 2s (1)"},
		{"stop failed", stopInput, func(in *Input) {
			containers(in, alive("a", 0))
			failedLane(in, Lane{Kind: LaneStop, Name: "a0"}, 3, time.Second, "")
		}, "wake +3s"},
		{"ended by the node", stopInput, byNode, "stop a0 30s; " + killing + "a; wake +30s"},
		{"ended by the node, grace is over", stopInput, func(in *Input) {
			byNode(in)
			stopping(in, 44*time.Second)
		}, "wake +1s"},
		{"ended by the node, overdue", stopInput, func(in *Input) {
			byNode(in)
			stopping(in, 45*time.Second)
		}, exceeded},
		{"ended by the node, told already", stopInput, func(in *Input) {
			byNode(in)
			stopping(in, 45*time.Second)
			in.Overdue = Overdue{At: t0, Noted: true}
		}, ""},
		{"ended by the node, shortened since", stopInput, func(in *Input) {
			byNode(in)
			stopping(in, 40*time.Second)
			in.Stop.Grace, in.Overdue.At = 0, t0.Add(5*time.Second)
			in.KillAt["a0"] = t0
		}, "wake +5s"},
		{"ended by the node at once, not dead after 9 s", stopInput, func(in *Input) {
			byNode(in)
			stopping(in, 9*time.Second)
			in.Stop.Grace, in.KillAt["a0"] = 0, t0
		}, "wake +1s"},
		{"deleted long ago, ended by the node 9 s ago", stopInput, func(in *Input) {
			byNode(in)
			stopping(in, time.Hour)
			in.Stop.Decided = t0.Add(-9 * time.Second)
		}, "wake +1s"},
		{"deleted 20 s ago, ended by the node now: the rest of the grace period counts", stopInput, func(in *Input) {
			byNode(in)
			in.Stop.Grace = 60 * time.Second
			stopping(in, 20*time.Second)
			in.Stop.Decided = t0
		}, "wake +1m0s"},
		{"and not dead after one and a half times that", stopInput, func(in *Input) {
			byNode(in)
			in.Stop.Grace = 60 * time.Second
			stopping(in, 80*time.Second)
			in.Stop.Decided = t0.Add(-60 * time.Second)
		}, exceeded},
		{"ended by the node, grace has no end", stopInput, func(in *Input) {
			byNode(in)
			stopping(in, 0)
			in.Stop.Grace = math.MaxInt64
		}, "wake +2562047h47m16.854775807s"},
		{"ended by the node, and the clock was set back", stopInput, func(in *Input) {
			byNode(in)
			stopping(in, -time.Hour)
		}, "stop a0 30s (1); wake +45s"},
		{"ended by the node, its sandbox hangs", downInput, func(in *Input) {
			byNode(in)
			in.Stop.At = t0.Add(-45 * time.Second)
			busyWith(in, StopSandbox{ID: "s0"})
		}, exceeded},
		{"ended by the node, unmounting hangs", downInput, func(in *Input) {
			byNode(in)
			in.Stop.At = t0.Add(-45 * time.Second)
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Going: true}
		}, ""},
		{"deleted, and overdue", stopInput, func(in *Input) { stopping(in, 45*time.Second) }, ""},
		{"ended by its deadline, and overdue", stopInput, func(in *Input) {
			in.Stop.Fail, in.Stop.Ended = true, true
			stopping(in, 45*time.Second)
		}, ""},
		{"being made", stopInput, func(in *Input) {
			containers(in)
			busyWith(in, CreateContainer{Name: "a"})
		}, ""},
		{"being started", stopInput, func(in *Input) {
			containers(in, created("a", 0))
			busyWith(in, StartContainer{Name: "a", ID: "a0"})
		}, ""},
		{"its sandbox is being made", stopInput, func(in *Input) {
			in.View = observed.Pod{}
			busyWith(in, RunSandbox{})
		}, ""},
		{"made, never started", stopInput, func(in *Input) { containers(in, created("a", 0)) }, "stop sandbox s0"},
		{"all dead", downInput, nil, "stop sandbox s0"},
		{"all dead, not read", downInput, func(in *Input) { in.View.Containers[0].Detailed = false }, "inspect a0; stop sandbox s0"},
		{"sandbox dead already: its network is freed", downInput, func(in *Input) { in.View.Sandboxes[0].State = observed.SandboxNotReady },
			"stop sandbox s0"},
		{"sandbox stopped", downInput, func(in *Input) { in.SandboxStopped = map[string]bool{"s0": true} }, "unmount"},
		{"unmounting", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{State: volumeplan.Failed, Going: true}
		}, ""},
		{"unmounted", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
		}, "ALL DOWN"},
		{"with a cgroup", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Cgroup.Own = true
		}, "unmount; remove cgroup"},
		{"cgroup not removed yet", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
			in.Cgroup = podcgroup.Cgroup{Own: true, State: podcgroup.Failed, Going: true}
		}, ""},
		{"cgroup removed, not unmounted yet", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Going: true}
			in.Cgroup = podcgroup.Cgroup{Own: true, Removed: true}
		}, ""},
		{"unmounted, cgroup removed", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
			in.Cgroup = podcgroup.Cgroup{Own: true, Removed: true}
		}, "ALL DOWN"},
		{"with claims", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			withClaims(claims.Ready)(in)
		}, "unmount; release claims"},
		{"claims being released", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
			withClaims(claims.Going)(in)
		}, ""},
		{"claims released", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
			withClaims(claims.Released)(in)
		}, "ALL DOWN"},
		{"unmounted, a stop of the dead hangs", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
			busyWith(in, StopContainer{Name: "a", ID: "a0"})
		}, "ALL DOWN"},
		{"unmounted, its end not read", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
			in.View.Containers[0].Detailed = false
		}, "inspect a0"},
		{"unmounted, its end can't be read", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Volumes = volumeplan.Volumes{Unmounted: true}
			in.View.Containers[0].Detailed = false
			failedLane(in, Lane{Kind: LaneInspect, Name: "a0"}, maxInspections, 0, "")
		}, "ALL DOWN"},
		{"ended", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Life = podlife.Terminated
		}, ""},
		{"ended, not known", downInput, func(in *Input) {
			in.SandboxStopped = map[string]bool{"s0": true}
			in.Life, in.Known = podlife.Terminated, false
		}, ""},
		{"ended, a late sandbox", downInput, func(in *Input) { in.Life = podlife.Terminated }, "stop sandbox s0"},
		{"ended, a late sandbox, not known", downInput, func(in *Input) {
			in.Life, in.Known = podlife.Terminated, false
		}, "observe"},
		{"ended, a late container", stopInput, func(in *Input) { in.Life = podlife.Terminated },
			"stop a0 30s; Killing! Stopping container a; wake +30s"},
	})
}

// orphanInput is a pod that was put together from what the runtime has of it.
func orphanInput() Input {
	in := runInput()
	in.Origin = podspec.Orphan
	in.Pod.Spec = v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "img:1"}}}
	in.Volumes, in.Images = volumeplan.Volumes{}, nil
	in.Life, in.Stop = podlife.Terminating, &podlife.Stop{At: t0, Grace: 30 * time.Second}
	in.View.Containers[0].GraceSeconds = 10
	return in
}

func TestPlanOrphan(t *testing.T) {
	const killing = "; Killing! Stopping container a"
	checkPlans(t, []planCase{
		{"its own grace", orphanInput, nil, "stop a0 10s" + killing},
		{"not read yet", orphanInput, func(in *Input) { in.View.Containers[0].Detailed = false }, "inspect a0; wake +30s"},
		{"can't be read", orphanInput, func(in *Input) {
			in.View.Containers[0].Detailed = false
			failedLane(in, Lane{Kind: LaneInspect, Name: "a0"}, 1, time.Second, "")
		}, "inspect a0; stop a0 30s" + killing},
		{"its own hook", orphanInput, func(in *Input) { in.View.Containers[0].PreStop = `{"exec":{"command":["bye"]}}` },
			"preStop a0 10s" + killing + "; wake +10s"},
		{"its own grace has no end", orphanInput, func(in *Input) {
			in.Stop.Grace, in.View.Containers[0].GraceSeconds = podspec.Seconds(1<<62), 9223372037
		}, "stop a0 596523h14m7s" + killing},
		{"a hook that can't be read", orphanInput, func(in *Input) { in.View.Containers[0].PreStop = `{"exec":` }, "stop a0 10s" + killing},
	})
}
