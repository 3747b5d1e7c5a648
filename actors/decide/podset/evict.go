package podset

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Evictable says whether a pod still has something to stop.
func (e *Entry) Evictable() bool {
	switch e.State {
	case Waiting, Running:
		return e.Origin != podspec.Orphan
	case Finished, Collecting, Rejected:
	}
	return false
}

// preempting is the status reason of a pod whose place a critical pod takes.
const preempting = "Preempting"

// Preempted is how to stop a pod whose place a critical pod takes. As with a kubelet, one that is always restarted may
// have succeeded: its owner replaces it either way. For a Job, whose pods are not, that would be a lie.
func Preempted(p *v1.Pod, now time.Time) podlife.Stop {
	const message = "Preempted in order to admit critical pod"
	return podlife.Stop{
		At: now, Grace: podspec.Grace(p), Fail: true, Reason: preempting, Message: message, Why: message,
		Disruption: "Pod was preempted by Kubelet to accommodate a critical pod.",
		ByExit:     p.Spec.RestartPolicy == v1.RestartPolicyAlways,
	}
}

// EndedForGood says whether a pod has ended, and would not begin again after a restart of the agent.
func (e *Entry) EndedForGood() bool {
	return e.State == Finished && e.Origin == podspec.API && (e.Eviction != Kept || podspec.Finished(e.Pod))
}

// Spent says whether the dead containers and the logs of a pod can go although the apiserver still has it: this node
// has evicted it, or given its place to another, and the apiserver knows its end. So the disk is free again that a pod
// had used beyond its limits. What was ended by a shutdown can be read later.
func (e *Entry) Spent() bool {
	return e.EndedForGood() && e.Eviction != Kept && podspec.Finished(e.Pod) &&
		(e.Stop.Reason == eviction.Reason || e.Stop.Reason == preempting)
}

// StillEvicted says whether an eviction that an earlier agent began at at goes on. A pod of the apiserver
// never runs again. A static pod does, for example after the machine was shut down: only the stop of what
// still runs goes on.
func StillEvicted(o podspec.Origin, rp observed.RuntimePod, at time.Time) bool {
	return o == podspec.API || Runs(rp) && !BegunSince(rp, at)
}
