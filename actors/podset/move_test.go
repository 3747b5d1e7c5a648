package podset_test

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
)

// resizing is a node where resizes change which CPUs containers have, with the pod a, which has CPU 1.
func resizing(t *testing.T, changes ...func(*rig)) *rig {
	t.Helper()
	r := newRig(t, 0, append([]func(*rig){resizable, placing, func(r *rig) { r.places.CPUs, r.places.Resizes = true, true }}, changes...)...)
	r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, guaranteed("1", 1)), owns(1, "1", false))
	r.in("it runs", "a Running")
	r.Forget()
	return r
}

// owns is the answer that container app of the pod a has these CPUs.
func owns(number uint64, list string, leaves bool) podset.Placed {
	set, err := cpuset.Parse(list)
	if err != nil {
		panic(err)
	}
	p := assignments.Placed{UID: "a", Number: number, Leaves: leaves}
	if !set.IsEmpty() {
		p.Own = map[string]cpuset.CPUSet{"app": set}
	}
	return podset.Placed{Answer: assignments.Answer{Pods: []assignments.Placed{p}, Shared: cpuset.New(0)}}
}

// hasNo is the answer that it can't.
func hasNo(number, version uint64, never bool) podset.Placed {
	return podset.Placed{Answer: assignments.Answer{Shared: cpuset.New(0), Version: version, Pods: []assignments.Placed{
		{UID: "a", Number: number, Refused: &cpus.Refusal{Never: never, Message: "too few CPUs"}},
	}}}
}

func inPlace(uid types.UID, number uint64) podset.InPlace {
	return podset.InPlace{InPlace: pod.InPlace{UID: uid, Number: number}}
}

// TestMoreCPUs: they are the pod's before its allocation is written, and its containers get them after that.
func TestMoreCPUs(t *testing.T) {
	r := resizing(t)
	r.saves.Silent = true
	r.tells(wants(podspec.API, guaranteed("3", 2)), wants(podspec.API, guaranteed("3", 2)))
	r.want("it asks once, and its actor is told that nothing is decided", nil, "assignments: resize a", "a: assign, look, on 0 and app 1")
	r.tells(podset.AskAgain{})
	r.want("assignments restarted", []string{"assignments:"}, "assignments: a live", "assignments: resize a")
	r.tells(owns(2, "1-3", false))
	r.want("not written yet", nil)
	r.answers()
	r.want("written", nil, "event: a ResizeStarted", "a: assign, look, on 0 and app 1-3, and says when as 2")
	check.Count(t, r.allocated(), "3", "the checkpoint has %s CPUs")
	r.tells(inPlace("a", 1), inPlace("b", 2), inPlace("a", 2), inPlace("a", 2))
	r.want("it is done once", []string{"event:", "assignments:"}, "event: a ExclusiveCPUsChanged")
}

// TestFewerCPUs: others get the rest when the containers have left it. Until then the pod is not given others.
func TestFewerCPUs(t *testing.T) {
	r := resizing(t)
	r.tells(wants(podspec.API, guaranteed("3", 2)), owns(2, "1-3", false), inPlace("a", 2))
	r.Forget()
	r.saves.Silent = true
	r.tells(wants(podspec.API, guaranteed("2", 3)), owns(3, "1-2", true))
	r.want("not written yet", []string{"a:"}, "a: assign, look, on 0 and app 1-3, and says when as 2")
	r.answers()
	r.saves.Silent = false
	r.want("written", []string{"a:", "assignments:"}, "a: assign, look, on 0 and app 1-2, and says when as 3")
	r.tells(wants(podspec.API, guaranteed("1", 4)))
	r.want("it waits", []string{"event:", "assignments:"}, "event: a ResizeDeferred")
	r.tells(inPlace("a", 3))
	r.want("it has left", []string{"event:", "assignments:"}, "event: a ExclusiveCPUsChanged", "assignments: place a, on app 1-2")
	r.tells(podset.AskAgain{})
	r.want("assignments restarted", []string{"assignments:"}, "assignments: a live", "assignments: place a, on app 1-2")
	r.tells(owns(4, "1-2", false))
	r.want("others may have it, and it asks for less", []string{"assignments:"}, "assignments: resize a")
}

// TestNoCPUs: it shares what all share.
func TestNoCPUs(t *testing.T) {
	r := resizing(t)
	r.tells(wants(podspec.API, guaranteed("1500m", 2)), owns(2, "", true))
	r.want("it is told", []string{"a:"}, "a: assign, look, on 0 and app 1", "a: assign, look, on 0, and says when as 2")
	r.tells(inPlace("a", 2))
	r.want("it has left", []string{"assignments:"}, "assignments: place a, on")
	r.tells(ends("a", 0, 1))
	r.want("it is released", []string{"assignments:"}, "assignments: release a")
}

// TestTooFewCPUs: it is asked again when something is free, and not before; never if that can't help.
func TestTooFewCPUs(t *testing.T) {
	r := resizing(t)
	r.tells(wants(podspec.API, guaranteed("3", 2)), hasNo(2, 7, false), wants(podspec.API, guaranteed("3", 2)))
	r.want("it waits", []string{"event:", "assignments:"}, "assignments: resize a", "event: a ResizeDeferred")
	r.tells(podset.Placed{Answer: assignments.Answer{Shared: cpuset.New(0), Version: 8}})
	r.want("something is free", []string{"event:", "assignments:"}, "assignments: resize a")
	r.tells(hasNo(3, 8, true))
	r.want("it is not enough", []string{"event:", "assignments:"}, "event: a ResizeInfeasible")
	r.tells(podset.Placed{Answer: assignments.Answer{Shared: cpuset.New(0), Version: 9}})
	r.want("and never will be", []string{"event:", "assignments:"})
	r.tells(wants(podspec.API, guaranteed("2", 3)))
	r.want("it asks for another number", []string{"event:", "assignments:"}, "assignments: resize a")
	r.tells(owns(4, "1-2", false))
	r.want("it gets that", []string{"event:"}, "event: a ResizeStarted")
}

// TestCPUsThatAreNotWantedAnyMore are given back. No container was told of them.
func TestCPUsThatAreNotWantedAnyMore(t *testing.T) {
	for name, now := range map[string]*v1.Pod{"as before": guaranteed("1", 3), "others": guaranteed("2", 3), "too many": guaranteed("5", 3)} {
		t.Run(name, func(t *testing.T) {
			r := resizing(t)
			r.tells(wants(podspec.API, guaranteed("3", 2)), wants(podspec.API, now), owns(2, "1-3", false))
			r.want("they are given back", []string{"assignments:"}, "assignments: resize a", "assignments: place a, on app 1")
			r.tells(owns(3, "1", false))
			if name == "others" {
				r.want("it asks for others", []string{"assignments:"}, "assignments: resize a")
			} else {
				r.want("that is all", []string{"assignments:"})
			}
		})
	}
}

// TestGrantedToAPodThatEnds: it gives back all.
func TestGrantedToAPodThatEnds(t *testing.T) {
	r := resizing(t)
	r.saves.Silent = true
	r.tells(wants(podspec.API, guaranteed("3", 2)), owns(2, "1-3", false), ends("a", 0, 1))
	r.answers()
	r.want("it is released", []string{"assignments:"}, "assignments: resize a", "assignments: release a")
	r.tells(owns(2, "1-3", false))
	r.want("and stays so", []string{"assignments:"})
}

// TestWriteOfAnAllocationFails: the containers stay where they are until it is written.
func TestWriteOfAnAllocationFails(t *testing.T) {
	r := resizing(t)
	r.diskErr = errors.New("disk full")
	r.tells(wants(podspec.API, guaranteed("3", 2)), owns(2, "1-3", false))
	r.want("not written", []string{"a:"}, "a: assign, look, on 0 and app 1")
	r.diskErr = nil
	r.Advance(5 * time.Second)
	r.want("written", []string{"a:"}, "a: assign, look, on 0 and app 1-3, and says when as 2")
}

// TestWhatAnEarlierAgentLeft: the state file has more than the allocation. The rest is given back when it is left.
func TestWhatAnEarlierAgentLeft(t *testing.T) {
	r := newRig(t, 0, resizable, placing, func(r *rig) { r.places.CPUs, r.places.Resizes = true, true })
	r.tells(node, r.listed("a"), has(podspec.File, ""), wants(podspec.API, guaranteed("1", 1)), owns(1, "1", true), owns(1, "1", true))
	r.want("it is told", []string{"a:"}, "a: assign, 1 sandboxes, on 0 and app 1, and says when as 1")
	r.tells(inPlace("a", 1))
	r.want("it has left", []string{"assignments:", "event:"}, "assignments: place a, on app 1")
	r.tells(owns(2, "1-2", false))
	r.want("there is more now", []string{"a:"}, "a: assign, look, on 0 and app 1-2, and says when as 2")
}
