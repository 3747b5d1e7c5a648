package scenarios

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// withFiles gives containers files of their own.
func withFiles() option {
	return func(s *setting) { s.spec.Files = true }
}

// TestHostsAreWrittenBeforeTheStart: a container finds its own address from its
// first moment on.
func TestHostsAreWrittenBeforeTheStart(t *testing.T) {
	t.Parallel()
	var m made
	w := newNode(t, 1, withFiles(), withMade(&m))
	w.fault = func(c simcri.Call) simcri.Fault {
		if c.Method == simcri.StartContainer && len(w.containerFiles.Hosts[c.Pod.Name]) == 0 {
			t.Errorf("%s is started before its address is written", c.Object)
		}
		if c.Method == simcri.PodSandboxStatus {
			return simcri.Fault{Latency: 300 * time.Millisecond} // longer than all else takes
		}
		return simcri.Fault{}
	}
	w.run(time.Second)
	w.add(aPod("web").main("second").init("first"))
	w.until(20*time.Second, "up", func() bool { return w.pod("web").Ready })
	if w.containerFiles.Made != 3 || len(m.calls[0].Mounts) != 1 {
		t.Errorf("%d containers have their files, mounts %+v", w.containerFiles.Made, m.calls[0].Mounts)
	}
}

// TestHostsStay: what a container has added to its /etc/hosts stays when the agent starts again. The file is written
// anew when a container is made.
func TestHostsStay(t *testing.T) {
	t.Parallel()
	w, c := newClusterNode(t, 1, withFiles())
	c.create(aPod("web").main("second"))
	w.until(20*time.Second, "up", func() bool { return c.ready("web") })
	hosts := w.containerFiles.Hosts
	written := hosts["web"]
	hosts["web"] = append(slices.Clone(written), "added")
	w.restart()
	w.run(time.Minute)
	if got := hosts["web"]; !c.ready("web") || !slices.Contains(got, "added") {
		t.Errorf("after a restart of the agent the file has %q", got)
	}
	w.end("web", "second", 1)
	w.until(time.Minute, "made again", func() bool { return c.restarts("web", "second") == 1 && c.ready("web") })
	if got := hosts["web"]; len(written) == 0 || !slices.Equal(got, written) {
		t.Errorf("when a container was made the file has %q, want %q", got, written)
	}
}

// TestVariablesFromAFile: what one container left in a volume is in the variables
// of another, and where its own volumes lie may depend on it (KEP-3721).
func TestVariablesFromAFile(t *testing.T) {
	t.Parallel()
	var m made
	w, c := newClusterNode(t, 1, withFiles(), withMade(&m))
	p := aPod("web").volume("v")
	app := &p.Spec.Containers[0]
	app.Env = []v1.EnvVar{{Name: "SUB", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "x.env", Key: "SUB"}}}}
	app.VolumeMounts = append(app.VolumeMounts, v1.VolumeMount{Name: "v", MountPath: "/part", SubPathExpr: "$(SUB)"})
	c.create(p)
	w.until(20*time.Second, "says what is missing", func() bool {
		s := c.get("web").Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CreateContainerConfigError" &&
			strings.Contains(s[0].State.Waiting.Message, `couldn't parse env file: there is no x.env in volume "v"`)
	})
	w.containerFiles.Env = map[string]string{"v/x.env": "SUB='here'\n"}
	w.until(time.Minute, "up", func() bool { return c.ready("web") })
	r := m.calls[len(m.calls)-1]
	if got, _ := r.Env.Lookup("SUB"); got != "here" {
		t.Errorf("the container is made with %q", got)
	}
}

// TestSubPathFollowsThePod: where a volume lies in a container can be mended by an annotation, and people don't wait for
// the next try.
func TestSubPathFollowsThePod(t *testing.T) {
	t.Parallel()
	w, c := newClusterNode(t, 1, withFiles())
	p := aPod("web").volume("v")
	app := &p.Spec.Containers[0]
	app.Env = []v1.EnvVar{{Name: "SUB", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{
		APIVersion: "v1", FieldPath: "metadata.annotations['sub']",
	}}}}
	app.VolumeMounts = append(app.VolumeMounts, v1.VolumeMount{Name: "v", MountPath: "/part", SubPathExpr: "$(SUB)/x"})
	c.create(p)
	w.run(190 * time.Second) // until the backoff has grown, and the next try is far
	s := c.get("web").Status.ContainerStatuses
	if len(s) != 1 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "CreateContainerConfigError" {
		t.Fatalf("people are shown %+v", s)
	}
	mended := *c.get("web")
	mended.Annotations = maps.Clone(mended.Annotations)
	mended.Annotations["sub"] = "here"
	check.Value(c.api.Update(&mended))(t)
	check.AtMost(t, w.until(2*time.Minute, "up", func() bool { return c.ready("web") }), time.Second, "up after")
}

// TestTerminationMessageIsShown with the very status that says that it ended, also to an
// agent that was not there.
func TestTerminationMessageIsShown(t *testing.T) {
	w, c := parallelCluster(t, 1, withFiles())
	s := aPod("web").main("logs").restarts(v1.RestartPolicyNever)
	s.Spec.Containers[1].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	c.create(s)
	w.until(20*time.Second, "up", func() bool { return c.ready("web") })
	f := w.containerFiles
	f.Said["app"], f.Log["app"], f.Log["logs"] = "the disk is full", "not asked for", "panic: nil\n"
	end := func(name string) *v1.ContainerStateTerminated {
		for _, s := range c.get("web").Status.ContainerStatuses {
			if s.Name == name {
				return s.State.Terminated
			}
		}
		return nil
	}
	w.end("web", "app", 1)
	w.until(5*time.Second, "the end is told", func() bool { return end("app") != nil })
	check.Equal(t, end("app").Message, "the disk is full", "people are shown")
	w.kill()
	w.end("web", "logs", 3)
	w.run(time.Second)
	w.start()
	w.until(20*time.Second, "the end is told", func() bool { return end("logs") != nil })
	check.Equal(t, end("logs").Message, "panic: nil\n", "people are shown")
	w.run(time.Minute)
	check.Equal(t, end("app").Message, "the disk is full", "later people are shown")
}

// TestFilesThatCannotBeMade: people see why, and it is tried again.
func TestFilesThatCannotBeMade(t *testing.T) {
	w, c := parallelCluster(t, 1, withFiles())
	w.containerFiles.Fault = func(machine.Call) machine.Fault {
		return machine.Fault{Err: &port.Error{Verb: "MakeFiles", Object: "default/web/app", Detail: "no space left on device"}}
	}
	c.create(aPod("web"))
	w.run(3 * time.Second)
	if s := c.get("web").Status.ContainerStatuses[0].State.Waiting; s == nil || s.Reason != "CreateContainerError" || !strings.Contains(s.Message, "no space left") {
		t.Errorf("people are shown %+v", s)
	}
	w.containerFiles.Fault = nil
	w.until(20*time.Second, "up", func() bool { return c.ready("web") })
}
