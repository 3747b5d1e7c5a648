package credentialplugins_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/credentialplugins"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type rig struct {
	*testing.T
	*credentialplugins.Plugins
	dir, root string
	log       *bytes.Buffer
	ran       chan string
}

func newRig(t *testing.T, timeout time.Duration) *rig {
	r := &rig{T: t, dir: t.TempDir(), root: t.TempDir(), log: &bytes.Buffer{}, ran: make(chan string, 10)}
	t.Setenv("HOME", t.TempDir())
	r.Plugins = credentialplugins.New(credentialplugins.Config{
		Dir: r.dir, Root: r.root, Log: zerolog.New(r.log), Timeout: timeout,
		Ran: func(plugin string, took time.Duration, failed bool) { r.ran <- fmt.Sprint(plugin, took > 0, failed) },
	})
	t.Cleanup(r.Close)
	return r
}

// run runs a script as a plugin.
func (r *rig) run(script, request string, args ...string) (string, error) {
	r.Helper()
	check.Fatal(r,
		os.WriteFile(filepath.Join(r.dir, "plugin"), []byte("#!/bin/sh\n"+script), 0o700)) //nolint:gosec // it is run
	return r.runs(&imagepull.Provider{Name: "plugin", Args: args, Env: []string{"MINE=yes"}}, request)
}

func (r *rig) runs(p *imagepull.Provider, request string) (string, error) {
	type result struct {
		data []byte
		err  error
	}
	got := make(chan result, 1)
	r.RunPlugin(r.Context(), p, []byte(request), func(data []byte, err error) { got <- result{data, err} })
	g := <-got
	return string(g.data), g.err
}

func TestRunPlugin(t *testing.T) {
	r := newRig(t, 0)
	t.Setenv("HOST_HAS", "this")
	got, err := r.run(`read -r line; echo "$line|$MINE|$HOST_HAS|$1|$2"; echo noise >&2`, "{}", "--flag", "two words")
	if want := "{}|yes|this|--flag|two words\n"; got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if ran := <-r.ran; ran != "plugintrue false" && ran != "plugintruefalse" {
		t.Errorf("counted %q", ran)
	}
	if r.log.Len() > 0 {
		t.Errorf("logged %s", r.log)
	}
	if _, err = r.run("exec 0<&-; echo fine", strings.Repeat("x", 1<<20)); err != nil && !strings.Contains(err.Error(), "pipe") {
		t.Errorf("one that does not read: %v", err)
	}
}

// TestNoDirectory: a plugin runs also if somebody has removed the working directory of the agent.
func TestNoDirectory(t *testing.T) {
	r, dir := newRig(t, 0), filepath.Join(t.TempDir(), "removed")
	check.Fatal(t, os.Mkdir(dir, 0o700))
	t.Chdir(dir)
	check.Fatal(t, os.Remove(dir))
	check.Equal(t, check.Value(r.run("pwd", "{}"))(t), "/\n", "where it runs")
}

// behind has a plugin start a process, and say which, in one step.
const behind = "sleep 1000 & echo $! > $PIDFILE.new; mv $PIDFILE.new $PIDFILE; "

// TestHostilePlugins: each failure has a reason, nothing runs afterwards, and no secret is in the log.
func TestHostilePlugins(t *testing.T) {
	const request = `{"serviceAccountToken":"tok-secret"}`
	for _, c := range []struct {
		name, script, want, logged string
		kind                       port.ErrorKind
	}{
		{"fails", "echo no tok-secret here >&2; echo more >&2; exit 3", "exit status 3", `"stderr":"no <token> here more"`, port.Other},
		{"hangs", behind + "wait", "no answer within 300ms: it was killed", "", port.Deadline},
		{"hangs, and ignores signals", "trap '' TERM INT HUP; " + behind + "while :; do wait; sleep 0.01; done", "it was killed", "", port.Deadline},
		{"floods stdout", behind + "yes secret", "more than 1048576 bytes", "", port.Other},
		{"floods stderr", "head -c 50000000 /dev/zero | tr '\\0' x >&2; exit 1", "exit status 1", "xxx", port.Other},
		{"leaves a process with its pipes", behind + "echo secret", "did not close its stdout", "", port.Other},
		{"is killed", "kill -9 $$", "signal: killed", "", port.Other},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout := 20 * time.Second
			if c.kind == port.Deadline {
				timeout = 300 * time.Millisecond
			}
			for {
				r := newRig(t, timeout)
				pidFile := filepath.Join(r.root, "pid")
				t.Setenv("PIDFILE", pidFile)
				data, err := r.run(c.script, request)
				want := strings.Replace(c.want, "300ms", timeout.String(), 1)
				if err == nil || data != "" || !strings.Contains(err.Error(), want) || port.KindOf(err) != c.kind {
					t.Errorf("%q, %v (%v)", data, err, port.KindOf(err))
				}
				r.Close()
				if log := r.log.String(); strings.Contains(log, "tok-secret") || !strings.Contains(log, c.logged) || len(log) > 1000 {
					t.Errorf("logged %s", log)
				}
				if !strings.HasPrefix(c.script, behind) && !strings.Contains(c.script, "; "+behind) {
					return
				}
				if text, err := os.ReadFile(pidFile); err == nil {
					awaitGone(t, string(text))
					return
				}
				if timeout *= 2; c.kind != port.Deadline || timeout > time.Minute {
					t.Fatal("the plugin did not run")
				} // it was killed before it had begun: the machine is busy
			}
		})
	}
}

// awaitGone waits until a process has ended.
func awaitGone(t *testing.T, text string) {
	t.Helper()
	pid := check.Value(strconv.Atoi(strings.TrimSpace(text)))(t)
	deadline := time.Now().Add(10 * time.Second)
	for ; time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}

// awaitFile waits until a plugin has made a file, and gives its content.
func awaitFile(t *testing.T, path string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
		if time.Now().After(deadline) {
			t.Fatal("the plugin does not run")
		}
	}
}

func TestNoProgram(t *testing.T) {
	r := newRig(t, 0)
	if _, err := r.runs(&imagepull.Provider{Name: "absent"}, "{}"); err == nil || !strings.Contains(err.Error(), "it can't be run: no such file") {
		t.Errorf("%v", err)
	}
}

// TestClose: plugins that run are killed, and none begins.
func TestClose(t *testing.T) {
	r := newRig(t, 0)
	pidFile := filepath.Join(r.root, "pid")
	t.Setenv("PIDFILE", pidFile)
	ended := make(chan error, 1)
	go func() {
		_, err := r.run("echo $$ > $PIDFILE.new; mv $PIDFILE.new $PIDFILE; exec sleep 1000", "{}")
		ended <- err
	}()
	pid := awaitFile(t, pidFile)
	r.Close()
	if err := <-ended; port.KindOf(err) != port.Canceled {
		t.Errorf("one that ran: %v", err)
	}
	awaitGone(t, pid)
	if _, err := r.run("echo", "{}"); port.KindOf(err) != port.Canceled {
		t.Errorf("one after that: %v", err)
	}
}

// TestDockerConfig: the first of the files that can be read counts.
func TestDockerConfig(t *testing.T) {
	r := newRig(t, 0)
	t.Chdir(t.TempDir())
	home := os.Getenv("HOME")
	read := func() string {
		got := make(chan string, 1)
		r.DockerConfig(t.Context(), func(data []byte, legacy bool, err error) { got <- fmt.Sprintf("%s %v %v", data, legacy, err) })
		return <-got
	}
	if got := read(); got != " false <nil>" {
		hosttest.Need(t, "a machine without such a file", errors.New(got))
	}
	content := func(path string, legacy string) string {
		if legacy == "true" {
			return fmt.Sprintf("{%q:{}}", path)
		}
		return fmt.Sprintf(`{"auths":{%q:{}}}`, path)
	}
	for _, f := range []struct{ path, want string }{
		{filepath.Join(home, ".dockercfg"), "true"}, {filepath.Join(r.root, ".dockercfg"), "true"},
		{filepath.Join(home, ".docker", "config.json"), "false"}, {filepath.Join(r.root, "config.json"), "false"},
	} {
		check.Fatal(t, os.MkdirAll(filepath.Dir(f.path), 0o700))
		check.Fatal(t, os.WriteFile(f.path, []byte(content(f.path, f.want)), 0o600))
		if got, want := read(), content(f.path, f.want)+" "+f.want+" <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check.Fatal(t, os.Remove(filepath.Join(r.root, "config.json")))
	check.Fatal(t, os.Mkdir(filepath.Join(r.root, "config.json"), 0o700))
	// One that is broken does not hide the next.
	next := filepath.Join(home, ".docker", "config.json")
	if got, want := read(), content(next, "false")+" false <nil>"; got != want {
		t.Errorf("after a directory: got %s, want %s", got, want)
	}
	for _, path := range []string{next, filepath.Join(r.root, ".dockercfg")} {
		check.Fatal(t, os.WriteFile(path, []byte("{"), 0o600))
	}
	next = filepath.Join(home, ".dockercfg")
	if got, want := read(), content(next, "true")+" true <nil>"; got != want {
		t.Errorf("after what is not JSON: got %s, want %s", got, want)
	}
	check.Fatal(t, os.Remove(next))
	if got := read(); !strings.Contains(got, filepath.Join(r.root, "config.json")) || !strings.Contains(got, "not a regular file") {
		t.Errorf("nothing is left: %s", got)
	}
}

// agentEnv makes this program an agent in the middle of a plugin that hangs: it has the root directory.
const agentEnv = "TEST_IS_AGENT"

// TestAgentIsKilled: a plugin that runs ends when the agent is killed, and so do the processes that it has started.
func TestAgentIsKilled(t *testing.T) {
	if root := os.Getenv(agentEnv); root != "" {
		p := credentialplugins.New(credentialplugins.Config{Dir: root})
		p.RunPlugin(t.Context(), &imagepull.Provider{Name: "plugin"}, []byte("{}"), func([]byte, error) {})
		select {}
	}
	root := t.TempDir()
	hosttest.Write(t, filepath.Join(root, "plugin"), "#!/bin/sh\ntrap '' TERM HUP\ncd "+root+
		"\nsleep 1000 & echo $! $$ $PPID > pids.new; mv pids.new pids; wait\nsleep 1000\n")
	check.Fatal(t, os.Chmod(filepath.Join(root, "plugin"), 0o700))
	agent := exec.Command(os.Args[0], "-test.run=^TestAgentIsKilled$")
	agent.Env = append(os.Environ(), agentEnv+"="+root)
	check.Fatal(t, agent.Start())
	pids := strings.Fields(awaitFile(t, filepath.Join(root, "pids")))
	if guard := pids[2]; guard == strconv.Itoa(agent.Process.Pid) {
		t.Fatal("the plugin has no guard")
	}
	check.Fatal(t, agent.Process.Kill())
	if err := agent.Wait(); err == nil {
		t.Fatal("the agent was not killed")
	}
	for _, pid := range pids {
		awaitGone(t, pid)
	}
}
