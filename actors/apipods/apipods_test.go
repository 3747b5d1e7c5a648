package apipods_test

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/apipods"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

const watchBegun = "watch Pod spec.nodeName=n1"

// TestFirstList: nothing is told before it. Pods are in order of age and name; mirror pods are kept apart.
func TestFirstList(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(apipods.Resend{})
	r.Want("the start", watchBegun)
	young := made("a-young", func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(actortest.Begin) })
	r.Tell(all(young, made("web"), made("static-n1", mirror), made("db")))
	r.Want("the list", "status: db 5", "status: web 5", "status: a-young 5", "pods, from api: db web a-young", "mirrors: static-n1")
}

func TestNoPods(t *testing.T) {
	r := newRig(t)
	r.Tell(all())
	r.Want("an empty list is an answer, too", watchBegun, "pods, from api:", "mirrors:")
}

// TestChanges is what each kind of change of the pod web is to the others.
func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change port.APIChange
		want   []string
	}{
		"another pod": {set(made("db")), []string{"status: db 5", "pods, from api: db web"}},
		"another spec": {
			set(made("web", version("6"), func(p *v1.Pod) { p.Generation = 2 })), []string{"status: web 6", "pods, from api: web"},
		},
		"an echo of a status that the node wrote": {
			set(made("web", version("6"), func(p *v1.Pod) { p.Status.PodIP = "10.0.0.1" })), []string{"status: web 6"},
		},
		"the same version again": {set(made("web")), []string{"status: web 5"}},
		"a status with another phase": {
			set(made("web", version("6"), func(p *v1.Pod) { p.Status.Phase = v1.PodPending })),
			[]string{"status: web 6", "pods: renewed web 6"},
		},
		"a status that is not ready": {
			set(made("web", version("6"), func(p *v1.Pod) { p.Status.Conditions[0].Status = v1.ConditionFalse })),
			[]string{"status: web 6", "pods: renewed web 6"},
		},
		"it has ended": {
			set(made("web", version("6"), func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })),
			[]string{"status: web 6", "pods, from api: web"},
		},
		"a readiness gate of somebody else": {
			set(made("web", version("6"), func(p *v1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: "example.com/gate", Status: v1.ConditionTrue})
			})), []string{"status: web 6", "pods, from api: web"},
		},
		"it is to be deleted": {
			set(made("web", version("6"), func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: actortest.Begin} })),
			[]string{"status: web 6", "pods, from api: web"},
		},
		"an older version: the apiserver was set back": {
			set(made("web", version("4"))), []string{"status: web 4, restored"},
		},
		"it is gone, deleted by force": {
			deleted(made("web", version("6"), func(p *v1.Pod) {
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: actortest.Begin}, new(int64(0))
			})), []string{"pods: forced web", "status: gone web", "pods, from api:"},
		},
		"it is gone":               {deleted(made("web")), []string{"status: gone web", "pods, from api:"}},
		"a stranger is gone":       {deleted(made("db")), nil},
		"a predecessor is gone":    {deleted(made("web", uid("before"))), nil},
		"a successor of its name":  {set(made("web", uid("next"))), []string{"status: gone web", "status: web 5", "pods, from api: web"}},
		"another mirror pod":       {set(made("static-n2", mirror)), []string{"mirrors: static-n1 static-n2"}},
		"a mirror pod is gone":     {deleted(made("static-n1", mirror)), []string{"mirrors:"}},
		"an old mirror pod's end":  {deleted(made("static-n1", mirror, uid("before"))), nil},
		"it becomes a mirror pod":  {set(made("web", mirror)), []string{"status: gone web", "pods, from api:", "mirrors: static-n1 web"}},
		"a mirror pod becomes one": {set(made("static-n1")), []string{"mirrors:", "status: static-n1 5", "pods, from api: static-n1 web"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := listed(t, made("web"), made("static-n1", mirror))
			r.Tell(c.change)
			r.Want(name, c.want...)
		})
	}
}

// TestDeletedTwice: the second time there is nothing to tell.
func TestDeletedTwice(t *testing.T) {
	r := listed(t, made("web"))
	r.Tell(deleted(made("web")), deleted(made("web")))
	r.Want("twice", "status: gone web", "pods, from api:")
}

// TestNoPodIsStatic: a user who writes that a pod comes from a manifest does not make it static.
func TestNoPodIsStatic(t *testing.T) {
	claims := func(p *v1.Pod) { p.Annotations = map[string]string{podspec.AnnotationSource: "file"} }
	given := made("web", claims)
	r := listed(t, given)
	r.Tell(set(made("db", claims)))
	for _, p := range r.updates[len(r.updates)-1].Pods {
		if podspec.Static(p) {
			t.Errorf("%s is taken for static", p.Name)
		}
	}
	if !podspec.Static(given) {
		t.Error("the apiserver's own object was changed")
	}
}

// TestUpdatesAreValues: what pods was told stays as it was told.
func TestUpdatesAreValues(t *testing.T) {
	r := listed(t, made("db"), made("web"))
	first := r.updates[0]
	r.Tell(set(made("app")), set(made("web", version("6"), func(p *v1.Pod) { p.Generation = 2 })), deleted(made("db")))
	check.Count(t, names(r.updates[len(r.updates)-1].Pods), " app web", "the last update has%s, want app web")
	if names(first.Pods) != " db web" || first.Pods[1].ResourceVersion != "5" {
		t.Errorf("the first update has become%s, web in version %s", names(first.Pods), first.Pods[1].ResourceVersion)
	}
}

// TestBroken: while the apiserver cannot be heard the pods stay. What was missed comes with a list.
func TestBroken(t *testing.T) {
	r := listed(t, made("db"), made("web"), made("old", version("9")))
	refused := port.APIBroken{Err: errors.New("connection refused")}
	r.Tell(refused)
	r.actor.Tell(apipods.Resend{})
	r.Want("pods ask", "pods, from api: db old web", "mirrors:", "status: db 5", "status: old 9", "status: web 5")
	r.Tell(all(made("db", uid("next")), made("old", version("8")), made("new")))
	r.Want("one is gone, one another, one set back, and one new",
		"status: gone db", "status: gone web", "status: db 5", "status: new 5", "status: old 8, restored",
		"pods, from api: db new old", "mirrors:")
	r.Tell(refused, set(made("web")))
	r.Want("it goes on without a list", "status: web 5", "pods, from api: db new old web")
	failed, works := r.Logged("the watch of pods failed"), r.Logged("the watch of pods works again")
	if failed != 2 || works != 2 {
		t.Errorf("logged %d times that it failed and %d times that it works, want 2 each: %s", failed, works, &r.Log)
	}
}

// TestWatchEnds: another one is begun after a moment, and what the first one still says is old.
func TestWatchEnds(t *testing.T) {
	r := listed(t, made("web"))
	first := r.Newest()
	first.Ended(errors.New("unauthorized"))
	r.Advance(retry - time.Millisecond)
	r.Want("too early")
	r.Advance(time.Millisecond)
	r.Want("the pause is over", watchBegun)
	first.Change(deleted(made("web")))
	r.Want("the first one is late")
	r.Tell(all(made("web")))
	r.Want("the second one lists", "status: web 5", "pods, from api: web", "mirrors:")
	r.Newest().Ended(nil)
	r.Advance(retry)
	r.Want("once more", watchBegun)
}

// TestRefused: as long as no watch stands, one is tried in each period, and nothing is told to anybody.
func TestRefused(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.Want("a try", watchBegun)
		r.Newest().Ended(errors.New("forbidden"))
		r.Advance(retry)
	}
	r.Want("the last try", watchBegun)
	r.Tell(all(made("web")))
	r.Want("it stands", "status: web 5", "pods, from api: web", "mirrors:")
}

// TestSilentWatch: one that says nothing at all is given up for another. One that says at least that it is
// broken continues by itself.
func TestSilentWatch(t *testing.T) {
	r := newRig(t)
	first := r.Newest()
	r.Advance(patience)
	r.Want("patience ends", watchBegun, watchBegun)
	if first.Context.Err() == nil {
		t.Error("the first watch was not ended")
	}
	first.Change(all(made("web")))
	first.Ended(first.Context.Err())
	r.Advance(patience / 2)
	r.Want("the first one is late")
	r.Tell(port.APIBroken{Err: errors.New("connection refused")})
	r.Advance(10 * patience)
	r.Want("the second one is heard")
}

// TestOverflow: a change that does not fit into the mailbox is lost, so that another watch lists all again.
// What the old one told, and waits in the mailbox, is old.
func TestOverflow(t *testing.T) {
	r := listed(t, made("web"))
	first := r.Newest()
	for range 9 { // the mailbox has room for eight
		first.Change(set(made("db")))
	}
	r.Want("one more than there is room for", watchBegun)
	if first.Context.Err() == nil {
		t.Error("the first watch was not ended")
	}
	r.Tell(all(made("db"), made("web")))
	r.Want("the list", "status: db 5", "status: web 5", "pods, from api: db web", "mirrors:")
}

// TestResend: asked twice, it is told twice.
func TestResend(t *testing.T) {
	r := listed(t, made("web"), made("static-n1", mirror))
	r.actor.Tell(apipods.Resend{})
	r.actor.Tell(apipods.Resend{})
	r.Want("twice", "pods, from api: web", "mirrors: static-n1", "status: web 5",
		"pods, from api: web", "mirrors: static-n1", "status: web 5")
}

// TestActorRestart: the second incarnation knows nothing, and begins a watch in place of the first one's.
func TestActorRestart(t *testing.T) {
	r := listed(t, made("web"))
	first := r.Newest()
	r.actor.Crash()
	r.actor.Tell(apipods.Resend{})
	r.Advance(retry)
	r.Want("the crash", watchBegun)
	if first.Context.Err() == nil {
		t.Error("the first watch was not ended")
	}
	first.Change(deleted(made("web")))
	r.actor.Tell(apipods.Resend{})
	r.Want("nothing is known")
	r.Tell(all(made("web")))
	r.Want("the list", "status: web 5", "pods, from api: web", "mirrors:")
}
