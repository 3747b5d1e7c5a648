package apipod

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestNext(t *testing.T) {
	ready := with(status("Running", runs("a", 0)), condition(v1.PodReady, v1.ConditionTrue, 1))
	unready := with(status("Running", runs("a", 0)), condition(v1.PodReady, v1.ConditionFalse, 1))
	moved := with(status("Running", runs("a", 0)), condition(v1.PodReady, v1.ConditionTrue, 1))
	moved.PodIP = "10.0.0.1"
	creating := status("Pending", waits("ContainerCreating"))
	created := status("Pending", waits("ContainerCreating"))
	created.ContainerStatuses[0].ContainerID, created.ContainerStatuses[0].ImageID = "a", "sha256:1"
	failing := status("Pending", waits("RunContainerError"))
	failing.ContainerStatuses[0].ContainerID = "a"
	again := status("Pending", waits("ContainerCreating"))
	again.ContainerStatuses[0].ContainerID, again.ContainerStatuses[0].RestartCount = "b", 1
	dead := with(status("Running", runs("a", 0)))
	dead.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, ContainerID: "a"}}
	waiting := status("Running", waits("CrashLoopBackOff"))
	waiting.ContainerStatuses[0].ContainerID = "a"
	anew := status("Running", waits("ContainerCreating"))
	anew.ContainerStatuses[0].ContainerID, anew.ContainerStatuses[0].RestartCount = "b", 1
	anew.ContainerStatuses[0].LastTerminationState = dead.ContainerStatuses[0].State
	addressed := status("Pending", waits("ContainerCreating"))
	addressed.PodIP = "10.0.0.1"
	named := status("Pending", waits("ContainerCreating"))
	named.ContainerStatuses[0].State.Waiting.Message = "waiting for volume data"
	allocated, more := *ready, *moved
	allocated.AllocatedResources = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	more.AllocatedResources = allocated.AllocatedResources
	other := *ready
	other.AllocatedResources = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
	mirror := func(phase v1.PodPhase) *v1.Pod {
		p := &v1.Pod{Status: *status(phase, runs("a", 0))}
		p.Annotations = map[string]string{podspec.AnnotationMirror: "hash"}
		return p
	}
	now := writeStart.Add(time.Hour)
	fresh := func(in *WriteInput) {
		in.Object, in.Want, in.LastWrite = &v1.Pod{Status: v1.PodStatus{Phase: v1.PodPending}}, creating, time.Time{}
		in.Changed, in.Busy, in.Crowded = now, true, true
	}
	when := at(3599)
	deleted := &v1.Pod{Status: *ready}
	deleted.DeletionTimestamp = &when
	seen := *ready.DeepCopy()
	seen.ObservedGeneration++
	for i := range seen.Conditions {
		seen.Conditions[i].ObservedGeneration++
	}
	base := WriteInput{Now: now, Object: &v1.Pod{Status: *ready}, Want: ready, LastWrite: now.Add(-30 * time.Millisecond)}
	for name, c := range map[string]struct {
		change func(*WriteInput)
		want   WriteVerb
		until  time.Time
	}{
		"all is said":           {func(*WriteInput) {}, Rest, time.Time{}},
		"nothing to say":        {func(in *WriteInput) { in.Want = nil }, Rest, time.Time{}},
		"a mirror has ended":    {func(in *WriteInput) { in.Object = mirror(v1.PodFailed) }, Replace, time.Time{}},
		"and may not be newest": {func(in *WriteInput) { in.Object, in.Unread = mirror(v1.PodFailed), true }, Read, time.Time{}},
		"and its pod has too": {func(in *WriteInput) {
			in.Object, in.Want = mirror(v1.PodFailed), status("Failed", runs("b", 1))
		}, Wait, now.Add(70 * time.Millisecond)},
		"a mirror has not ended": {func(in *WriteInput) { in.Object = mirror(v1.PodRunning) }, Write, time.Time{}},
		"nobody to say it of":    {func(in *WriteInput) { in.Object = nil; in.Want = moved }, Rest, time.Time{}},
		"the first at once":      {func(in *WriteInput) { in.Want, in.LastWrite = moved, time.Time{} }, Write, time.Time{}},
		"another a moment later": {func(in *WriteInput) { in.Want = moved }, Wait, now.Add(70 * time.Millisecond)},
		"or when it has passed":  {func(in *WriteInput) { in.Want, in.LastWrite = moved, now.Add(-Coalesce) }, Write, time.Time{}},
		"readiness at once":      {func(in *WriteInput) { in.Want = unready }, Write, time.Time{}},
		"the last at once":       {func(in *WriteInput) { in.Want, in.Final = moved, true }, Write, time.Time{}},
		"more comes of one that goes": {func(in *WriteInput) {
			in.Object, in.Want, in.Changed = deleted, unready, now.Add(-60*time.Millisecond)
		}, Wait, now.Add(40 * time.Millisecond)},
		"but not for ever": {func(in *WriteInput) { in.Object, in.Want, in.Changed = deleted, unready, now.Add(-Coalesce) }, Write, time.Time{}},
		"while it is busy much more": {func(in *WriteInput) {
			in.Object, in.Want, in.Changed, in.Busy = deleted, unready, now.Add(-60*time.Millisecond), true
		}, Wait, now.Add(Relook)},
		"and not for ever then": {func(in *WriteInput) {
			in.Object, in.Want, in.Changed, in.Busy = deleted, unready, now.Add(-HoldEnd), true
		}, Write, time.Time{}},
		"that its deletion was seen longer": {func(in *WriteInput) {
			in.Object, in.Want, in.Changed, in.Busy = deleted, &seen, now.Add(time.Millisecond-HoldSeen), true
		}, Wait, now.Add(time.Millisecond)},
		"and not for ever either": {func(in *WriteInput) {
			in.Object, in.Want, in.Changed, in.Busy = deleted, &seen, now.Add(-HoldSeen), true
		}, Write, time.Time{}},
		"and a while if little is written": {func(in *WriteInput) {
			in.Object, in.Want, in.Changed = deleted, &seen, now.Add(time.Millisecond-CoalesceSeen)
		}, Wait, now.Add(time.Millisecond)},
		"which has an end": {func(in *WriteInput) {
			in.Object, in.Want, in.Changed = deleted, &seen, now.Add(-CoalesceSeen)
		}, Write, time.Time{}},
		"nor that anything else was seen": {func(in *WriteInput) {
			in.Want, in.LastWrite, in.Changed, in.Busy = &seen, time.Time{}, now, true
		}, Write, time.Time{}},
		"and its end at once": {func(in *WriteInput) {
			in.Object, in.Want, in.Changed, in.Busy, in.Final = deleted, unready, now, true, true
		}, Write, time.Time{}},
		"the last of it":            {func(in *WriteInput) { in.Object, in.Want, in.Changed, in.Final = deleted, unready, now, true }, Write, time.Time{}},
		"not that it was only made": {func(in *WriteInput) { in.Object, in.Want = &v1.Pod{Status: *creating}, created }, Rest, time.Time{}},
		"but that it was started":   {func(in *WriteInput) { in.Object, in.Want = &v1.Pod{Status: *creating}, ready }, Write, time.Time{}},
		"and why it was not": {func(in *WriteInput) {
			in.Object, in.Want, in.LastWrite = &v1.Pod{Status: *creating}, failing, time.Time{}
		}, Write, time.Time{}},
		"and that it was made anew":                                     {func(in *WriteInput) { in.Object, in.Want, in.LastWrite = &v1.Pod{Status: *created}, again, time.Time{} }, Write, time.Time{}},
		"nor what it was allocated, which an earlier agent did not say": {func(in *WriteInput) { in.Want, in.LastWrite = &allocated, time.Time{} }, Rest, time.Time{}},
		"which is said with the next thing":                             {func(in *WriteInput) { in.Want, in.LastWrite = &more, time.Time{} }, Write, time.Time{}},
		"but that it was allocated another amount": {func(in *WriteInput) {
			in.Object, in.Want, in.LastWrite = &v1.Pod{Status: other}, &allocated, time.Time{}
		}, Write, time.Time{}},
		"not that one will run again":  {func(in *WriteInput) { in.Object, in.Want = &v1.Pod{Status: *dead}, anew }, Rest, time.Time{}},
		"nor that its time has come":   {func(in *WriteInput) { in.Object, in.Want = &v1.Pod{Status: *waiting}, anew }, Rest, time.Time{}},
		"but that one runs no more":    {func(in *WriteInput) { in.Object, in.Want, in.LastWrite = &v1.Pod{Status: *ready}, anew, time.Time{} }, Write, time.Time{}},
		"and if it is the last word":   {func(in *WriteInput) { in.Object, in.Want, in.Final = &v1.Pod{Status: *creating}, created, true }, Write, time.Time{}},
		"that it is on its way later":  {fresh, Wait, now.Add(Relook)},
		"without a crowd what is seen": {func(in *WriteInput) { fresh(in); in.Crowded = false }, Write, time.Time{}},
		"but nothing else of its way": {func(in *WriteInput) {
			fresh(in)
			in.Object, in.Want, in.Crowded = &v1.Pod{Status: *creating}, addressed, false
		}, Wait, now.Add(Relook)},
		"longer if nobody sees it": {func(in *WriteInput) {
			fresh(in)
			in.Object, in.Want, in.Changed = &v1.Pod{Status: *creating}, addressed, now.Add(time.Millisecond-Hold)
		}, Wait, now.Add(time.Millisecond)},
		"but not for ever either": {func(in *WriteInput) {
			fresh(in)
			in.Object, in.Want, in.Changed = &v1.Pod{Status: *creating}, addressed, now.Add(-Hold)
		}, Write, time.Time{}},
		"but not for ever on its way":   {func(in *WriteInput) { fresh(in); in.Changed = now.Add(-HoldShown) }, Write, time.Time{}},
		"nor much longer":               {func(in *WriteInput) { fresh(in); in.Changed = now.Add(time.Millisecond - HoldShown) }, Wait, now.Add(time.Millisecond)},
		"nor if little is written":      {func(in *WriteInput) { fresh(in); in.Busy = false }, Write, time.Time{}},
		"nor if it fails":               {func(in *WriteInput) { fresh(in); in.Want = failing }, Write, time.Time{}},
		"nor if it says what it needs":  {func(in *WriteInput) { fresh(in); in.Want = named }, Write, time.Time{}},
		"nor if it was there before":    {func(in *WriteInput) { fresh(in); in.Want = again }, Write, time.Time{}},
		"nor if it runs":                {func(in *WriteInput) { fresh(in); in.Want = ready }, Write, time.Time{}},
		"nor of another age":            {func(in *WriteInput) { fresh(in); in.Changed = now.Add(time.Hour) }, Write, time.Time{}},
		"nor if it is over":             {func(in *WriteInput) { fresh(in); in.Final = true }, Write, time.Time{}},
		"not before a retry":            {func(in *WriteInput) { in.Want, in.RetryAt = unready, now.Add(time.Second) }, Wait, now.Add(time.Second)},
		"the clock was set back":        {func(in *WriteInput) { in.Want, in.LastWrite = moved, now.Add(time.Hour) }, Write, time.Time{}},
		"a retry in another age":        {func(in *WriteInput) { in.Want, in.RetryAt = unready, now.Add(time.Hour) }, Write, time.Time{}},
		"read what may be newer":        {func(in *WriteInput) { in.Unread, in.Want = true, unready }, Read, time.Time{}},
		"even if all seems said":        {func(in *WriteInput) { in.Unread = true }, Read, time.Time{}},
		"what is not kept is left":      {func(in *WriteInput) { in.Want, in.Settled = moved, true }, Rest, time.Time{}},
		"delete when all is said":       {func(in *WriteInput) { in.Final = true }, Delete, time.Time{}},
		"delete what can't be said":     {func(in *WriteInput) { in.Want, in.Settled, in.Final = moved, true, true }, Delete, time.Time{}},
		"not before a retry of that":    {func(in *WriteInput) { in.Final, in.RetryAt = true, now.Add(time.Second) }, Wait, now.Add(time.Second)},
		"once":                          {func(in *WriteInput) { in.Final, in.Deleted = true, true }, Rest, time.Time{}},
		"nothing of what is gone":       {func(in *WriteInput) { in.Deleted, in.Want = true, unready }, Rest, time.Time{}},
		"no deletion before the status": {func(in *WriteInput) { in.Final, in.Unread = true, true }, Read, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			in := base
			c.change(&in)
			got := NextWrite(in)
			if got.Do != c.want || !got.Until.Equal(c.until) {
				t.Errorf("got %v until %v, want %v until %v", got.Do, got.Until, c.want, c.until)
			}
		})
	}
}

// TestRenews: news of a pod that is being deleted is not in haste because it was
// seen long ago that it is.
func TestRenews(t *testing.T) {
	ready := with(status("Running", runs("a", 0)), condition(v1.PodReady, v1.ConditionTrue, 1))
	seen := ready.DeepCopy()
	seen.ObservedGeneration, seen.Conditions[0].ObservedGeneration = 2, 2
	dead := seen.DeepCopy()
	dead.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "a"}}
	when := at(1)
	alive := &v1.Pod{Status: *ready}
	deleted := &v1.Pod{Status: *ready}
	deleted.DeletionTimestamp = &when
	for name, c := range map[string]struct {
		object     *v1.Pod
		want, next *v1.PodStatus
		renews     bool
	}{
		"news":                     {deleted, seen, dead, true},
		"the same":                 {deleted, seen, seen, false},
		"news after news":          {deleted, dead, dead, false},
		"nothing waited":           {deleted, nil, dead, false},
		"nobody knows the object":  {nil, seen, dead, false},
		"it is not being deleted":  {alive, seen, dead, false},
		"all of it is written now": {&v1.Pod{ObjectMeta: deleted.ObjectMeta, Status: *seen}, seen, dead, false},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, Renews(c.object, c.want, c.next), c.renews, "got")
		})
	}
}

func BenchmarkNothingToWrite(b *testing.B) {
	s := with(status("Running", runs("a", 0)), condition(v1.PodReady, v1.ConditionTrue, 1))
	in := WriteInput{Now: writeStart, Object: &v1.Pod{Status: *s.DeepCopy()}, Want: s}
	for b.Loop() {
		check.Fatal(b, check.Is(NextWrite(in).Do, Rest, "it writes"))
	}
}

// TestRejected: of a last status that was rejected only the phase is written, with what the apiserver has of all else;
// then the pod is deleted. Any other status is written as it is.
func TestRejected(t *testing.T) {
	now := at(60).Time
	for name, c := range map[string]struct {
		have     v1.PodPhase
		rejected uint8
		final    bool
		want     WriteStep
	}{
		"not yet":           {v1.PodRunning, 0, true, WriteStep{Do: Write, Status: *status("Failed", exited("a", 0))}},
		"once":              {v1.PodRunning, 1, true, WriteStep{Do: Write, Status: *status("Failed", runs("a", 0))}},
		"too often":         {v1.PodRunning, MostRejected, true, WriteStep{Do: Delete}},
		"once, has a phase": {v1.PodSucceeded, 1, true, WriteStep{Do: Delete}},
		"not the last one":  {v1.PodRunning, MostRejected, false, WriteStep{Do: Write, Status: *status("Failed", exited("a", 0))}},
	} {
		object := &v1.Pod{Status: *status(c.have, runs("a", 0))}
		object.DeletionTimestamp = new(at(60))
		got := NextWrite(WriteInput{
			Now: now, Object: object, Want: status("Failed", exited("a", 0)), Final: c.final, Rejected: c.rejected,
		})
		check.Deep(t, got, c.want, "%s", name)
	}
}

// TestHold: however long it is busy, what there is to say of a pod is said within
// Hold of its change, and what others wait for at once; of one that is being
// deleted within HoldSeen.
func TestHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := WriteInput{
			Now: writeStart, Busy: true, Crowded: rapid.Bool().Draw(rt, "crowded"), Object: &v1.Pod{Status: *anyStatus(rt, "have")}, Want: anyStatus(rt, "want"), Changed: writeStart,
		}
		most := Hold
		if rapid.Bool().Draw(rt, "deleted") {
			in.Object.DeletionTimestamp, most = new(at(0)), HoldSeen
		}
		_, differs := MergeStatus(in.Object, in.Want)
		rests := NextWrite(WriteInput{Now: in.Now, Object: in.Object, Want: in.Want, Changed: in.Changed}).Do == Rest
		for looks := 0; ; looks++ {
			step := NextWrite(in)
			if !differs || rests {
				check.Fatal(rt, check.Is(step.Do, Rest, "%v although there is nothing to say", step.Do))
				return
			}
			if step.Do == Write {
				if in.Now.After(in.Changed.Add(most)) || most == Hold && looks > 0 && Urgent(&in.Object.Status, &step.Status) {
					rt.Fatalf("written %v after the change", in.Now.Sub(in.Changed))
				}
				return
			}
			if step.Do != Wait || !step.Until.After(in.Now) {
				rt.Fatalf("%v until %v at %v", step.Do, step.Until, in.Now)
			}
			in.Now = step.Until
		}
	})
}

// TestManyContainers: a large status is written less often, and one that replaces another is not looked at before it is
// written, unless clients wait for what is new.
func TestManyContainers(t *testing.T) {
	now := writeStart.Add(time.Hour)
	with := func(n int, phase v1.PodPhase, ready int) *v1.PodStatus {
		s := &v1.PodStatus{Phase: phase}
		for i := range n {
			s.ContainerStatuses = append(s.ContainerStatuses, v1.ContainerStatus{Name: fmt.Sprint(i), Ready: i < ready})
		}
		return s
	}
	for n, want := range map[int]time.Duration{1: Coalesce, 40: Coalesce, 100: 250 * time.Millisecond, 400: time.Second, 3000: time.Second} {
		object := &v1.Pod{Status: *with(n, v1.PodRunning, 0)}
		step := NextWrite(WriteInput{Now: now, Object: object, Want: with(n, v1.PodRunning, 1), LastWrite: now})
		if step.Do != Wait || !step.Until.Equal(now.Add(want)) {
			t.Errorf("%d containers: %v at %v, want to wait until %v", n, step.Do, step.Until, now.Add(want))
		}
		step = NextWrite(WriteInput{Now: now, Object: object, Want: with(n, v1.PodFailed, 1), LastWrite: now})
		check.Equal(t, step.Do, Write, "%d containers: what clients wait for", n)
	}
	many := &v1.Pod{Status: *with(100, v1.PodRunning, 0)}
	for name, c := range map[string]struct {
		object *v1.Pod
		next   *v1.PodStatus
		until  time.Duration
		want   bool
	}{
		"one more":              {many, with(100, v1.PodRunning, 1), 100 * time.Millisecond, true},
		"of few":                {&v1.Pod{Status: *with(3, v1.PodRunning, 0)}, with(3, v1.PodRunning, 1), 50 * time.Millisecond, false},
		"what clients wait for": {many, with(100, v1.PodFailed, 1), 100 * time.Millisecond, false},
		"no look soon":          {many, with(100, v1.PodRunning, 1), time.Second, false},
		"no look any more":      {many, with(100, v1.PodRunning, 1), 0, false},
		"nobody to say it of":   {nil, with(100, v1.PodRunning, 1), 100 * time.Millisecond, false},
	} {
		check.Equal(t, Gathered(c.object, c.next, now, now.Add(c.until)), c.want, "%s: waits for the look", name)
	}
}
