package podset_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/podset"
)

// counts writes down what metrics are told; of pods that are preempted, how many by resource.
type counts struct {
	r         *rig
	preempted map[v1.ResourceName]int
}

// Ended implements podset.Counts.
func (c counts) Ended(e podstatus.Ending) {
	c.r.Say("metrics: a %v container ended with %d, %s", e.Kind, e.Code, e.Reason)
}

// Admitted implements podset.Counts.
func (c counts) Admitted(p *v1.Pod) { c.r.Say("metrics: %s is admitted", p.UID) }

// Rejected implements podset.Counts.
func (c counts) Rejected(reason string) { c.r.Say("metrics: a pod is rejected: %s", reason) }

// Resizing implements podset.Counts.
func (c counts) Resizing(of podresize.Change) {
	c.r.Say("metrics: %s %s %s", of.Operation, of.Resource, of.Requirement)
}

// Infeasible implements podset.Counts.
func (c counts) Infeasible(detail string) { c.r.Say("metrics: infeasible: %s", detail) }

// Undeferred implements podset.Counts.
func (c counts) Undeferred(p *v1.Pod, how podset.Resolution, waited time.Duration) {
	c.r.Say("metrics: the resize of %s was deferred for %v, and then %s", p.UID, waited.Round(time.Second), how)
}

// Preempted implements podset.Counts.
func (c counts) Preempted(of v1.ResourceName) { c.preempted[of]++ }

func counting(r *rig) { r.counts = counts{r, map[v1.ResourceName]int{}} }

// TestEndsAreCounted: once each, and none that the apiserver knew before this agent began.
func TestEndsAreCounted(t *testing.T) {
	r := newRig(t, 0, counting)
	ended := func(code int32) []v1.ContainerStatus {
		end := v1.ContainerStateTerminated{ContainerID: "c://1", ExitCode: code, Reason: "Error"}
		return []v1.ContainerStatus{{Name: "c", ContainerID: "c://1", State: v1.ContainerState{Terminated: &end}}}
	}
	p := made("a")
	p.Status.ContainerStatuses = ended(1)
	r.tells(node, r.listed(""), has(podspec.File, "b"), wants(podspec.API, p))
	r.Forget()
	says := reports("a", v1.PodRunning, 0)
	says.Status.ContainerStatuses = ended(1)
	r.tells(says, says)
	r.want("known before", []string{"metrics:"})
	says = reports("b", v1.PodRunning, 0)
	says.Status.ContainerStatuses = ended(139)
	r.tells(reports("b", v1.PodPending, 0), says, says)
	r.want("it ends", []string{"metrics:"}, "metrics: b started", "metrics: a main container ended with 139, Error")
}

// TestAdmissionsAreCounted: not those of pods that are only taken down.
func TestAdmissionsAreCounted(t *testing.T) {
	r := newRig(t, 0, counting)
	r.reject["full"] = "OutOfcpu"
	over := made("over")
	over.Status.Phase = v1.PodFailed
	r.tells(node, r.listed("over orphan"), has(podspec.File, ""), wants(podspec.API, made("a"), made("full"), over))
	r.want("at the start", []string{"metrics:"}, "metrics: a is admitted", "metrics: a pod is rejected: OutOfcpu")
}

// TestResizesAreCounted: what is asked for, what never fits, and how long what does not fit now waits.
func TestResizesAreCounted(t *testing.T) {
	other := asks("3", 1)
	other.Name, other.UID = "b", "b"
	r := newRig(t, 0, resizable, counting)
	r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, asks("1", 1), other))
	r.Forget()
	counted := func(what string, want ...string) {
		t.Helper()
		r.want(what, []string{"metrics:"}, want...)
	}
	more, less := []string{"metrics: increase cpu requests", "metrics: increase cpu limits"},
		[]string{"metrics: decrease cpu requests", "metrics: decrease cpu limits"}
	r.tells(wants(podspec.API, asks("2", 2), other))
	counted("there is no room", more...)
	r.Advance(time.Minute)
	r.tells(wants(podspec.API, asks("1", 3), other))
	counted("it does not want it any more", append(less, "metrics: the resize of a was deferred for 1m0s, and then reverted")...)
	r.tells(wants(podspec.API, asks("5", 4), other))
	counted("there never is", append(more, "metrics: infeasible: insufficient_node_allocatable")...)
	r.Advance(time.Minute)
	r.tells(wants(podspec.API, asks("2", 5), other))
	counted("less, for which there is no room now", less...)
	r.Advance(time.Second)
	r.tells(wants(podspec.API, asks("2", 5)), ends("b", 0, 1))
	counted("there is", "metrics: the resize of a was deferred for 1s, and then accepted")
	c := asks("2", 1)
	c.Name, c.UID = "c", "c"
	r.tells(wants(podspec.API, asks("2", 5), c), wants(podspec.API, asks("3", 6), c), ends("a", 0, 1))
	counted("it ends", append([]string{"metrics: c is admitted"},
		append(more, "metrics: the resize of a was deferred for 0s, and then terminated")...)...)
}
