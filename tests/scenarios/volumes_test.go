package scenarios

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestVolumesOfFiles: what the pod says of itself is in its volume, and is there
// still, once, after the agent was killed.
func TestVolumesOfFiles(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web").about("info").volume("data").part("data", "logs"))
	w.allUp(10 * time.Second)
	uid := w.pod("web").UID
	for range 2 {
		if got := w.host.Content(uid, "info"); !strings.HasPrefix(got, "name=web") {
			t.Errorf("the volume holds %q", got)
		}
		w.restart()
		w.allUp(time.Minute)
	}
	w.drop("web")
	w.allUp(10 * time.Second)
	w.quiet()
}

// TestVolumeThatHangsIsNamed: users are told which volume is waited for and
// since when, in the words they know; nobody else waits; and what blocks the end
// of such a pod is said as well.
func TestVolumeThatHangsIsNamed(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	hangs := "MountVolume"
	var bad types.UID
	w.host.Fault = func(c machine.Call) machine.Fault {
		return machine.Fault{Hang: c.Verb == hangs && (c.Volume == "dead" || c.Pod == string(bad))}
	}
	w.add(aPod("bad").volume("dead").volume("data"))
	w.add(many("p", 20, func(n string) *spec { return aPod(n).volume("data") })...)
	w.until(10*time.Second, "20 others run", func() bool {
		for _, n := range names("p", 20) {
			if !w.runs(n, "app", 0) {
				return false
			}
		}
		return true
	})
	w.run(12 * time.Second)
	if c := w.pod("bad").Containers[0]; c.Reason != "ContainerCreating" ||
		c.Message != `waiting for volume "dead" since 00:00:01 UTC: its file system does not answer` {
		t.Errorf("the container waits: %s, %s", c.Reason, c.Message)
	}
	w.run(4 * time.Minute)
	if got := w.lastEvent("bad", "FailedMount"); !strings.Contains(got, "Unable to attach or mount volumes: unmounted volumes=[dead]") &&
		!strings.Contains(got, `MountVolume.SetUp failed for volume "dead" : the file system did not answer`) {
		t.Errorf("the last event says %q", got)
	}
	summaries := 0
	for _, e := range w.events {
		if e.Reason == "FailedMount" && strings.Contains(e.Message, "unmounted volumes=[dead]") {
			summaries++
		}
	}
	if summaries == 0 || summaries > 3 {
		t.Errorf("%d events say which volumes are missing, in four minutes", summaries)
	}
	hangs = ""
	w.allUp(5 * time.Minute)
	hangs, bad = "UnmountPod", w.pod("bad").UID
	w.drop("bad")
	w.run(30 * time.Second)
	check.Has(t, w.pod("bad").Problem, "its volumes are being unmounted since", "what blocks its end")
	hangs = ""
	w.allUp(5 * time.Minute)
	w.quiet()
}

// TestSubPathFails: the container is not made, and says why in known words, until
// it can be.
func TestSubPathFails(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	broken := true
	w.host.Fault = func(c machine.Call) (f machine.Fault) {
		if c.Verb == "MountSubPaths" && broken {
			f.Err = &port.Error{Kind: port.InvalidConfig, Verb: c.Verb, Detail: `subPath "logs" points outside its volume`}
		}
		return f
	}
	w.add(aPod("web").volume("data").part("data", "logs"))
	w.run(20 * time.Second)
	c := w.pod("web").Containers[0]
	if want := `failed to prepare subPath for volumeMount "data" of container "app": subPath "logs" points outside its volume`; c.Reason != "CreateContainerConfigError" || c.Message != want {
		t.Errorf("the container waits: %s, %s", c.Reason, c.Message)
	}
	check.Has(t, w.lastEvent("web", "Failed"), "failed to prepare subPath", "the event says")
	broken = false
	w.allUp(2 * time.Minute)
	w.quiet()
}

// config is a volume of a ConfigMap.
func (s *spec) config(name string) *spec {
	s.volume(name)
	s.Spec.Volumes[len(s.Spec.Volumes)-1].VolumeSource = v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: name},
	}}
	return s
}

// TestVolumesFollowTheirObjects: what users change shows in a volume that stands,
// wherever the agent is killed meanwhile; what can't be written, or is gone, leaves
// the pod as it was.
func TestVolumesFollowTheirObjects(t *testing.T) {
	t.Parallel()
	begin := func() (*world, *cluster, func() string) {
		w, c := newClusterNode(t, 1)
		c.create(aPod("web").config("settings"))
		w.run(5 * time.Second)
		if n := w.count("web", "FailedMount"); n == 0 {
			t.Error("no event says that the ConfigMap is not there")
		}
		c.configMap("settings", "one")
		w.until(10*time.Second, "Ready", func() bool { return c.ready("web") })
		uid := c.get("web").UID
		return w, c, func() string { return w.host.Content(uid, "settings") }
	}
	w, c, holds := begin()
	c.setConfigMap("settings", "two")
	if took := w.until(5*time.Second, "the change", func() bool { return holds() == "k=two\n" }); took > time.Second {
		t.Errorf("a change was in the volume after %v", took)
	}
	w.kill()

	for k := range 12 {
		w, c, holds = begin()
		c.setConfigMap("settings", "two")
		for range k {
			w.step(w.v.Now().Add(time.Minute))
		}
		w.restart()
		w.until(time.Minute, "the change, after a restart", func() bool { return holds() == "k=two\n" })
		w.run(10 * time.Second)
		if !c.ready("web") || c.restarts("web", "app") != 0 {
			t.Errorf("killed at %d: ready %v, %d restarts", k, c.ready("web"), c.restarts("web", "app"))
		}
		w.kill()
	}

	w, c, holds = begin()
	broken := true
	w.host.Fault = func(c machine.Call) (f machine.Fault) {
		if c.Verb == "MountVolume" && broken {
			f.Err = &port.Error{Verb: c.Verb, Detail: "no space left on device"}
		}
		return f
	}
	before := w.count("web", "FailedMount")
	c.setConfigMap("settings", "two")
	w.run(10 * time.Second)
	if w.count("web", "FailedMount") == before || holds() != "k=one\n" || !c.ready("web") {
		t.Errorf("it holds %q, ready %v; the last event says %q", holds(), c.ready("web"), w.lastEvent("web", "FailedMount"))
	}
	w.end("web", "app", 1)
	w.until(time.Minute, "restarted with what is there", func() bool { return w.runs("web", "app", 1) })
	broken = false
	w.until(3*time.Minute, "the change, when it can be", func() bool { return holds() == "k=two\n" })
	w.kill()
}

// TestRoomOfAPodWhoseVolumeHangs: once a pod has a terminal phase, the scheduler gives its CPUs to another. That one starts,
// although a volume of the first can't be unmounted.
func TestRoomOfAPodWhoseVolumeHangs(t *testing.T) {
	w, c := parallelCluster(t, 1, withResizes()) // exclusive CPUs
	hangs := true
	w.host.Fault = func(call machine.Call) machine.Fault { return machine.Fault{Hang: hangs && call.Verb == "UnmountPod"} }
	c.create(sized("leaves", "10", "1Gi").volume("data"))
	w.until(time.Minute, "it is up", func() bool { return c.ready("leaves") })
	c.delete("leaves", nil)
	w.until(2*time.Minute, "it has ended", func() bool { return finished(c.get("leaves")) })
	c.create(sized("comes", "10", "1Gi"))
	w.until(time.Minute, "the other has its CPUs", func() bool { return c.ready("comes") })
	if c.get("leaves") == nil {
		t.Error("the first is gone, with its volume mounted")
	}
	w.kill()
	w.start()
	w.until(time.Minute, "so it is after a restart", func() bool { return c.ready("comes") })
	hangs = false
	w.until(10*time.Minute, "the first is gone", func() bool { return c.get("leaves") == nil })
	if n := c.restarts("comes", "app"); n != 0 || !c.ready("comes") {
		t.Errorf("the other was restarted %d times", n)
	}
	w.clusterQuiet()
}
