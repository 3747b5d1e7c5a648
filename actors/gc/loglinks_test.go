package gc

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// rig is the actor alone, on a virtual clock. The rig plays pods, the runtime, the
// host and the directory of links.
type rig struct {
	*kernel.Virtual
	port.Runtime
	port.Host
	t   *testing.T
	ref kernel.Ref[Message]
	// pods are what the runtime has, living those that are not done with.
	pods   []observed.RuntimePod
	living map[types.UID]bool
	calls  []string
	err    error // of what is asked of links
	// restarted is how often pods were asked to say everything again.
	restarted int
	log       bytes.Buffer
}

const gcPeriod = time.Minute

func newRig(t *testing.T, pods ...observed.RuntimePod) *rig {
	t.Helper()
	r := &rig{t: t, Virtual: kernel.NewVirtual(1, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)), pods: pods, living: map[types.UID]bool{}}
	for _, p := range pods {
		r.living[p.Ref.UID] = true
	}
	sys, err := kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1, Log: zerolog.New(&r.log)})
	if err != nil {
		t.Fatal(err)
	}
	runner, err := kernel.NewRunner(sys, pod.Pools(2, 2)...)
	if err != nil {
		t.Fatal(err)
	}
	r.ref, err = kernel.SpawnRoot(sys, kernel.Spec[Message]{Name: "gc", MailboxLimit: 8, Runner: runner, Policy: kernel.ForPods, New: New(&Deps{
		Runtime: r, Host: r, LogLinks: r, Restarted: func() { r.restarted++ },
		Living:    func(reply func(map[types.UID]bool)) { reply(r.living) },
		Collected: func(uid types.UID, _ bool) { r.calls = append(r.calls, "collected "+string(uid)) },
		Policy:    podgc.Default(), Period: gcPeriod, Deadline: time.Minute,
		Backoff: backoff.Policy{Base: time.Second, Max: time.Minute},
	})})
	if err != nil {
		t.Fatal(err)
	}
	return r
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

// soon is when the answers come.
func (r *rig) soon(f func()) { r.AfterFunc(time.Millisecond, f) }

func (r *rig) List(_ context.Context, uid string, done func(observed.Runtime, error)) {
	list := observed.Runtime{Pods: slices.Clone(r.pods)}
	r.soon(func() { done(list, nil) })
}

func (r *rig) RemoveContainer(_ context.Context, id string, done func(error)) {
	r.calls = append(r.calls, "remove "+id)
	for i := range r.pods {
		p := &r.pods[i].Pod
		p.Containers = slices.DeleteFunc(slices.Clone(p.Containers), func(c observed.Container) bool { return c.ID == id })
	}
	r.soon(func() { done(nil) })
}

func (r *rig) PodDirs(_ context.Context, done func([]types.UID, error)) {
	r.soon(func() { done(nil, nil) })
}

func (r *rig) RemovePod(_ context.Context, p port.PodDirs, done func(error)) {
	r.calls = append(r.calls, "directories "+string(p.UID))
	r.soon(func() { done(nil) })
}

func (r *rig) LinkLog(context.Context, port.LinkedLog, func(error)) {
	panic("that is for pods to ask")
}

func (r *rig) UnlinkLog(_ context.Context, log port.LinkedLog, done func(error)) {
	r.calls = append(r.calls, "unlink "+log.ID+" "+log.String())
	r.soon(func() { done(r.err) })
}

func (r *rig) TidyLogLinks(_ context.Context, logs []port.LinkedLog, done func(error)) {
	call := "tidy"
	for _, l := range logs {
		call += " " + l.ID + " " + l.String()
	}
	r.calls = append(r.calls, call)
	r.soon(func() { done(r.err) })
}

func (r *rig) wants(d time.Duration, want ...string) {
	r.t.Helper()
	r.calls = nil
	r.RunUntil(r.Now().Add(d), func() bool { return false })
	if !slices.Equal(r.calls, want) {
		r.t.Errorf("calls\n%s\nwant\n%s", strings.Join(r.calls, "\n"), strings.Join(want, "\n"))
	}
}

// TestLinksAreTidied: at the start and in each sweep, of all that the runtime has
// and keeps. Those of containers that go, go with them; the newest of a pod goes last.
func TestLinksAreTidied(t *testing.T) {
	r := newRig(t, podWith("web", 3), podWith("one", 1))
	const one, two, three, other = "web0 default_web_web/app/0.log", "web1 default_web_web/app/1.log", "web2 default_web_web/app/2.log", "one0 default_one_one/app/0.log"
	r.wants(gcPeriod/2, "tidy "+one+" "+two+" "+three+" "+other)
	r.wants(gcPeriod, "remove web0", "tidy "+two+" "+three+" "+other, "unlink "+one)
	delete(r.living, "web")
	r.ref.Tell(Collect{Ref: r.pods[0].Ref})
	r.wants(gcPeriod/3, "remove web1", "unlink "+two, "remove web2", "unlink "+three, "directories web", "collected web")
	r.pods = r.pods[1:]
	r.wants(gcPeriod, "tidy "+other)
}

// TestLinksOfWhatIsBeingRemoved: a sweep makes none for a pod whose removal rests.
func TestLinksOfWhatIsBeingRemoved(t *testing.T) {
	r := newRig(t, podWith("web", 1), podWith("one", 1))
	r.ref.Tell(Collect{Ref: r.pods[0].Ref})
	r.wants(rest/2, "tidy one0 default_one_one/app/0.log")
}

// TestTroubleWithLinksIsToldOnce: and again when it comes back. It keeps nothing
// from being removed.
func TestTroubleWithLinksIsToldOnce(t *testing.T) {
	r := newRig(t, podWith("web", 2))
	r.err = errors.New("mkdir /var/log/containers: read-only file system")
	told := func() int {
		return strings.Count(r.log.String(), `"error":"mkdir /var/log/containers: read-only file system","message":"cannot update the symlinks to container logs`)
	}
	run := func(d time.Duration) { r.RunUntil(r.Now().Add(d), func() bool { return false }) }
	run(5 * gcPeriod)
	if told() != 1 {
		t.Errorf("told %d times: %s", told(), r.log.String())
	}
	r.ref.Tell(Collect{Ref: r.pods[0].Ref})
	if run(gcPeriod); !slices.Contains(r.calls, "collected web") {
		t.Errorf("not collected: %q", r.calls)
	}
	r.err = nil
	run(2 * gcPeriod)
	r.err = errors.New("mkdir /var/log/containers: read-only file system")
	run(5 * gcPeriod)
	if told() != 2 || strings.Count(r.log.String(), "\n") != 2 {
		t.Errorf("told %d times: %s", told(), r.log.String())
	}
}
