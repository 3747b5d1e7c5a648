package cluster

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// auditor watches all pods of a namespace, and remembers each version that says less than the one
// before it: a restart, a container or pod that is no longer ready, a phase, an address or a state
// that is gone.
type auditor struct {
	mu     sync.Mutex
	last   map[types.UID]*v1.Pod
	writes int
	found  []string
}

func (b *bed) audit(t *testing.T) *auditor {
	t.Helper()
	a := &auditor{last: map[types.UID]*v1.Pod{}}
	list, err := b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		a.last[list.Items[i].UID] = &list.Items[i]
	}
	w, err := b.admin.CoreV1().Pods(b.name).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*v1.Pod); ok {
				a.see(p)
			}
		}
	}()
	return a
}

func (a *auditor) see(p *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.last[p.UID]
	a.last[p.UID] = p
	if old == nil {
		return
	}
	if !podstatus.Equal(&old.Status, &p.Status) {
		a.writes++
	}
	for _, what := range less(old, p) {
		a.found = append(a.found, fmt.Sprintf("pod %s: %s", p.Name, what))
	}
}

func less(old, p *v1.Pod) (found []string) {
	if ready(old) == nil && ready(p) != nil {
		found = append(found, "it is no longer ready")
	}
	if old.Status.Phase != p.Status.Phase {
		found = append(found, fmt.Sprintf("phase %s became %s", old.Status.Phase, p.Status.Phase))
	}
	if old.Status.PodIP != p.Status.PodIP || old.Status.HostIP != p.Status.HostIP {
		found = append(found, fmt.Sprintf("addresses %s %s became %s %s", old.Status.PodIP, old.Status.HostIP, p.Status.PodIP, p.Status.HostIP))
	}
	if len(p.Status.ContainerStatuses) != len(old.Status.ContainerStatuses) || len(p.Status.Conditions) < len(old.Status.Conditions) {
		return append(found, fmt.Sprintf("%d containers, %d conditions", len(p.Status.ContainerStatuses), len(p.Status.Conditions)))
	}
	for i := range p.Status.ContainerStatuses {
		was, is := &old.Status.ContainerStatuses[i], &p.Status.ContainerStatuses[i]
		if was.RestartCount != is.RestartCount || was.ContainerID != is.ContainerID || (was.State.Running == nil) != (is.State.Running == nil) ||
			was.Ready && !is.Ready || (was.LastTerminationState.Terminated == nil) != (is.LastTerminationState.Terminated == nil) {
			found = append(found, fmt.Sprintf("container %+v became %+v", was, is))
		}
	}
	return found
}

// result is what was found, and how many versions had another status.
func (a *auditor) result() ([]string, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.found, a.writes
}

// many makes pods that are ready by probes, and waits until all are.
func (b *bed) many(t *testing.T, n int) map[string]string {
	t.Helper()
	for i := range n {
		b.create(t, b.pod(fmt.Sprintf("web-%d", i), func(s *v1.PodSpec) {
			get := v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}
			s.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: get, PeriodSeconds: 2}
			if i%2 == 0 {
				s.Containers[0].StartupProbe = &v1.Probe{ProbeHandler: get, PeriodSeconds: 1, FailureThreshold: 60}
				s.Containers[0].LivenessProbe = &v1.Probe{ProbeHandler: get, PeriodSeconds: 5}
			}
		}))
	}
	ids := map[string]string{}
	b.await(t, "all pods are ready", func() error {
		list, err := b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			p := &list.Items[i]
			if err := ready(p); err != nil {
				return fmt.Errorf("pod %s: %w: %s", p.Name, err, shown(p))
			}
			ids[p.Name] = running(p)["app"]
		}
		return nil
	})
	return ids
}

// TestKillAgent kills the agent (kill -9) under many pods and starts it again, three times: nobody who
// watches notices.
func TestKillAgent(t *testing.T) {
	t.Parallel()
	const pods, kills = 20, 3
	b := started(t, "kill-agent")
	before := b.many(t, pods)
	world := b.world(t).RunningIDs()
	a := b.audit(t)
	for range kills {
		b.kill(t)
		b.start(t)
		// It is whole again when a new pod comes up.
		b.create(t, b.pod("probe", nil))
		b.awaitPod(t, "probe", "is ready", ready)
		h := b.follow(t, "probe")
		b.remove(t, "probe")
		h.until(t, "it is gone", isGone)
	}
	found, _ := a.result()
	for _, what := range found {
		if !isProbe(what) {
			t.Error(what)
		}
	}
	after := map[string]string{}
	list, err := b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		after[list.Items[i].Name] = running(&list.Items[i])["app"]
	}
	if !maps.Equal(before, after) {
		t.Errorf("containers were %v and are %v", before, after)
	}
	b.await(t, "the runtime has what it had", func() error {
		if got := b.world(t).RunningIDs(); fmt.Sprint(got) != fmt.Sprint(world) {
			return fmt.Errorf("it had %v, and has %v", world, got)
		}
		return nil
	})
}

func isProbe(what string) bool { return len(what) > 10 && what[:10] == "pod probe:" }

// TestApiserverRestarts is an apiserver that is stopped and started: what is asked of it afterwards is
// done, and nobody's readiness suffers. It has the control plane to itself.
func TestApiserverRestarts(t *testing.T) {
	b := started(t, "apiserver-restarts")
	before := b.many(t, 5)
	for name, restart := range map[string]func(context.Context) error{"stopped": b.plane.StopAPIServer, "killed": b.plane.KillAPIServer} {
		if err := restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.plane.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.create(t, b.pod("after-"+name, nil))
		b.awaitPod(t, "after-"+name, "is ready", ready)
	}
	for name, id := range before {
		if p := b.get(t, name); running(p)["app"] != id || ready(p) != nil {
			t.Errorf("pod %s is %s", name, shown(p))
		}
	}
	b.awaitNode(t, "is ready for pods", usable)
}

// TestApiserverAway is an apiserver that is away while containers crash, pods finish, one becomes not
// ready and a manifest is written: within five seconds of its return it knows all of it, and nothing
// was restarted that should not. It has the control plane to itself.
func TestApiserverAway(t *testing.T) {
	b := started(t, "apiserver-away")
	before := b.many(t, 3)
	b.create(t, b.pod("crashes", func(s *v1.PodSpec) { work("sleep 6s then exit 3")(s) }))
	b.create(t, b.pod("finishes", func(s *v1.PodSpec) {
		work("sleep 7s then exit 0")(s)
		s.RestartPolicy = v1.RestartPolicyNever
	}))
	b.create(t, b.pod("fails", func(s *v1.PodSpec) {
		work("sleep 8s then exit 4")(s)
		s.RestartPolicy = v1.RestartPolicyNever
	}))
	for _, name := range []string{"crashes", "finishes", "fails"} {
		b.awaitPod(t, name, "runs", phase(v1.PodRunning))
	}
	crashed := running(b.get(t, "crashes"))["app"]
	if err := b.plane.KillAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.await(t, "the agent has seen all end", func() error {
		view, err := b.Pods(t.Context())
		if err != nil {
			return err
		}
		for name, want := range map[string]string{"finishes": "Succeeded", "fails": "Failed"} {
			if p, _ := view.Pod(name); p.Phase != want {
				return fmt.Errorf("pod %s is %s", name, p.Phase)
			}
		}
		if p, _ := view.Pod("crashes"); p.Restarts == 0 {
			return fmt.Errorf("pod crashes was not restarted")
		}
		return nil
	})
	if err := b.plane.StartAPIServer(t.Context()); err != nil { // returns when it is ready
		t.Fatal(err)
	}
	back := time.Now()
	b.awaitPod(t, "finishes", "has finished", phase(v1.PodSucceeded))
	b.awaitPod(t, "fails", "has failed", phase(v1.PodFailed))
	p := b.awaitPod(t, "crashes", "was restarted", func(p *v1.Pod) error {
		if c := p.Status.ContainerStatuses[0]; c.RestartCount == 0 || c.LastTerminationState.Terminated == nil {
			return fmt.Errorf("restarts %d", c.RestartCount)
		}
		return nil
	})
	if took := time.Since(back); took > 5*time.Second {
		t.Errorf("it was told of after %v", took)
	} else {
		t.Logf("told of after %v", took)
	}
	if s := p.Status.ContainerStatuses[0]; s.RestartCount == 1 && s.State.Running != nil && s.LastTerminationState.Terminated.ContainerID != crashed {
		t.Errorf("the last end is %+v, not that of %s", s.LastTerminationState.Terminated, crashed)
	}
	for name, id := range before {
		if p := b.get(t, name); running(p)["app"] != id || ready(p) != nil || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s is %s", name, shown(p))
		}
	}
}

// TestStartWithoutApiserver is an agent that is started while nobody answers: its pods run on, and
// static ones begin. It has the control plane to itself.
func TestStartWithoutApiserver(t *testing.T) {
	b := started(t, "start-alone")
	before := b.many(t, 2)
	world := b.world(t)
	b.kill(t)
	if err := b.plane.KillAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := b.Write("static.yaml", fmt.Sprintf(manifest, "troupe.local/demo/web:v1", "1")); err != nil {
		t.Fatal(err)
	}
	b.await(t, "the static pod runs, and all others do", func() error {
		now := b.world(t)
		for _, id := range world.RunningIDs() {
			if !contains(now.RunningIDs(), id) {
				return fmt.Errorf("%s does not run", id)
			}
		}
		if len(now.Running()) != len(world.Running())+1 {
			return fmt.Errorf("%d containers run", len(now.Running()))
		}
		return nil
	})
	if err := b.plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, id := range before {
		b.awaitPod(t, name, "is as it was", func(p *v1.Pod) error {
			if running(p)["app"] != id {
				return fmt.Errorf("another container")
			}
			return ready(p)
		})
	}
	b.create(t, b.pod("after", nil))
	b.awaitPod(t, "after", "is ready", ready)
	if err := b.Remove("static.yaml"); err != nil {
		t.Fatal(err)
	}
	gone := *b
	gone.name = "default"
	gone.awaitGone(t, "static-"+b.name)
}
