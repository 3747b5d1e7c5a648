package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/fakelogind"
)

// priorities are those of the pods that a shutdown ends, in its order.
var priorities = []int32{0, 1000, 100_000}

// groupPeriod is how long a shutdown gives the pods of a priority. They need less.
const groupPeriod = 3 * time.Minute

// shutdownBed is a node on a machine that is shut down: pods of every priority, whose containers leave the file
// NAME.end in marks when they have ended, and their hooks NAME.hook.
type shutdownBed struct {
	*bed
	logind *fakelogind.Logind
	marks  string
	// pods are the names of the pods of each priority.
	pods [][]string
}

// shutdownNode starts a node with n running pods of each priority, which take so long to end. Every fourth has a
// hook.
func shutdownNode(t *testing.T, name string, n int, takes time.Duration) *shutdownBed {
	t.Helper()
	f := fakelogind.Start(t, fakelogind.Config{MaxDelay: time.Hour})
	s := &shutdownBed{logind: f, marks: t.TempDir()}
	settings := "shutdownGracePeriodByPodPriority:\n"
	for _, p := range priorities {
		settings += fmt.Sprintf("- {priority: %d, shutdownGracePeriodSeconds: %.0f}\n", p, groupPeriod.Seconds())
	}
	s.bed = newBed(t, name, onServed, func(s *setup) {
		s.agent.Settings, s.agent.Env = settings, []string{"DBUS_SYSTEM_BUS_ADDRESS=" + f.Address()}
	})
	s.start(t)
	s.awaitNode(t, "is ready", nodeIs(v1.ConditionTrue, ""))
	for _, priority := range priorities {
		class := s.class(t, priority)
		var names []string
		for i := range n {
			pod := fmt.Sprintf("p%d-%d", priority, i)
			s.create(t, s.doomed(pod, class, takes, i%4 == 0))
			names = append(names, pod)
		}
		s.pods = append(s.pods, names)
	}
	s.await(t, "all pods run", func() error {
		return s.each(t, func(p *v1.Pod) error { return phase(v1.PodRunning)(p) })
	})
	s.await(t, "there is a lock", func() error { return check.That(f.Released() != nil, "none") })
	return s
}

// class makes the class of a priority, and waits until admission knows it.
func (s *shutdownBed) class(t *testing.T, priority int32) string {
	t.Helper()
	name, classes := fmt.Sprintf("%s-%d", s.name, priority), s.admin.SchedulingV1().PriorityClasses()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: priority}
	check.Value(classes.Create(t.Context(), class, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = classes.Delete(context.Background(), name, metav1.DeleteOptions{}) }) // it has no namespace
	s.await(t, "pods may have class "+name, func() error {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := s.admin.CoreV1().Pods(s.name).Create(t.Context(), s.doomed("dry", name, 0, false), dry)
		return err
	})
	return name
}

// doomed is a pod that a shutdown ends. It is bound already: no scheduler takes a node that shuts down.
func (s *shutdownBed) doomed(name, class string, takes time.Duration, hook bool) *v1.Pod {
	return s.pod(name, func(p *v1.PodSpec) {
		work(fmt.Sprintf("trap %v then touch /marks/%s.end", takes, name))(p)
		p.NodeName, p.PriorityClassName = s.name, class
		p.TerminationGracePeriodSeconds = new(int64(groupPeriod.Seconds()))
		p.Volumes = []v1.Volume{volume("marks", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: s.marks}})}
		p.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "marks", MountPath: "/marks"}}
		if hook {
			p.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
				Exec: &v1.ExecAction{Command: []string{"/work", "touch", "/marks/" + name + ".hook"}},
			}}
		}
	})
}

// each asks of all pods.
func (s *shutdownBed) each(t *testing.T, ask func(*v1.Pod) error) error {
	t.Helper()
	list, err := s.admin.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		p := &list.Items[i]
		if e := ask(p); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w: %s %s", p.Name, e, p.Status.Phase, p.Status.Reason))
		}
	}
	if want := len(priorities) * len(s.pods[0]); len(list.Items) < want {
		err = errors.Join(err, fmt.Errorf("%d pods of %d", len(list.Items), want))
	}
	return err
}

// nodeIs is nil if a node's Ready condition has a status and its message says so.
func nodeIs(status v1.ConditionStatus, says string) func(*v1.Node) error {
	return func(n *v1.Node) error {
		c := condition(n, v1.NodeReady)
		return check.That(c.Status == status && strings.Contains(c.Message, says), "Ready is %s: %s", c.Status, c.Message)
	}
}

// disrupted is nil if a shutdown ended a pod, and its status says so.
func disrupted(p *v1.Pod) error {
	if p.Status.Reason != "Terminated" {
		return errors.New("want Terminated")
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated == nil || c.RestartCount != 0 {
			return fmt.Errorf("its container is %+v after %d restarts", c.State, c.RestartCount)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet {
			return phase(v1.PodFailed)(p)
		}
	}
	return errors.New("no DisruptionTarget")
}

// wantOrder fails unless hooks ran before the ends of their pods, and the pods of a priority ended before those of
// the next one. It logs when they did.
func (s *shutdownBed) wantOrder(t *testing.T, begun time.Time) {
	t.Helper()
	var before time.Time
	for g, names := range s.pods {
		var first, last time.Time
		for i, name := range names {
			end := s.mark(t, name+".end")
			if first.IsZero() || end.Before(first) {
				first = end
			}
			if end.After(last) {
				last = end
			}
			if i%4 == 0 && s.mark(t, name+".hook").After(end) {
				t.Errorf("%s: its hook ended after its container", name)
			}
		}
		if first.Before(before) {
			t.Errorf("a pod of priority %d ended %v before one of a lower priority", priorities[g], before.Sub(first))
		}
		t.Logf("%d pods of priority %d ended %v to %v after the beginning", len(names), priorities[g],
			first.Sub(begun).Round(time.Millisecond), last.Sub(begun).Round(time.Millisecond))
		before = last
	}
}

// mark is when a file was made.
func (s *shutdownBed) mark(t *testing.T, file string) time.Time {
	t.Helper()
	info, err := os.Stat(filepath.Join(s.marks, file))
	if err != nil {
		t.Error(err)
		return time.Time{}
	}
	return info.ModTime()
}

// wantRefused fails unless a new pod is refused.
func (s *shutdownBed) wantRefused(t *testing.T) {
	t.Helper()
	s.create(t, s.doomed("late", "", 0, false))
	s.awaitPod(t, "late", "is refused", func(p *v1.Pod) error {
		if p.Status.Reason != "NodeShutdown" {
			return errors.New("want NodeShutdown")
		}
		return phase(v1.PodFailed)(p)
	})
}

// shutdownPods is how many pods of each of the three priorities run on a machine that is shut down, otherwise 4.
const shutdownPods = "TROUPE_SHUTDOWN_PODS"

// TestShutdown: the machine shuts down, and waits until the pods have ended in order and the apiserver knows.
//
//tier:served
func TestShutdown(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain)
	began, each := time.Now(), 4
	if text := os.Getenv(shutdownPods); text != "" {
		var err error
		if each, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", shutdownPods, err)
		}
	}
	s := shutdownNode(t, "shutdown", each, 200*time.Millisecond)
	t.Logf("all pods run after %v", time.Since(began).Round(time.Millisecond))
	begun, released := time.Now(), s.logind.Released()
	s.logind.PrepareForShutdown(true)
	s.awaitNode(t, "is not ready", nodeIs(v1.ConditionFalse, "node is shutting down"))
	t.Logf("the node is not ready after %v", time.Since(begun).Round(time.Millisecond))
	s.await(t, "the lock is released", func() error {
		select {
		case <-released:
			return nil
		default:
			return errors.New("it is held")
		}
	})
	t.Logf("the lock was released after %v", time.Since(begun).Round(time.Millisecond))
	check.Error(t, s.each(t, disrupted))
	s.wantOrder(t, begun)
	s.wantRefused(t)
}

// TestShutdownGoesOn: the agent is killed while the pods of the second priority end. The next one goes on.
//
//tier:served
func TestShutdownGoesOn(t *testing.T) {
	t.Parallel()
	s := shutdownNode(t, "shutdown-killed", 4, 3*time.Second)
	begun := time.Now()
	s.logind.PrepareForShutdown(true)
	s.await(t, "the second group ends", func() error {
		return s.each(t, func(p *v1.Pod) error {
			if p.Name == s.pods[0][0] {
				return disrupted(p)
			}
			return nil
		})
	})
	hook := filepath.Join(s.marks, s.pods[1][0]+".hook")
	s.await(t, "a hook of the second group ran", func() error { _, err := os.Stat(hook); return err })
	s.kill(t)
	t.Logf("the agent was killed after %v", time.Since(begun).Round(time.Millisecond))
	check.Fails(t, s.each(t, disrupted), "all pods had ended when it was killed")
	if strings.Contains(s.Log(), over) {
		t.Error("the shutdown was over when the agent was killed")
	}
	s.start(t)
	t.Logf("the next agent was ready after %v", time.Since(begun).Round(time.Millisecond))
	s.await(t, "the shutdown is over", func() error { return check.That(strings.Contains(s.Log(), over), "it goes on") })
	t.Logf("it was over after %v", time.Since(begun).Round(time.Millisecond))
	check.Error(t, s.each(t, disrupted))
	s.wantOrder(t, begun)
	s.wantRefused(t)
	s.awaitNode(t, "is not ready", nodeIs(v1.ConditionFalse, "node is shutting down"))
}

// over is what the agent logs when it no longer delays the shutdown.
const over = "releasing the shutdown inhibitor lock"
