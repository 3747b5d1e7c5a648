package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// Programs holds a runtime to what the programs of tests/images do, as far as tests of agents see it:
// exit codes, logs, files in volumes, SIGTERM, and what a web server answers. images has the image of
// each program by its name. Pods must be reachable from here.
func Programs(t *testing.T, images map[string]string, open func(t *testing.T) Subject) {
	for _, c := range programs {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &suite{T: t, Subject: open(t)}
			c.run(s, images[c.program])
		})
	}
	t.Run("web", func(t *testing.T) {
		t.Parallel()
		testWeb(&suite{T: t, Subject: open(t)}, images["web"])
	})
}

// program is one that runs in a container with the volume /data.
type program struct {
	name, program, args string
	env                 map[string]string
	// until, a file of /data or a line of the log, is when it is sent a SIGTERM, with a grace. Empty: it
	// ends by itself.
	until string
	grace time.Duration
	// command, if not empty, runs in it before that, and prints said.
	command, said string
	code          int32
	// out and err are what it writes; files are those of /data in the end.
	out, err string
	files    map[string]string
	// unread: its log is not looked at.
	unread bool
	// again is the code of the next attempt in the same pod, if there is one.
	again *int32
}

var programs = []program{
	{name: "ends", program: "work", args: "print hello then warn oops", out: "hello\n", err: "oops\n"},
	{name: "exits", program: "work", args: "print hello then exit 3 then print more", code: 3, out: "hello\n"},
	{name: "sleeps", program: "work", args: "append /data/log a then sleep 300ms then append /data/log b then exit 4",
		code: 4, files: map[string]string{"log": "a\nb\n"}},
	{name: "sleeps on", program: "work", args: "touch /data/ready then sleep then touch /data/end", until: "ready",
		grace: 20 * time.Second, code: 143, out: "SIGTERM: ending\n", files: map[string]string{"ready": ""}},
	{name: "lingers", program: "work", args: "touch /data/ready then trap 500ms then append /data/end over then exit 7",
		until: "ready", grace: 20 * time.Second, code: 7, out: "SIGTERM: lingering 500ms\nlingered\n",
		files: map[string]string{"ready": "", "end": "over\n"}},
	{name: "is killed", program: "work", args: "touch /data/ready then trap 1m then touch /data/end", until: "ready",
		code: 137, files: map[string]string{"ready": ""}},
	{name: "ignores", program: "work", args: "touch /data/ready then ignore", until: "ready", grace: time.Second,
		code: 137, unread: true, files: map[string]string{"ready": ""}},
	{name: "fails", program: "work", args: "cat /data/none then exit 0",
		code: 1, err: "work [cat /data/none]: open /data/none: no such file or directory\n"},
	{name: "reads", program: "work", args: "append /data/log one then append /data/log two then cat /data/log",
		out: "one\ntwo\n", files: map[string]string{"log": "one\ntwo\n"}},
	{name: "takes turns", program: "work", args: "turns /data/n 2", code: 1, err: "work [turns /data/n 2]: turn 1 of 2\n",
		files: map[string]string{"n": "2"}, again: new(int32)},
	{name: "is asked", program: "work", args: "touch /ready then touch /data/ready then trap", until: "ready",
		grace: 20 * time.Second, command: "cat /ready then print here then append /data/log asked", said: "here\n",
		out: "SIGTERM: lingering 0s\nlingered\n", files: map[string]string{"ready": "", "log": "asked\n"}},
	{name: "crashes", program: "crash", env: map[string]string{"AFTER": "300ms", "EXIT_CODE": "9"},
		code: 9, out: "crash: alive, will exit 9 in 300ms\n", err: "crash: exiting 9\n"},
	{name: "crashes when told", program: "crash", env: map[string]string{"AFTER": "5m"}, until: "crash: alive",
		grace: 20 * time.Second, code: 2, out: "crash: alive, will exit 1 in 5m0s\n"},
}

func (c program) run(s *suite, image string) {
	s.Helper()
	data := s.TempDir()
	pod := s.pod(Program{Image: image, Args: strings.Fields(c.args)})
	for name, value := range c.env {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, v1.EnvVar{Name: name, Value: value})
	}
	sandbox := s.sandbox(pod)
	id := s.createIn(pod, sandbox, data, 0)
	s.start(id).noError()
	if c.until != "" {
		s.until("the program is ready", func() bool {
			_, err := os.Stat(filepath.Join(data, c.until))
			out, _ := s.written(id)
			return err == nil || strings.HasPrefix(out, c.until)
		})
		if c.command != "" {
			got := s.exec(id, append([]string{"/work"}, strings.Fields(c.command)...), 20*time.Second).noError()
			if got.ExitCode != 0 || string(got.Stdout) != c.said {
				s.Errorf("%s gave %d, %q; want 0, %q", c.command, got.ExitCode, got.Stdout, c.said)
			}
		}
		s.stop(id, c.grace).noError()
	}
	is := s.exited(id)
	reason := "Error"
	if c.code == 0 {
		reason = "Completed"
	}
	if is.ExitCode != c.code || is.Reason != reason {
		s.Errorf("it ended with %d, %s; want %d, %s", is.ExitCode, is.Reason, c.code, reason)
	}
	if !c.unread {
		var out, err string
		s.until("all is in the log", func() bool {
			out, err = s.written(id)
			return len(out) >= len(c.out) && len(err) >= len(c.err)
		})
		if out != c.out || err != c.err {
			s.Errorf("it wrote %q and %q, want %q and %q", out, err, c.out, c.err)
		}
	}
	if c.again != nil {
		next := s.createIn(pod, sandbox, data, 1)
		s.start(next).noError()
		check.Equal(s, s.exited(next).ExitCode, *c.again, "the next attempt ended with")
	}
	if got := filesIn(s, data); fmt.Sprint(got) != fmt.Sprint(c.files) {
		s.Errorf("files %v, want %v", got, c.files)
	}
}

func filesIn(s *suite, dir string) map[string]string {
	s.Helper()
	all := check.Value(os.ReadDir(dir))(s)
	files := map[string]string{}
	for _, f := range all {
		text := check.Value(os.ReadFile(filepath.Join(dir, f.Name())))(s)
		files[f.Name()] = string(text)
	}
	return files
}

// createIn creates the container of a pod with its variables and a directory of the host as /data.
func (s *suite) createIn(pod *v1.Pod, sandbox, data string, attempt uint32) string {
	s.Helper()
	c := &pod.Spec.Containers[0]
	env := check.Value(containerplan.EnvironmentOf(&podspec.Downward{Pod: pod}, podobjects.Set{}, nil, c, &containerplan.Expansion{Left: containerplan.MaxExpanded}))(s)
	img := s.image(c.Image)
	return begin(s, "CreateContainer", func(done func(string, error)) {
		s.Runtime.CreateContainer(context.Background(), port.CreateContainer{
			Pod: pod, Container: c, Attempt: attempt, SandboxID: sandbox, ImageRef: img.ID, Image: img, SpecHash: specHash,
			Env: env, Mounts: []containerplan.Mount{{Name: "data", ContainerPath: "/data", HostPath: data}},
			LogDirectory: s.LogDirectory(pod.Namespace, pod.Name, string(pod.UID)),
		}, done)
	}).noError()
}

// written is what a container's log has of its program's stdout and stderr, in the format of the CRI.
func (s *suite) written(id string) (out, err string) {
	s.Helper()
	text, e := os.ReadFile(s.status(id).noError().LogPath)
	if e != nil && !errors.Is(e, fs.ErrNotExist) {
		s.Fatal(e)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range strings.Lines(string(text)) {
		at, rest, _ := strings.Cut(line, " ")
		stream, rest, _ := strings.Cut(rest, " ")
		if _, e := time.Parse(time.RFC3339Nano, at); e != nil || !strings.HasPrefix(rest, "F ") {
			s.Fatalf("the log has the line %q", line)
		}
		switch stream {
		case "stdout":
			out += rest[2:]
		case "stderr":
			err += rest[2:]
		default:
			s.Fatalf("the log has the line %q", line)
		}
	}
	return out, err
}

// testWeb: it answers while it runs, at the pod's address, and nobody does afterwards.
func testWeb(s *suite, image string) {
	pod := s.pod(Program{Image: image})
	sandbox := s.sandbox(pod)
	id := s.createIn(pod, sandbox, s.TempDir(), 0)
	ips := s.sandboxStatus(sandbox).noError().IPs
	check.Fatal(s, check.Is(len(ips), 1, "the pod has the addresses %v", ips))
	get := func(path string) (string, error) {
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Get("http://" + net.JoinHostPort(ips[0], "8080") + path)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return fmt.Sprint(answer.StatusCode, " ", string(text)), err
	}
	if text, err := get("/"); err == nil {
		s.Errorf("before its start it answers %q", text)
	}
	s.start(id).noError()
	s.until("it answers", func() bool { _, err := get("/"); return err == nil })
	for path, want := range map[string]string{"/healthz": "200 ok\n", "/": "200 hello from " + pod.Name + "\n"} {
		check.Equal(s, check.Value(get(path))(s), want, "%s", path)
	}
	s.stop(id, 20*time.Second).noError()
	if c := s.status(id).noError(); c.State != observed.ContainerExited || c.ExitCode != 0 {
		s.Errorf("it is %v with %d, want it to have ended with 0", c.State, c.ExitCode)
	}
	if text, err := get("/"); err == nil {
		s.Errorf("after its end it answers %q", text)
	}
	var out string
	s.until("all is in the log", func() bool {
		out, _ = s.written(id)
		return strings.HasSuffix(out, "stop\n")
	})
	check.Equal(s, out, "web: listening on :8080\nweb: asked to stop\n", "it wrote")
}
