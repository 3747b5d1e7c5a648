package pods_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pods"
)

func eviction(r *rig, uid string, grace time.Duration, why string) pods.Evict {
	return pods.Evict{UID: made(uid).UID, Stop: podlife.Stop{
		At: r.Now(), Grace: grace, Reason: "Evicted", Message: why, Why: why, Disruption: why, Fail: true,
	}}
}

// TestEvict: the stop of an evicted pod is saved before its actor is told. A later eviction can only end it sooner.
func TestEvict(t *testing.T) {
	r := newRig(t, 0, func(r *rig) { r.saves.Silent = true })
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a b"))
	r.answers()
	r.Forget()
	r.tells(eviction(r, "a", 30*time.Second, "low on memory"))
	r.want("the disk is slow", []string{"a:", "b:"})
	r.answers()
	r.want("it has written", []string{"a:", "b:"}, "a: assign, look, stop in 30s: low on memory (failed)")
	r.tells(eviction(r, "a", time.Second, "low on disk space"))
	r.answers()
	r.want("it is evicted again", []string{"a:"}, "a: assign, look, stop in 1.003s: low on memory (failed)")
	r.tells(ends("a", 0, 1), eviction(r, "a", 0, "low on memory"), eviction(r, "nobody", 0, "low on memory"))
	r.want("nothing is left of it to stop", []string{"a:"})
}

// TestEvictedBeforeItBegan: a pod that waits never starts.
func TestEvictedBeforeItBegan(t *testing.T) {
	r := newRig(t, 0)
	r.tells(r.listed(""), has(podspec.File, ""), has(podspec.API, "a"), eviction(r, "a", 0, "low on memory"))
	r.want("before the node is known", []string{"a:"}, "a: assign, stop in 0s: low on memory (failed)")
}

// TestAgentIsKilledWhileEvicting: the next agent goes on with the eviction of a pod of the apiserver, and of a
// static pod that still runs.
func TestAgentIsKilledWhileEvicting(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("a static gone"), has(podspec.API, "a"), has(podspec.File, "static gone"),
		eviction(r, "a", time.Minute, "low on memory"), eviction(r, "static", time.Minute, "shutdown"),
		eviction(r, "gone", time.Minute, "shutdown"))
	disk := r.disk
	if !strings.Contains(string(disk["stops"]), `"disruption":"low on memory"`) {
		t.Fatalf("not in the checkpoint: %s", disk["stops"])
	}
	next := newRig(t, 0, func(r *rig) { r.disk = disk })
	next.tells(node, next.listed("a static"), has(podspec.API, "a"), has(podspec.File, "static gone"))
	next.want("another agent", []string{"a:", "static:", "gone:"}, "a: assign, 1 sandboxes, stop in 1m0s: low on memory (failed)",
		"static: assign, 1 sandboxes, stop in 1m0s: shutdown (failed)", "gone: assign")
	rebooted := newRig(t, 0, func(r *rig) { r.disk = disk })
	rebooted.tells(node, rebooted.listed(""), has(podspec.API, "a"), has(podspec.File, "static"))
	rebooted.want("after a reboot", []string{"a:", "static:"}, "a: assign, stop in 1m0s: low on memory (failed)", "static: assign")
}

// TestNodePressure: it keeps out new pods, not those that run.
func TestNodePressure(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, pods.NodePressure{Pressure: admit.Pressure{Memory: true}}, pods.ShuttingDown{On: true}, r.listed("runs"),
		has(podspec.File, ""), has(podspec.API, "runs new"))
	r.in("both", "runs Running, new Rejected")
	r.tells(pods.NodePressure{}, has(podspec.API, "runs new second"))
	r.in("the shutdown alone", "runs Running, new Rejected, second Rejected")
	r.tells(pods.ShuttingDown{}, has(podspec.API, "runs new second third"))
	r.in("neither", "runs Running, new Rejected, second Rejected, third Running")
	r.want("what people see", []string{"status: new", "status: second"}, "status: new is Failed Evicted", "status: second is Failed Evicted")
}
