package apipods_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/apipods"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/actors/status"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the apipods actor on a virtual clock. The rig plays the apiserver, pods, status and mirrors, and
// writes down what each is told.
type rig struct {
	*actortest.Rig
	*actortest.Watches
	actor *actortest.Actor[apipods.Message]
	// updates are all that pods was told.
	updates []sources.Update
}

const (
	retry    = time.Second
	patience = time.Minute
)

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t)}
	r.Watches = r.NewWatches()
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[apipods.Message]{Name: "apipods", MailboxLimit: 8, New: apipods.New(&apipods.Deps{
		API: r, NodeName: "n1", Retry: retry, Patience: patience,
		Update: func(u sources.Update) {
			r.updates = append(r.updates, u)
			line := "pods, from " + string(u.Source) + ":" + names(u.Pods)
			if !u.Seen {
				line += ", not read yet"
			}
			r.Say("%s", line)
		},
		Forced:  func(uid types.UID) { r.Say("pods: forced %s", uid) },
		Renewed: func(p *v1.Pod) { r.Say("pods: renewed %s %s", p.Name, p.ResourceVersion) },
		Object:  r.object,
		Objects: func(all status.Objects) {
			for _, o := range all.All {
				r.object(o)
			}
		},
		Gone:    func(uid types.UID) { r.Say("status: gone %s", uid) },
		Mirrors: func(list []*v1.Pod, _ bool) { r.Say("mirrors:%s", names(list)) },
	})})
	r.Settle()
	return r
}

func (r *rig) object(o status.Object) {
	line := "status: " + o.Pod.Name + " " + o.Pod.ResourceVersion
	if o.Restored {
		line += ", restored"
	}
	r.Say("%s", line)
}

// listed is a rig after the first list.
func listed(t *testing.T, pods ...*v1.Pod) *rig {
	t.Helper()
	r := newRig(t)
	r.Tell(all(pods...))
	r.Forget()
	return r
}

// made is version 5 of a pod, its name also its UID, which runs. changes make it another version.
func made(name string, changes ...func(p *v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "5", Generation: 1,
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	for _, f := range changes {
		f(p)
	}
	return p
}

func version(v string) func(p *v1.Pod) { return func(p *v1.Pod) { p.ResourceVersion = v } }

func uid(uid types.UID) func(p *v1.Pod) { return func(p *v1.Pod) { p.UID = uid } }

// mirror makes the pod one that stands for a static one.
func mirror(p *v1.Pod) { p.Annotations = map[string]string{podspec.AnnotationMirror: "hash"} }

func all(pods ...*v1.Pod) port.APIReplaced {
	var c port.APIReplaced
	for _, p := range pods {
		c.Objects = append(c.Objects, p)
	}
	return c
}

func set(p *v1.Pod) port.APISet { return port.APISet{Object: p} }

func deleted(p *v1.Pod) port.APIDeleted { return port.APIDeleted{Object: p} }

func names(pods []*v1.Pod) (out string) {
	for _, p := range pods {
		out += " " + p.Name
	}
	return out
}
