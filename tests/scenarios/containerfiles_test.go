package scenarios

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerenv"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// fakeFiles are the files of containers in memory.
type fakeFiles struct {
	w *world
	// hosts are the addresses in the /etc/hosts of each pod, said what containers
	// say at their end, by name; log stands for their logs.
	hosts     map[string][]string
	said, log map[string]string
	made      int
	err       error
	// env are files in volumes, by volume and path.
	env map[string]string
}

func withFiles(f *fakeFiles) option {
	return func(w *world, _ *simcri.Config) {
		*f = fakeFiles{w: w, hosts: map[string][]string{}, said: map[string]string{}, log: map[string]string{}}
		w.files = f
	}
}

func (f *fakeFiles) after(do func()) { f.w.v.AfterFunc(time.Millisecond, do) }

func (f *fakeFiles) MakeFiles(_ context.Context, r port.MakeFiles, done func([]port.Mount, error)) {
	f.after(func() {
		if f.err != nil {
			done(nil, f.err)
			return
		}
		f.made++
		if len(r.IPs) > 0 || f.hosts[r.Pod.Name] == nil {
			f.hosts[r.Pod.Name] = r.IPs
		}
		done([]port.Mount{{Name: "etc-hosts", ContainerPath: "/etc/hosts"}}, nil)
	})
}

func (f *fakeFiles) ReadEnvFiles(_ context.Context, r port.ReadEnvFiles, done func([][]byte, error)) {
	f.after(func() {
		out := make([][]byte, len(r.Files))
		for i, file := range r.Files {
			if text, ok := f.env[file.Volume+"/"+file.Path]; ok && file.Root != "" {
				out[i] = []byte(text)
			}
		}
		done(out, nil)
	})
}

func (f *fakeFiles) WriteHosts(_ context.Context, r port.WriteHosts, done func(error)) {
	f.after(func() {
		f.hosts[r.Pod.Name] = r.IPs
		done(nil)
	})
}

func (f *fakeFiles) LastWords(_ context.Context, r port.LastWords, done func(string, error)) {
	f.after(func() {
		said := f.said[r.Container]
		if said == "" && r.FromLog {
			said = f.log[r.Container]
		}
		done(said, nil)
	})
}

// TestHostsAreWrittenBeforeTheStart: a container finds its own address from its
// first moment on.
func TestHostsAreWrittenBeforeTheStart(t *testing.T) {
	t.Parallel()
	var f fakeFiles
	var m made
	w := newNode(t, 1, withFiles(&f), withMade(&m))
	w.fault = func(c simcri.Call) simcri.Fault {
		if c.Method == simcri.StartContainer && len(f.hosts[c.Pod.Name]) == 0 {
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
	if f.made != 3 || len(m.calls[0].Mounts) != 1 {
		t.Errorf("%d containers have their files, mounts %+v", f.made, m.calls[0].Mounts)
	}
}

// TestVariablesFromAFile: what one container left in a volume is in the variables
// of another, and where its own volumes lie may depend on it (KEP-3721).
func TestVariablesFromAFile(t *testing.T) {
	t.Parallel()
	var f fakeFiles
	var m made
	w, c := newClusterNode(t, 1, withFiles(&f), withMade(&m))
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
	f.env = map[string]string{"v/x.env": "SUB='here'\n"}
	w.until(time.Minute, "up", func() bool { return c.ready("web") })
	r := m.calls[len(m.calls)-1]
	if got := string(r.EnvFiles[containerenv.File{Volume: "v", Path: "x.env"}]); got != "SUB='here'\n" {
		t.Errorf("the container is made with %q", got)
	}
}

// TestLastWordsAreShown with the very status that says that it ended, also to an
// agent that was not there.
func TestLastWordsAreShown(t *testing.T) {
	t.Parallel()
	var f fakeFiles
	w, c := newClusterNode(t, 1, withFiles(&f))
	s := aPod("web").main("logs").restarts(v1.RestartPolicyNever)
	s.Spec.Containers[1].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	c.create(s)
	w.until(20*time.Second, "up", func() bool { return c.ready("web") })
	f.said["app"], f.log["app"], f.log["logs"] = "the disk is full", "not asked for", "panic: nil\n"
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
	if got := end("app").Message; got != "the disk is full" {
		t.Errorf("people are shown %q", got)
	}
	w.kill()
	w.end("web", "logs", 3)
	w.run(time.Second)
	w.start()
	w.until(20*time.Second, "the end is told", func() bool { return end("logs") != nil })
	if got := end("logs").Message; got != "panic: nil\n" {
		t.Errorf("people are shown %q", got)
	}
	w.run(time.Minute)
	if got := end("app").Message; got != "the disk is full" {
		t.Errorf("later people are shown %q", got)
	}
}

// TestFilesThatCannotBeMade: people see why, and it is tried again.
func TestFilesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	var f fakeFiles
	w, c := newClusterNode(t, 1, withFiles(&f))
	f.err = &port.Error{Verb: "MakeFiles", Object: "default/web/app", Detail: "no space left on device"}
	c.create(aPod("web"))
	w.run(3 * time.Second)
	if s := c.get("web").Status.ContainerStatuses[0].State.Waiting; s == nil || s.Reason != "CreateContainerError" || !strings.Contains(s.Message, "no space left") {
		t.Errorf("people are shown %+v", s)
	}
	f.err = nil
	w.until(20*time.Second, "up", func() bool { return c.ready("web") })
}
