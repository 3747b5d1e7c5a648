package gc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the actor alone, on a virtual clock. The rig plays pods, the runtime, the
// host and the directory of links.
type rig struct {
	*actortest.Rig
	port.Runtime
	port.Host
	actor *actortest.Actor[Message]
	deps  *Deps
	// pods are what the runtime has, living those that pods knows; false if nothing of one has to stay.
	pods   []observed.RuntimePod
	living map[types.UID]bool
	dirs   []types.UID // of pods, on the host
	ended  []types.UID // are false in living if it is asked with them
	unseen bool        // a source has not reported
	// listErr is what the runtime answers to a list of all pods instead.
	listErr error
	err     error // of what is asked of links
	// podDirs and removeContainer answer instead of the rig, if they are there.
	podDirs         func(func([]types.UID, error))
	removeContainer func(context.Context, string, func(error))
	// conflict is what is said to the removal of directories, until they are unmounted.
	conflict error
	// restarted is how often pods were asked to say everything again.
	restarted int
}

const gcPeriod = time.Minute

func newRig(t *testing.T, pods ...observed.RuntimePod) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), pods: pods, living: map[types.UID]bool{}}
	for _, p := range pods {
		r.living[p.Ref.UID] = true
	}
	r.deps = &Deps{
		Runtime: r, Host: r, LogLinks: r, Events: r, Node: "n1", Restarted: func() { r.restarted++ },
		Logs: prunedLogs{rig: r}, Living: r.asked,
		Abandoned: func(uid types.UID) { r.Say("abandoned %s", uid) },
		Collected: func(uid types.UID, _ bool) { r.Say("collected %s", uid) },
		Policy:    podgc.Default(), Period: gcPeriod, Deadline: time.Minute,
		Backoff: backoff.Policy{Base: time.Second, Max: time.Minute},
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[Message]{
		Name: "gc", MailboxLimit: 8, Runner: r.Runner(pod.Pools(2, 2)...), Policy: kernel.ForPods, New: New(r.deps),
	})
	return r
}

// asked answers for pods.
func (r *rig) asked(ended bool, reply func(map[types.UID]bool, bool)) {
	living := maps.Clone(r.living)
	for _, uid := range r.ended {
		living[uid] = !ended
	}
	reply(living, !r.unseen)
}

// prunedLogs writes down of which pods logs go.
type prunedLogs struct {
	port.ContainerLogs
	*rig
}

func (l prunedLogs) PruneLogs(_ context.Context, oldest []port.LogRef, done func(error)) {
	for _, o := range oldest {
		l.Say("logs %s before %d", o.UID, o.Attempt)
	}
	l.Soon(func() { done(nil) })
}

// pod is one with a container of that many incarnations, the last of which runs.
func podWith(name string, incarnations uint32) observed.RuntimePod {
	ref := observed.PodRef{UID: types.UID(name), Namespace: "default", Name: name}
	p := observed.RuntimePod{Ref: ref}
	for n := range incarnations {
		c := observed.Container{ID: name + string(rune('0'+n)), Name: "app", Attempt: n, State: observed.ContainerExited}
		if n == incarnations-1 {
			c.State = observed.ContainerRunning
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) { r.Say("event of %s: %s %s", e.Node, e.Reason, e.Message) }

func (r *rig) List(_ context.Context, uid string, done func(observed.Runtime, error)) {
	list, err := observed.Runtime{Pods: slices.Clone(r.pods)}, r.listErr
	if uid != "" {
		err = nil
	}
	r.Soon(func() { done(list, err) })
}

func (r *rig) RemoveContainer(ctx context.Context, id string, done func(error)) {
	r.Say("remove %s", id)
	if r.removeContainer != nil {
		r.removeContainer(ctx, id, done)
		return
	}
	for i := range r.pods {
		p := &r.pods[i].Pod
		p.Containers = slices.DeleteFunc(slices.Clone(p.Containers), func(c observed.Container) bool { return c.ID == id })
	}
	r.Soon(func() { done(nil) })
}

func (r *rig) PodDirs(_ context.Context, done func([]types.UID, error)) {
	if r.podDirs != nil {
		r.podDirs(done)
		return
	}
	dirs := slices.Clone(r.dirs)
	r.Soon(func() { done(dirs, nil) })
}

func (r *rig) RemovePod(_ context.Context, p port.PodDirs, done func(error)) {
	r.Say("directories %s", p.UID)
	err := r.conflict
	r.Soon(func() { done(err) })
}

func (r *rig) UnmountPod(_ context.Context, uid types.UID, done func(error)) {
	r.Say("unmount %s", uid)
	r.conflict = nil
	r.Soon(func() { done(nil) })
}

func (r *rig) LinkLog(context.Context, port.LinkedLog, func(error)) {
	panic("that is for pods to ask")
}

func (r *rig) UnlinkLog(_ context.Context, log port.LinkedLog, done func(error)) {
	r.Say("unlink %s %s", log.ID, log)
	r.Soon(func() { done(r.err) })
}

func (r *rig) TidyLogLinks(_ context.Context, logs []port.LinkedLog, done func(error)) {
	call := "tidy"
	for _, l := range logs {
		call += " " + l.ID + " " + l.String()
	}
	r.Say("%s", call)
	r.Soon(func() { done(r.err) })
}

func (r *rig) wants(d time.Duration, want ...string) {
	r.T.Helper()
	r.Forget()
	r.WantAfter("calls", d, want...)
}

// TestLinksAreTidied: at the start and in each sweep, of all that the runtime has
// and keeps. Those of containers that go, go with them; the newest of a pod goes last.
func TestLinksAreTidied(t *testing.T) {
	r := newRig(t, podWith("web", 3), podWith("one", 1))
	const one, two, three, other = "web0 default_web_web/app/0.log", "web1 default_web_web/app/1.log", "web2 default_web_web/app/2.log", "one0 default_one_one/app/0.log"
	r.wants(early/2, "tidy "+one+" "+two+" "+three+" "+other)
	r.wants(early, "remove web0", "tidy "+two+" "+three+" "+other, "unlink "+one)
	delete(r.living, "web")
	r.actor.Tell(Collect{Ref: r.pods[0].Ref})
	r.wants(early/3, "remove web1", "unlink "+two, "remove web2", "unlink "+three, "directories web", "collected web")
	r.pods = r.pods[1:]
	r.wants(gcPeriod, "tidy "+other)
}

// TestLinksOfWhatIsBeingRemoved: a sweep makes none for a pod whose removal rests.
func TestLinksOfWhatIsBeingRemoved(t *testing.T) {
	r := newRig(t, podWith("web", 1), podWith("one", 1))
	r.actor.Tell(Collect{Ref: r.pods[0].Ref})
	r.wants(rest/2, "tidy one0 default_one_one/app/0.log")
}

// TestTroubleWithLinksIsToldOnce: and again when it comes back. It keeps nothing
// from being removed.
func TestTroubleWithLinksIsToldOnce(t *testing.T) {
	r := newRig(t, podWith("web", 2))
	r.err = errors.New("mkdir /var/log/containers: read-only file system")
	told := func() int {
		return r.Logged(`"error":"mkdir /var/log/containers: read-only file system","message":"cannot update the symlinks to container logs`)
	}
	r.Advance(5 * gcPeriod)
	if told() != 1 {
		t.Errorf("told %d times: %s", told(), r.Log.String())
	}
	r.actor.Tell(Collect{Ref: r.pods[0].Ref})
	if r.Advance(gcPeriod); r.Count("collected web") == 0 {
		t.Errorf("not collected: %q", r.Lines())
	}
	r.err = nil
	r.Advance(2 * gcPeriod)
	r.err = errors.New("mkdir /var/log/containers: read-only file system")
	r.Advance(5 * gcPeriod)
	if told() != 2 || strings.Count(r.Log.String(), "\n") != 2 {
		t.Errorf("told %d times: %s", told(), r.Log.String())
	}
}
