package chaos

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestWitness: what operations wait for, and what is missing, follows from what is shown.
func TestWitness(t *testing.T) {
	w, a, app := NewHistory(parse(t, "create a main=app app.run-for=1s")), plan.Role{Pod: "a"}, plan.Role{Pod: "a", Container: "app"}
	now := time.Unix(1000, 0)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Annotations: map[string]string{simcri.AnnotationPrefix + "app.run-for": "1s"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}}},
	}
	w.Want("a", pod, false, now)
	if w.Missing() != "pod a is not shown" || !w.Loops("a") || w.Loops("b") {
		t.Errorf("%q, loops: %v, %v", w.Missing(), w.Loops("a"), w.Loops("b"))
	}
	ref := observed.PodRef{Name: "a", UID: "u"}
	change := func(kind observed.EventKind, id, container string) {
		w.Changed(simcri.Transition{Kind: kind, Pod: ref, ID: id, Sandbox: "s", Container: container})
	}
	for _, of := range [][2]string{{"s", ""}, {"c", "app"}} {
		change(observed.ContainerCreatedEvent, of[0], of[1])
		change(observed.ContainerStartedEvent, of[0], of[1])
	}
	pod.Status = v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
	w.Shown(pod, false, now)
	if w.Missing() != "" || !w.Is(a, plan.Ready) || !w.Is(app, plan.Running) || w.RunningID(app) != "c" || w.ReadySandbox("a") != "s" {
		t.Errorf("%q, %q, %q", w.Missing(), w.RunningID(app), w.ReadySandbox("a"))
	}
	w.Unwant("a")
	pod.DeletionTimestamp = &metav1.Time{Time: now}
	w.Shown(pod, false, now)
	check.Equal(t, w.Missing(), "pod a is still shown", "it")
	w.Shown(pod, true, now)
	if w.Missing() != "the runtime still has 2 objects of pod a" || w.Is(a, plan.Gone) {
		t.Error(w.Missing())
	}
	change(observed.ContainerDeletedEvent, "c", "app")
	change(observed.ContainerDeletedEvent, "s", "")
	if w.Missing() != "" || !w.Is(a, plan.Gone) {
		t.Error(w.Missing())
	}
}
