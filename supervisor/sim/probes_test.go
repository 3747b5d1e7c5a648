package sim

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/tests/check"
)

// deployProbed makes pods whose one container has these probes.
func (w *World) deployProbed(t testing.TB, name string, replicas int, set func(*v1.Container), annotations ...string) {
	t.Helper()
	notes := map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		notes[simcri.AnnotationPrefix+annotations[i]] = annotations[i+1]
	}
	c := v1.Container{Name: name, Image: "registry.test/" + name + ":1"}
	set(&c)
	check.Fatal(t, w.ControlPlane().Apply(controlplane.Workload{Name: name, Replicas: replicas, Template: v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: notes}, Spec: v1.PodSpec{Containers: []v1.Container{c}},
	}}))
}

func httpProbe() *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(80)}}}
}

func readiness(c *v1.Container) { c.ReadinessProbe = httpProbe() }

func (w *World) asked() (n uint64) {
	for _, node := range w.Nodes() {
		n += node.Runtime().Calls(simcri.ProbeHTTP)
	}
	return n
}

// TestReadinessOverARestartOfTheAgent: whoever watches the apiserver sees none.
func TestReadinessOverARestartOfTheAgent(t *testing.T) {
	w := newWorld(t, 2)
	w.deployProbed(t, "web", 20, func(c *v1.Container) {
		readiness(c)
		c.StartupProbe, c.LivenessProbe = httpProbe(), httpProbe()
		c.ReadinessProbe.PeriodSeconds = 60
	})
	w.deployProbed(t, "slow", 4, readiness, "ready-after", "1h")
	w.until(t, time.Minute, "20 pods are ready", func() bool { return w.Ready() == 20 })
	w.Advance(5 * time.Minute) // an image may be large
	var lines []*Timeline
	for _, n := range w.Nodes() {
		for _, p := range n.Runtime().Truth().Runtime.Pods {
			lines = append(lines, w.Follow(p.Ref.Namespace, p.Ref.Name))
		}
	}
	w.Advance(time.Second)
	written := make([]int, len(lines))
	for i, l := range lines {
		written[i] = len(l.Moments)
	}
	for range 3 {
		for _, n := range w.Nodes() {
			n.RestartAgent()
		}
		w.Advance(2 * time.Minute)
	}
	if len(lines) != 24 || w.Ready() != 20 {
		t.Errorf("%d pods, %d ready", len(lines), w.Ready())
	}
	for i, l := range lines {
		for _, m := range l.Moments[written[i]:] {
			if m.What == "Status" {
				t.Errorf("after a restart of the agent: %s", m.Text)
			}
		}
	}
}

// TestUnreadyIsSeen: a probe's answer reaches the apiserver, both ways.
func TestUnreadyIsSeen(t *testing.T) {
	w := newWorld(t, 1)
	w.deployProbed(t, "web", 1, func(c *v1.Container) {
		readiness(c)
		c.ReadinessProbe.PeriodSeconds, c.ReadinessProbe.FailureThreshold = 1, 1
	}, "ready-for", "20s", "unready-for", "20s")
	seen := []string{}
	for range 70 {
		w.Advance(time.Second)
		if now := fmt.Sprint(w.Ready()); len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
	}
	if got := strings.Join(seen, " "); got != "0 1 0 1" && got != "1 0 1" && got != "0 1 0 1 0" && got != "1 0 1 0" {
		t.Errorf("ready pods over a minute: %s", got)
	}
}

// processTime is the time of all CPUs that this process has used: others may be
// busy on this machine.
func processTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	check.Fatal(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSettledWithProbes lets time pass in a cluster in which nothing happens
// but that each pod is asked every ten seconds whether it is ready.
func BenchmarkSettledWithProbes(b *testing.B) {
	of(b, func(b *testing.B, nodes, pods int) {
		w := newWorld(b, nodes)
		w.deployProbed(b, "web", nodes*pods, readiness)
		w.untilReady(b, nodes*pods)
		w.Advance(2 * time.Minute)
		began, asked, used := w.Elapsed(), w.asked(), processTime(b)
		for b.Loop() {
			w.Advance(10 * time.Second)
		}
		used = processTime(b) - used
		b.ReportMetric((w.Elapsed()-began).Seconds()/b.Elapsed().Seconds(), "sim-s/s")
		b.ReportMetric((w.Elapsed()-began).Seconds()/used.Seconds(), "sim-s/cpu-s")
		b.ReportMetric(float64(used.Nanoseconds())/float64(w.asked()-asked), "cpu-ns/probe")
	})
}
