package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// auditor watches all pods of a namespace, keeps every version that the apiserver had of each, and says
// of each that says less than the one before it: a restart, a container or pod that is no longer ready,
// a phase, an address or a state that is gone.
type auditor struct {
	mu       sync.Mutex
	versions map[types.UID][]*v1.Pod
	ended    bool // the watch has, for whatever reason
}

func (b *bed) audit(t *testing.T) *auditor {
	t.Helper()
	a := &auditor{versions: map[types.UID][]*v1.Pod{}}
	list := check.Value(b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range list.Items {
		a.see(&list.Items[i])
	}
	w := check.Value(
		b.admin.CoreV1().Pods(b.name).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion}))(t)
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*v1.Pod); ok {
				a.see(p)
			}
		}
		a.mu.Lock()
		a.ended = true
		a.mu.Unlock()
	}()
	return a
}

func (a *auditor) see(p *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions[p.UID] = append(a.versions[p.UID], p)
}

// result is what was found, and how many versions had another status than the one before.
func (a *auditor) result() (found []string, writes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		found = append(found, "the watch has ended: not all was seen")
	}
	for _, versions := range a.versions {
		for i := 1; i < len(versions); i++ {
			old, p := versions[i-1], versions[i]
			if !podstatus.Equal(&old.Status, &p.Status) {
				writes++
			}
			for _, what := range less(old, p) {
				found = append(found, fmt.Sprintf("pod %s: %s", p.Name, what))
			}
		}
	}
	return found, writes
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
	if what := podstatus.Backwards(p, &old.Status, &p.Status); what != "" {
		found = append(found, what)
	}
	if len(p.Status.ContainerStatuses) != len(old.Status.ContainerStatuses) || len(p.Status.Conditions) < len(old.Status.Conditions) {
		return append(found, fmt.Sprintf("%d containers, %d conditions", len(p.Status.ContainerStatuses), len(p.Status.Conditions)))
	}
	for i := range p.Status.ContainerStatuses {
		was, is := &old.Status.ContainerStatuses[i], &p.Status.ContainerStatuses[i]
		if was.RestartCount != is.RestartCount || was.ContainerID != is.ContainerID || (was.State.Running == nil) != (is.State.Running == nil) ||
			was.Ready && !is.Ready || was.ImageID != "" && is.ImageID == "" || was.Started != nil && is.Started == nil ||
			(was.LastTerminationState.Terminated == nil) != (is.LastTerminationState.Terminated == nil) {
			found = append(found, fmt.Sprintf("container %+v became %+v", was, is))
		}
	}
	return found
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
	limit := patience + time.Duration(n)*time.Second
	check.Fatal(t, lab.Eventually(t.Context(), limit, "all pods are ready", func() error {
		list := check.Must(b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{}))
		for i := range list.Items {
			p := &list.Items[i]
			if err := ready(p); err != nil {
				return fmt.Errorf("pod %s: %w: %s", p.Name, err, shown(p))
			}
			ids[p.Name] = running(p)["app"]
		}
		return nil
	}))
	return ids
}

// backAgain is how long an agent that was started again may take until it does its work, on a busy machine. Otherwise
// that takes about a second.
const backAgain = 30 * time.Second

// TestKillAgent kills the agent (kill -9) beside other pods and starts it again, twice: nobody who
// watches notices. The benchmarks do it beside a hundred.
//
//tier:served
func TestKillAgent(t *testing.T) {
	t.Parallel()
	const pods, kills = 10, 2
	b := started(t, "kill-agent", onServed)
	begun := time.Now()
	before := b.many(t, pods)
	t.Logf("%d pods were ready after %v", pods, time.Since(begun).Round(time.Millisecond))
	world := b.world(t).RunningIDs()
	a := b.audit(t)
	for range kills {
		b.kill(t)
		begun = time.Now()
		b.start(t)
		// It is whole again when a new pod comes up.
		b.create(t, b.pod("probe", nil))
		probe := b.awaitPod(t, "probe", "is ready", ready)
		// The apiserver has whole seconds.
		readyAt := slices.IndexFunc(probe.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })
		since := probe.Status.Conditions[readyAt].LastTransitionTime.Sub(begun)
		t.Logf("a new pod was ready %v after the restart", since.Round(time.Millisecond))
		check.AtMost(t, since, backAgain, "a new pod was ready %v after the restart", since)
		h := b.follow(t, "probe")
		b.remove(t, "probe")
		h.until(t, "it is gone", isGone)
		b.await(t, "the agent knows all of them", func() error {
			for name, p := range b.asTheAgentSees(t) {
				if p.Phase == string(v1.PodUnknown) {
					return fmt.Errorf("not pod %s: %v", name, p.Doing)
				}
				if name != "probe" && (p.Running() != nil || !p.Ready || p.Restarts > 0) {
					t.Errorf("after a restart the agent shows of pod %s: %+v", name, p)
				}
			}
			return nil
		})
	}
	found, writes := a.result()
	for _, what := range found {
		if !isProbe(what) {
			t.Error(what)
		}
	}
	t.Logf("%d versions had another status, those of the %d pods that came later among them", writes, kills)
	after := map[string]string{}
	list := check.Value(b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range list.Items {
		after[list.Items[i].Name] = running(&list.Items[i])["app"]
	}
	if !maps.Equal(before, after) {
		t.Errorf("containers were %v and are %v", before, after)
	}
	b.await(t, "the runtime has what it had", func() error {
		got := b.world(t).RunningIDs()
		return check.That(fmt.Sprint(got) == fmt.Sprint(world), "it had %v, and has %v", world, got)
	})
}

func isProbe(what string) bool { return len(what) > 10 && what[:10] == "pod probe:" }

// apiserverRestarts is an apiserver that is stopped and started: what is asked of it afterwards is
// done, and nobody's readiness suffers.
func apiserverRestarts(t *testing.T, own func(*setup)) {
	b := started(t, "apiserver-restarts", onServed, own)
	before := b.many(t, 5)
	for name, restart := range map[string]func(context.Context) error{"stopped": b.plane.StopAPIServer, "killed": b.plane.KillAPIServer} {
		check.Fatal(t, restart(t.Context()))
		check.Fatal(t, b.plane.StartAPIServer(t.Context()))
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

// startWithoutApiserver is an agent that is started while nobody answers: its pods run on, and
// static ones begin.
func startWithoutApiserver(t *testing.T, own func(*setup)) {
	b := started(t, "start-alone", onServed, own)
	before := b.many(t, 2)
	world := b.world(t)
	b.kill(t)
	check.Fatal(t, b.plane.KillAPIServer(t.Context()))
	check.Fatal(t, b.Launch())
	check.Fatal(t, b.Write("static.yaml", fmt.Sprintf(manifest, "troupe.local/demo/web:v1", "1")))
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
	check.Fatal(t, b.plane.StartAPIServer(t.Context()))
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
	check.Fatal(t, b.Remove("static.yaml"))
	gone := *b
	gone.name = "default"
	gone.awaitGone(t, "static-"+b.name)
}
