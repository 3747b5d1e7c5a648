package podset_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podset"
)

// placing plays the actor assignments.
func placing(r *rig) {
	r.places = &podset.Places{
		Place: func(m assignments.Place) {
			verb, on := "place", ""
			if m.Resize {
				verb = "resize"
			}
			if m.On != nil {
				on = ", on"
			}
			for _, name := range slices.Sorted(maps.Keys(m.On)) {
				on += fmt.Sprintf(" %s %s", name, m.On[name])
			}
			r.Say("assignments: %s %s%s", verb, m.Pod.UID, on)
		},
		Refused: func(m assignments.Refused) { r.Say("assignments: refused %s %s", m.Pod.UID, m.Why.Reason) },
		Release: func(uid types.UID) { r.Say("assignments: release %s", uid) },
		Living: func(all map[types.UID]bool) {
			var names []string
			for uid, lives := range all { // order-free: sorted
				if lives {
					names = append(names, string(uid))
				}
			}
			slices.Sort(names)
			r.Say("assignments: %s live", strings.Join(names, ", "))
		},
	}
}

// gives is the answer to a request for one pod: a CPU for container c, none if 0; err rejects it.
func gives(number uint64, uid types.UID, cpu int, shared string, err error) podset.Placed {
	p := assignments.Placed{UID: uid, Number: number}
	if cpu > 0 {
		p.Own = map[string]cpuset.CPUSet{"c": cpuset.New(cpu)}
	}
	if err != nil {
		p.Rejected = &admit.Rejection{Reason: "UnexpectedAdmissionError", Message: err.Error()}
	}
	set, bad := cpuset.Parse(shared)
	if bad != nil {
		panic(bad)
	}
	return podset.Placed{Answer: assignments.Answer{Pods: []assignments.Placed{p}, Shared: set}}
}

// free is an answer without pods: what containers share now.
func free(shared string) podset.Placed {
	m := gives(0, "", 0, shared, nil)
	m.Pods, m.Version = nil, 1
	return m
}

func TestPodsBeginWhenTheyHaveTheirCPUs(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a b"))
	r.in("both wait", "a Waiting, b Waiting")
	r.want("they ask, and the others may go", []string{"assignments:"},
		"assignments: place a", "assignments: place b", "assignments: a, b live")
	r.tells(gives(2, "b", 0, "0-3", nil))
	r.in("b has no wish", "a Waiting, b Running")
	r.want("it shares", []string{"b:"}, "b: assign, on 0-3")
	r.tells(gives(1, "a", 1, "0,2-3", nil))
	r.in("a has one", "a Running, b Running")
	r.want("a has it alone, and b leaves it", []string{"a:", "b:"}, "b: assign, look, on 0,2-3", "a: assign, on 0,2-3 and c 1")
	r.tells(gives(2, "b", 0, "0,2-3", nil))
	r.want("nothing has changed", []string{"a:", "b:", "assignments:"})
	r.tells(ends("a", 0, 1))
	r.in("a has ended", "a Finished, b Running")
	r.want("its CPU is given back", []string{"assignments:"}, "assignments: release a")
}

// TestPodsThatDoNotGetToAsk: a pod that the node has too little for is counted. One that runs or is refused for something
// else is not.
func TestPodsThatDoNotGetToAsk(t *testing.T) {
	r := newRig(t, 0, placing)
	r.reject["big"], r.reject["odd"] = "OutOfmemory", "PodOSNotSupported"
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "big odd"))
	r.in("both are refused", "big Rejected, odd Rejected")
	r.want("one for its size", []string{"assignments: refused"}, "assignments: refused big OutOfmemory")
	r.Forget()
	r.tells(has(podspec.API, "big odd"))
	r.want("it is refused once", []string{"assignments: refused"})
}

// TestWhatAPodThatIsDownHad: the scheduler gives it to another pod once it sees the terminal phase, which may be long before
// the volumes are unmounted.
func TestWhatAPodThatIsDownHad(t *testing.T) {
	r := newRig(t, 0, placing, func(r *rig) { r.room = 1 })
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a"), gives(1, "a", 1, "0", nil))
	r.Forget()
	down := reports("a", v1.PodFailed, 0)
	down.Down = true
	r.tells(down, down)
	r.in("a is being taken down", "a Running")
	r.want("it has given back its CPU, once", []string{"assignments:"}, "assignments: release a")
	r.tells(has(podspec.API, "a b"), gives(2, "b", 1, "0", nil))
	r.in("b has its room, and its CPU", "a Running, b Running")
	r.tells(reports("a", v1.PodFailed, 0), podset.AskAgain{})
	r.in("its actor has crashed, and does not know yet", "a Running, b Running")
	r.want("it has nothing, whatever became of the release", []string{"assignments: b live"}, "assignments: b live")
	r.tells(has(podspec.API, "a b c"))
	r.in("there is room for one", "a Running, b Running, c Rejected")
	r.Forget()
	r.tells(ends("a", 0, 1))
	r.want("there is nothing to give back", []string{"assignments: release"})
}

// TestNoCPUsForAPod: one that is refused gives back what it has, and a static one is tried again when CPUs were given
// back, and not before.
func TestNoCPUsForAPod(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed(""), has(podspec.File, "static"), has(podspec.API, "a"), gives(2, "a", 1, "0", nil))
	r.tells(gives(1, "static", 0, "0", errors.New("not enough cpus")))
	r.in("it is refused", "static Rejected, a Running")
	r.Forget()
	r.tells(has(podspec.API, "a"))
	r.in("nothing was given back", "static Rejected, a Running")
	r.want("it is not tried, and gives back what an earlier agent may have given it", []string{"assignments:"},
		"assignments: release static")
	r.tells(ends("a", 0, 1))
	r.in("a gives back its CPU", "static Rejected, a Finished")
	r.want("it is asked once", []string{"assignments:"}, "assignments: release a")
	r.tells(free("0-1"))
	r.in("it has given back its CPU", "static Waiting, a Finished")
	r.want("it is tried", []string{"assignments:"}, "assignments: place static")
	r.tells(gives(3, "static", 1, "0", nil))
	r.in("there is one", "static Running, a Finished")
}

// TestNoCPUsBeforeOthersWereGivenBack: a request that is refused, while what another gave back is on its way, is not lost.
func TestNoCPUsBeforeOthersWereGivenBack(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a"), gives(1, "a", 1, "0", nil))
	r.tells(has(podspec.File, "static"), ends("a", 0, 1), gives(2, "static", 0, "0", errors.New("not enough cpus")))
	r.in("it is refused", "a Finished, static Rejected")
	r.Forget()
	r.tells(free("0-1"))
	r.in("it has given back its CPU", "a Finished, static Waiting")
	r.want("it is tried", []string{"assignments:"}, "assignments: place static")
}

// TestPodThatWaitsForItsCPUsHoldsItsRoom: a younger one does not overtake it.
func TestPodThatWaitsForItsCPUsHoldsItsRoom(t *testing.T) {
	r := newRig(t, 0, placing, func(r *rig) { r.room = 1 })
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a b"))
	r.in("the room is a's", "a Waiting, b Rejected")
}

// TestAPodThatWentMeanwhile gives back what it was given.
func TestAPodThatWentMeanwhile(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a"), has(podspec.API, ""))
	r.Forget()
	r.tells(gives(1, "a", 1, "0", nil))
	r.want("it is released", []string{"assignments:"}, "assignments: release a")
}

// TestAnswerBeforeTheSources: one to an earlier incarnation takes nothing from a pod that no source has named yet.
func TestAnswerBeforeTheSources(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed("a"), has(podspec.File, ""), gives(1, "a", 1, "0", nil))
	r.want("it is not released", []string{"assignments:"})
}

// TestAssignmentsRestarts: requests without an answer are sent again, and who lives.
func TestAssignmentsRestarts(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a b"), gives(2, "b", 1, "0", nil))
	r.Forget()
	r.tells(podset.AskAgain{})
	r.want("again", []string{"assignments:"}, "assignments: a, b live", "assignments: place a")
}

// TestRunningPodsAreAskedFor: what runs when the agent starts is adopted when its CPUs are known, also if it has none.
func TestRunningPodsAreAskedFor(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed("a b"), has(podspec.File, ""), has(podspec.API, "a b"))
	r.in("both wait", "a Waiting, b Waiting")
	r.tells(gives(1, "a", 1, "0", nil), gives(2, "b", 0, "0", nil))
	r.in("both have actors", "a Running, b Running")
	r.want("b goes on without", []string{"b:"}, "b: assign, 1 sandboxes, on 0")
}

// TestAnAnswerFromBeforeThePodCameBack does not count: what it gave was released.
func TestAnAnswerFromBeforeThePodCameBack(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed(""), has(podspec.File, "a"), has(podspec.API, ""), has(podspec.File, ""), has(podspec.File, "a"))
	r.want("it was released, and is asked for again", []string{"assignments:"},
		"assignments: place a", "assignments: a live", "assignments: release a", "assignments: place a")
	r.tells(gives(1, "a", 1, "0", nil))
	r.in("the first answer is late", "a Waiting")
	r.tells(gives(2, "a", 2, "0", nil))
	r.want("the second counts", []string{"a:", "assignments:"}, "a: assign, on 0 and c 2")
}

// TestWhatEndsAfterAnAgentsRestart: a pod that only is taken down gives back what an earlier agent gave it.
func TestWhatEndsAfterAnAgentsRestart(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed("old"), has(podspec.File, ""), has(podspec.API, ""))
	r.in("an orphan is stopped", "old Running")
	r.want("it keeps its CPUs meanwhile", []string{"assignments:"}, "assignments: old live")
	r.tells(ends("old", 0, 1))
	r.want("they are given back", []string{"assignments:"}, "assignments: release old")
}

// TestRemovedBeforeItIsAdopted: a pod that runs, and is removed before this agent has begun it, keeps its CPUs until it
// is down.
func TestRemovedBeforeItIsAdopted(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed("a"), has(podspec.File, "a"), has(podspec.API, ""))
	r.in("it waits for its CPUs", "a Waiting")
	r.tells(has(podspec.File, ""))
	r.in("it is an orphan", "a Running")
	r.want("it keeps them", []string{"assignments:"}, "assignments: place a", "assignments: a live")
	r.tells(ends("a", 0, 1))
	r.want("they are given back", []string{"assignments:"}, "assignments: release a")
}

// TestHealthOfDevices: the actor of a pod is told how its devices are with its first assignment, and after each change.
func TestHealthOfDevices(t *testing.T) {
	r := newRig(t, 0, placing)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a b"))
	r.Forget()
	health := func(m podset.Placed, is v1.ResourceHealthStatus) podset.Placed {
		m.Health = map[types.UID]devicestate.Health{"gone": nil, "a": {"c": {{
			Name: "gpu", Resources: []v1.ResourceHealth{{ResourceID: "0", Health: is}},
		}}}}
		return m
	}
	given := gives(1, "a", 1, "0", nil)
	given.Pods[0].Devices = map[string]*devices.Given{"c": {}}
	r.tells(health(given, v1.ResourceHealthStatusHealthy), health(gives(2, "b", 0, "0", nil), v1.ResourceHealthStatusHealthy))
	r.want("both begin", []string{"a:", "b:"}, "a: assign, on 0 and c 1, gpu Healthy", "b: assign, on 0")
	sick := health(gives(1, "a", 0, "0", nil), v1.ResourceHealthStatusUnhealthy)
	sick.Pods = nil
	r.tells(sick, sick)
	r.want("a is told once", []string{"a:", "b:"}, "a: assign, look, on 0 and c 1, gpu Unhealthy")
}
