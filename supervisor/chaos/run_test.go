package chaos

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
)

func parse(t testing.TB, text string) *plan.Case {
	t.Helper()
	return check.Value(plan.Parse(text))(t)
}

// TestQuietLives: without faults every kind of life holds every rule.
func TestQuietLives(t *testing.T) {
	for _, l := range Lives() {
		t.Run(l.Name, func(t *testing.T) {
			r := Run(l.Case, WithRest())
			check.Equal(t, r.Verdict(), Held, "%s: %v %v", r.Verdict(), r.Violations, r.Unreached)
			t.Log(r.Messages, r.Simulated, r.Writes, r.Changes, r.Ready)
		})
	}
}

// kept are the shortest cases of faults that were found by this package and mended, with
// what they broke. docs/chaos-findings.md says more of each.
var kept = map[string]string{
	// A static pod that another one has followed still ended beside it, and was taken for it.
	"L01 two of a name": "standalone; write c main=app app.exit-code=0; at 1m: write c main=app; fault call RemoveContainer c/app #1 = hang; " +
		"fault host PodDirs - #3 = kill",
	// An image could not be removed, so a pod was evicted.
	"I28 an image stays": "pressure disks=1; devices 1; create b main=app; unused-image size=60Gi; at 2m40s: use b/app layer=50Gi; " +
		"fault call RemoveImage - #1 = panic",
	// An actor crashed while a container was started, and the next one does not run its postStart hook.
	"I07 crash during a start": "seed 46052; create a main=app start-command=app; create b main=app; create c main=app; " +
		"create d main=app; create e main=app; create f main=app; fault msg podset:Reported - #27 = panic-within; " +
		"fault send pod/b:CgroupAnswer - #1 = twice; fault host LoadCheckpoint - #5 = kill; fault host LoadCheckpoint - #2 = work-late 4s",
	// The same, of a start that began after the crash: the actors of pods live until the one above them begins again.
	"I07 start after a crash": "seed 1349; create a main=app init=setup; create c main=app start-command=app; " +
		"fault send volumes:Mount - #2 = delay 5s; fault call List - #4 = fail; fault msg podset:Reported - #14 = panic-within",
	// A container was made with an image that the agent was told was old, before its pod's actor was.
	"I21 made with the old image": "seed 38640; create b main=app live=app app.unhealthy-after=20s; at 45s: oom b/app; " +
		"at 46s: suspend for=13s; at 53.2s: kill-runtime for=7s; at 1m5s: image b/app to=registry.test/app:2; " +
		"fault send pod/b:RuntimeBack - #1 = delay 9s",
	// An agent that begins beside an apiserver that it cannot watch knows of no pod to probe.
	"I22 not told yet": "seed 40890; create b main=app live=app; at 35s: cut-off for=16s; kill-agent; at 53s: no-watches for=27s",
	// A pod was gone and came back before its actor could stop it, as a checkpoint was written late.
	"I21 stopped late": "seed 33110; write a main=app; at 7s: remove a; at 9s: write a main=app startup=app app.startup-time=3s; " +
		"at 10s: remove a; at 11s: write a main=app startup=app app.startup-time=3s; oom a/app; " +
		"fault host SaveCheckpoint - #7 = answer-late 5s",
	// A container whose image was changed and changed back has no backoff, as it has not crashed.
	"I21 image changed back": "create d main=app; at 10s: image d/app to=registry.test/app:4; at 1m0s: image d/app; " +
		"at 1m6s: image d/app to=registry.test/app:4; at 1m10s: end-sandbox d",
	// A preStop hook began to sleep when the sandbox ended, and was over just after the pod was deleted.
	"I07 slept before the deletion": "no-events; create a main=app prestop=app; at 1m58.1s: end-sandbox a; " +
		"at 2m0s: delete a",
	// The same without events, which the agent counted to know that something may have gone unseen.
	"L01 container that came and went without events": "no-events; create a main=app; at 6.7s: oom a/app; " +
		"at 7.5s: kill-runtime for=17s; at 8.5s: vanish a/app",
	// A container that was lost was counted twice as restarted, and made a second time beside one whose
	// creation was answered with an error.
	"I09 lost container": "create a main=app; at 1m0s: vanish a/app; fault call CreateContainer a/app #2 = partial",
	// The agent wrote a status over a link that brought no watch, and did not notice that a restore undid it.
	"L01 restored unseen": "create a main=app deadline=20; at 20s: cut-off for=15s; expire; backup; at 40s: restore",
	// The agent had deleted a pod's object for good, a restore brought it back, and its status was never written again.
	"L01 deleted pod restored": "create c main=app; kill-runtime for=27s; backup; delete c; at 20s: cut-off for=5s; restore; " +
		"at 40s: restore",
	// The lease's RenewTime went back with the clock where the apiserver gives back the very object.
	"I16 clock set back": "create a main=app; at 40s: step-clock by=-1h",
	// A static pod that ended for good before its container was started was shown as Pending for ever.
	"L01 static pod that ended is Pending": "standalone; write f sidecar=proxy main=app restart=Never; " +
		"on f Made: power-cycle for=18s; on f/app Made: power-cycle for=1s",
	// A container that was made and was gone between two lists of the runtime, unseen, was shown as
	// running for ever.
	"L01 container that came and went between two lists": "write a main=app ready=app; at 2s: vanish a/app; kill-agent; " +
		"at 1m0s: vanish a/app",
	// The rule did not know that nobody knows the devices of containers whose checkpoint can't be read.
	"I32 seed 157": "seed 157; devices 12; create b main=app gpus=1; create d main=app app.crash-loop=2 gpus=1; " +
		"at 20s: cut-off; power-cycle; fault host LoadCheckpoint - #14 = fail",
	// A pod whose container was not made yet, and whose devices the checkpoint had lost, was not given others.
	"L01 seed 439": "seed 439; no-events; devices 1; write c main=app gpus=1; at 10s: no-answers for=18s; " +
		"at 14s: kill-agent for=8s; at 25.4s: kill-agent for=4s; at 29.4s: suspend; power-cycle; " +
		"fault host LoadCheckpoint - #13 = fail; fault api Update-Lease - #2 = slow 3s; " +
		"fault msg nodestatus:leased - #4 = kill; fault host LoadPullRecords - #4 = slow 6s",
	// A container whose devices the checkpoint had lost waited for people when it had ended.
	"L01 devices of a container that ends": "devices 4; create b main=app gpus=1; at 20s: kill-agent; at 1m0s: exit b/app code=1; " +
		"fault host LoadCheckpoint - #13 = lost",
	"I32 checkpoint lost": "seed 157; devices 12; create b main=app gpus=1; create d main=app app.crash-loop=2 gpus=1; " +
		"at 20s: cut-off; power-cycle; fault host LoadCheckpoint - #14 = lost",
	// The rule counted an eviction of which pods was told twice as two.
	"I29 seed 1903": "pressure disks=1; create d main=app; create f main=app; use f/app memory=4000Mi; " +
		"use d/app memory=2Gi; fault send podset:Evict - #1 = twice",
	// The simulated plugin of a list that failed never registered again.
	"L01 seed 475": "seed 475; devices 1; write b main=app gpus=1; fault host ListDevices - #1 = hang",
	// A container that had ended while the runtime was away, and was then asked to stop, did not count as crashed.
	"I21 seed 1145": "seed 1145; devices 1; write b main=app live=app app.unhealthy-after=20s; " +
		"at 1m0s: kill-runtime for=8s; exit b/app",
	"I21 seed 2694": "seed 2694; create a main=app main=log; at 6s: kill-runtime; exit a/app; end-sandbox a; " +
		"at 1m0s: exit a/app",
	// An agent that was killed made a cgroup late, when its pod had ended.
	"L01 seed 1970": "seed 1970; standalone; write d main=app volume=data; " +
		"write e main=app restart=Never app.exit-code=2; fault msg volumes:done - #3 = kill; fault host SetCgroup e #1 = work-late 7.5s",
	// An agent that was killed mounted a volume late, when its pod had ended: its directories were never removed.
	"L01 mounted late": "standalone; write e main=app volume=data restart=Never app.exit-code=2; at 6ms: kill-agent; " +
		"at 1m: remove e; fault host MountVolume e #1 = work-late 8s",
	// The actor of a pod crashed, and the next one took an answer to the first for its own: volumes heard of no claim.
	"L01 seed 1498": "seed 1498; csi plain; create c main=app claim=c2; at 2m: power-cycle; fault host PreparePod c #2 = panic",
	// A container that completed while the runtime was away failed its liveness probe for that, and was run again.
	"I09 completed while the runtime was away": "create b main=app live=app restart=OnFailure app.run-for=62s " +
		"app.exit-code=0; at 1m: kill-runtime for=8s",
	// The rule had forgotten that a pod whose records were gone had been shown as Succeeded before a restore.
	"I10 seed 2532": "seed 2532; pressure disks=1; devices 1; create a main=app restart=Never app.exit-code=0; at 1m: backup; " +
		"restore; kill-agent; use a/app layer=95Gi; at 5m: kill-agent",
	// The same of a pod whose end was shown late.
	"I10 seed 6316": "seed 6316; create a main=app restart=Never app.exit-code=0; create b main=app; at 10s: vanish a/app; " +
		"fault msg apipods:told - #3 = kill-after; fault send status:Show - #12 = delay 10s",
	// An agent that began knew a pod that a restore had brought back by what it was in its life before.
	"I23 seed 625": "seed 625; create a main=app startup=app app.ignore-term=true; backup; at 1m14s: kill-agent for=12s; " +
		"force a; at 1m30s: restore",
	// The rule did not know that a pod was deleted by force whose deletion came with its end.
	"I26 seed 5501": "seed 5501; pressure disks=1; create a main=app sidecar=proxy deadline=20 app.ignore-term=true grace=3; " +
		"at 4s: cut-off for=17s; force a",
	// images measured and listed on and on once it had removed one, as long as the disk was full of something else.
	"L01 seed 6348": "seed 6348; pressure disks=2; cost *=3ms; create a main=app start-command=app stop-command=app " +
		"app.exec-delay=300ms app.ignore-term=true grace=3 sidecar=proxy; " +
		"create b main=app start-command=app stop-command=app app.exec-delay=300ms disk=1Gi; " +
		"create c main=app start-command=app stop-command=app app.exec-delay=300ms disk=1Gi; " +
		"write d main=app ready=app app.crash-loop=2 disk=1Gi; create e main=app app.crash-loop=2 startup=app app.startup-time=3s; " +
		"create f main=app sidecar=proxy start-command=app stop-command=app app.exec-delay=300ms startup=app app.startup-time=3s; " +
		"at 1.4s: force a; at 7.8s: create a main=app; at 36.8s: no-answers for=1s; at 37.2s: delete a; " +
		"at 58.4s: create a main=app ready=app start-command=app stop-command=app app.exec-delay=300ms; " +
		"at 1m0.8s: cut-off for=16s; at 1m26.8s: use b/app memory=0; at 1m52.8s: use e/app layer=0; " +
		"at 1m53.8s: use d/app layer=95Gi; at 2m3.8s: use e/app memory=2Gi; at 2m6.8s: use d/app memory=4000Mi; " +
		"at 2m18.8s: kill-agent for=5s; at 2m42.8s: use c/app layer=900Mi",
	// The rule wanted a static pod tried again whose remains were there, and whose device was not healthy yet.
	"L01 seed 6062": "seed 6062; standalone; devices 2; write a main=app gpus=1; at 20s: power-cycle; at 2m12.1s: power-cycle; " +
		"at 2m15s: kill-runtime for=24s; kill-agent; at 2m27.1s: break-gpus for=22s; fault call RunPodSandbox a #3 = panic-after",
	// pods had crashed before it told images that b was gone: its image was pulled again and again.
	"L02, images": "create b main=app private=app; create c main=app; at 30s: delete b; delete c; fault msg podset:Collected - #1 = panic",
}

// TestGivenUpWithItsPod: the answer to a call that hangs when its pod ends is no message that is lost.
func TestGivenUpWithItsPod(t *testing.T) {
	r := Run(parse(t, "create b main=app; at 8s: delete b; fault call PodSandboxStatus b #1 = hang"))
	if r.Verdict() != Held {
		t.Error(r.Violations, r.Unreached)
	}
}

// TestKept: what was found stays mended.
func TestKept(t *testing.T) {
	for name, text := range kept {
		t.Run(name, func(t *testing.T) {
			var options []Option
			if strings.HasPrefix(name, atRest) {
				options = append(options, WithRest())
			}
			if r := Run(parse(t, text), options...); r.Verdict() != Held {
				t.Errorf("%s: %v %v", r.Verdict(), r.Violations, r.Unreached)
			}
		})
	}
}

// TestKillBeforeAndAfter: an agent that is killed before a message has not handled it, one that is
// killed after it has.
func TestKillBeforeAndAfter(t *testing.T) {
	before := Run(parse(t, "create a main=app; fault msg podset:Wanted - #2 = kill"))
	after := Run(parse(t, "create a main=app; fault msg podset:Wanted - #2 = kill-after"))
	if before.Verdict() != Held || after.Verdict() != Held {
		t.Errorf("%v %v", before.Violations, after.Violations)
	}
	if before.Hash == after.Hash || before.Crashes != 1 || after.Crashes != 0 {
		t.Errorf("before: hash %x, %d crashes; after: hash %x, %d crashes", before.Hash, before.Crashes, after.Hash, after.Crashes)
	}
}
