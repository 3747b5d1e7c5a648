package podset_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
)

func eviction(r *rig, uid string, grace time.Duration, why string) podset.Evict {
	return podset.Evict{UID: made(uid).UID, Stop: podlife.Stop{
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

// deletes is the apiserver that deletes a pod with a grace period.
func (r *rig) deletes(uid string, grace int64) podset.Wanted {
	p := made(uid)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: r.Now()}, &grace
	return wants(podspec.API, p)
}

// TestEvictWhileDeleting: an eviction shortens the grace period of a pod that is being deleted at once. That it has
// failed, and why, is saved first, and outlives the agent.
func TestEvictWhileDeleting(t *testing.T) {
	r := newRig(t, 0, func(r *rig) { r.saves.Silent = true })
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a"), r.deletes("a", 60))
	r.answers()
	r.Forget()
	r.tells(eviction(r, "a", 10*time.Second, "low on memory"))
	r.want("the disk is slow", []string{"a:"}, "a: assign, look, stop in 10.002s: the pod was deleted")
	r.tells(podset.Asked{Ask: pod.Ask{UID: "a"}})
	r.want("its actor restarts meanwhile", []string{"a:"}, "a: assign, look, stop in 10.002s: the pod was deleted")
	r.tells(r.deletes("a", 5))
	r.want("it is deleted again meanwhile", []string{"a:"}, "a: assign, look, stop in 5s: the pod was deleted")
	r.answers()
	r.want("it has written", []string{"a:"}, "a: assign, look, stop in 5s: the pod was deleted (failed)")
	r.tells(eviction(r, "a", time.Second, "low on disk space"))
	r.want("it is evicted again", []string{"a:"}, "a: assign, look, stop in 1.009s: the pod was deleted (failed)")
	r.answers()
	for _, text := range []string{`"reason":"Evicted"`, `"message":"low on memory"`, `"disruption":"low on memory"`, `"grace":1009000000`} {
		check.Has(t, string(r.disk["stops"]), text, "%s is not in the checkpoint: %s", text, r.disk["stops"])
	}
	next := newRig(t, 0, func(n *rig) { n.disk = r.disk })
	next.tells(node, next.listed("a"), has(podspec.File, ""), next.deletes("a", 60))
	next.want("another agent", []string{"a:"}, "a: assign, 1 sandboxes, stop in 1.009s: the pod was deleted (failed)")
}

// TestEvictWhileRemoved: the same for a static pod whose manifest was removed. If that comes back, the pod begins
// another life, which is not evicted.
func TestEvictWhileRemoved(t *testing.T) {
	const stop = "stop in 1.004s: the pod was removed from its source"
	r := newRig(t, 0, func(r *rig) { r.saves.Silent = true })
	r.tells(node, r.listed("a"), has(podspec.API, ""), has(podspec.File, "a"))
	r.answers()
	r.Forget()
	r.tells(has(podspec.File, ""), eviction(r, "a", time.Second, "shutdown"))
	r.want("the disk is slow", []string{"a:"})
	r.answers()
	r.want("it has written both", []string{"a:"}, "a: assign, look, stop in 1s: the pod was removed from its source (failed)")

	r = newRig(t, 0)
	r.tells(node, r.listed("a"), has(podspec.API, ""), has(podspec.File, "a"), has(podspec.File, ""))
	r.Advance(2 * time.Millisecond)
	r.Forget()
	r.tells(eviction(r, "a", time.Second, "shutdown"))
	r.want("after it was told to stop", []string{"a:"}, "a: assign, look, "+stop, "a: assign, look, "+stop+" (failed)")
	next := newRig(t, 0, func(n *rig) { n.disk = r.disk })
	next.tells(node, next.listed("a"), has(podspec.API, ""), has(podspec.File, "a"))
	next.want("another agent, and its manifest is back", []string{"a:"}, "a: assign, 1 sandboxes, "+stop+" (failed)")
	next.tells(reports("a", v1.PodFailed, 0), ends("a", 0, 1))
	next.want("another life", []string{"a:"}, "a: assign, look, first sandbox 1")
}

// TestDeletedWhileEvicting: a pod that is deleted by force ends soon, also while its eviction is not saved yet.
func TestDeletedWhileEvicting(t *testing.T) {
	r := newRig(t, 0, func(r *rig) { r.saves.Silent = true })
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a"))
	r.answers()
	r.Forget()
	deleted := made("a")
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: r.Now()}, new(int64(0))
	r.tells(eviction(r, "a", time.Minute, "low on memory"), wants(podspec.API, deleted))
	r.want("the disk is slow", []string{"a:"}, "a: assign, look, stop in 0s: the pod was deleted")
	r.answers()
	r.want("it has written", []string{"a:"}, "a: assign, look, stop in 0s: low on memory (failed)")
}

// TestEvictRefused: a pod that is stopped because it may not run here has failed for that.
func TestEvictRefused(t *testing.T) {
	r := newRig(t, 0, func(r *rig) { r.reject["a"] = "too big" })
	list := r.listed("a")
	list.Runtime.Pods[0].Sandboxes[0].State = observed.SandboxNotReady
	r.tells(node, list, has(podspec.File, ""), has(podspec.API, "a"))
	r.Forget()
	r.tells(eviction(r, "a", time.Second, "low on memory"))
	r.want("it is only shortened", []string{"a:"}, "a: assign, look, stop in 1.002s: too big (failed)")
	if strings.Contains(string(r.disk["stops"]), "low on memory") {
		t.Errorf("the checkpoint has %s", r.disk["stops"])
	}
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
	r.tells(node, podset.NodePressure{Pressure: admit.Pressure{Memory: true}}, podset.ShuttingDown{On: true}, r.listed("runs"),
		has(podspec.File, ""), has(podspec.API, "runs new"))
	r.in("both", "runs Running, new Rejected")
	r.tells(podset.NodePressure{}, has(podspec.API, "runs new second"))
	r.in("the shutdown alone", "runs Running, new Rejected, second Rejected")
	r.tells(podset.ShuttingDown{}, has(podspec.API, "runs new second third"))
	r.in("neither", "runs Running, new Rejected, second Rejected, third Running")
	r.want("what people see", []string{"status: new", "status: second"}, "status: new is Failed Evicted", "status: second is Failed Evicted")
}
