package cluster

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// spoken are the protocols that kubectl speaks, with what makes it do so.
var spoken = map[string][]string{
	"WebSocket": nil,
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

var (
	much   = lab.Size[int64](8<<20, 100<<20)
	poured = lab.Size[int64](32<<20, 1<<30)
)

// tools is a pod with a shell and tar.
func (b *bed) tools(t *testing.T, name string) {
	t.Helper()
	b.create(t, b.pod(name, func(s *v1.PodSpec) {
		s.Containers[0].Image, s.Containers[0].Args = lab.BusyboxImage, []string{"sleep", "100000"}
		s.TerminationGracePeriodSeconds = new(int64(0))
	}))
	b.awaitPod(t, name, "is ready", ready)
}

// TestKubectlExec is what people do in containers: exit codes, both outputs, much through stdin and
// back, a terminal that changes its size, and what is said if it can't be.
//
//tier:real
func TestKubectlExec(t *testing.T) {
	t.Parallel()
	b := started(t, "exec", callable(t))
	b.create(t, b.pod("app", work("sleep")))
	b.create(t, b.pod("half", func(s *v1.PodSpec) {
		work("sleep")(s)
		s.Containers = append(s.Containers, v1.Container{Name: "done", Image: lab.WorkImage, Args: []string{"exit", "0"}})
		s.RestartPolicy = v1.RestartPolicyNever
	}))
	b.awaitPod(t, "app", "is ready", ready)
	b.awaitPod(t, "half", "has a container that has ended", func(p *v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if c.Name == "done" && c.State.Terminated != nil {
				return nil
			}
		}
		return errors.New("it runs")
	})
	for name, env := range spoken {
		t.Run(name, func(t *testing.T) {
			kubectl := func(args ...string) *exec.Cmd {
				cmd := b.command(t, args...)
				cmd.Env = append(cmd.Env, env...)
				return cmd
			}
			for _, code := range []int{0, 1, 7, 137} {
				s := finish(t, kubectl("exec", "app", "--", "/work", "print", "out", "then", "warn", "err", "then", "exit", strconv.Itoa(code)), nil)
				// kubectl may log before it that a frame came before it had a stream for it.
				if s.code != code || s.out != "out\n" || !strings.Contains(s.err, "err\n") {
					t.Errorf("exit %d: %+v", code, s)
				}
			}
			for _, c := range []struct {
				args []string
				text string
			}{
				{[]string{"exec", "half", "-c", "done", "--", "/work", "id"}, `container not found ("done")`},
				{[]string{"exec", "app", "--", "/nothing"}, "no such file or directory"},
				{[]string{"exec", "nobody", "--", "/work", "id"}, `pods "nobody" not found`},
				{[]string{"exec", "app", "-c", "nothing", "--", "/work", "id"}, "container nothing"},
			} {
				if s := finish(t, kubectl(c.args...), nil); s.code == 0 || !strings.Contains(s.err, c.text) {
					t.Errorf("%s: %+v, want %s", c.args, s, c.text)
				}
			}
			sent, got := sha256.New(), sha256.New()
			var back counter
			cmd := kubectl("exec", "-i", "app", "--", "/work", "echo")
			var errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = io.TeeReader(io.LimitReader(rand.Reader, much), sent), io.MultiWriter(got, &back), &errs
			if err := cmd.Run(); err != nil || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
				t.Errorf("%d bytes through stdin, %d back: %v %s; they are the same: %t", much, back, err, &errs, bytes.Equal(sent.Sum(nil), got.Sum(nil)))
			}
			term := onTerminal(t, kubectl("exec", "-it", "app", "--", "/work", "screen"), 80, 24)
			term.await(t, "screen 80x24")
			term.resize(t, 132, 50)
			term.await(t, "screen 132x50")
			term.enter(t, "bye\n")
			if code := term.end(t); code != 0 || !strings.Contains(term.text(), `read "bye\n"`) {
				t.Errorf("it ended with %d and showed %q", code, term.text())
			}
		})
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// TestKubectlCopy copies a large file into a container, and back.
//
//tier:real
func TestKubectlCopy(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.Busybox)
	b := started(t, "copy", callable(t))
	b.tools(t, "tools")
	dir := t.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	f := check.Value(os.Create(there))(t)
	sum := sha256.New()
	check.Value(io.CopyN(io.MultiWriter(f, sum), rand.Reader, much))(t)
	check.Fatal(t, f.Close())
	if s := b.do(t, nil, "cp", there, "tools:/tmp/file"); s.code != 0 {
		t.Fatalf("%+v", s)
	}
	if s := b.do(t, nil, "exec", "tools", "--", "sha256sum", "/tmp/file"); s.out != fmt.Sprintf("%x  /tmp/file\n", sum.Sum(nil)) {
		t.Errorf("in the container: %+v, want %x", s, sum.Sum(nil))
	}
	if s := b.do(t, nil, "cp", "tools:/tmp/file", back); s.code != 0 {
		t.Fatalf("%+v", s)
	}
	if got := sumOf(t, back); got != fmt.Sprintf("%x", sum.Sum(nil)) {
		t.Errorf("what came back is %s, want %x", got, sum.Sum(nil))
	}
}

func sumOf(t *testing.T, file string) string {
	t.Helper()
	f := check.Value(os.Open(file))(t)
	defer f.Close()
	sum := sha256.New()
	check.Value(io.Copy(sum, f))(t)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// TestKubectlAttach joins a process that has a terminal, and one that has none.
//
//tier:real
func TestKubectlAttach(t *testing.T) {
	t.Parallel()
	b := started(t, "attach", callable(t))
	for name, env := range spoken {
		t.Run(name, func(t *testing.T) {
			screen, pipe := strings.ToLower(name)+"-screen", strings.ToLower(name)+"-pipe"
			b.create(t, b.pod(screen, func(s *v1.PodSpec) {
				work("screen")(s)
				s.Containers[0].TTY, s.Containers[0].Stdin = true, true
				s.RestartPolicy = v1.RestartPolicyNever
			}))
			b.create(t, b.pod(pipe, func(s *v1.PodSpec) {
				work("echo")(s)
				s.Containers[0].Stdin, s.Containers[0].StdinOnce = true, true
				s.RestartPolicy = v1.RestartPolicyNever
			}))
			b.awaitPod(t, screen, "is ready", ready)
			b.awaitPod(t, pipe, "is ready", ready)
			cmd := b.command(t, "attach", "-it", screen)
			cmd.Env = append(cmd.Env, env...)
			term := onTerminal(t, cmd, 90, 30)
			term.await(t, "screen 90x30")
			term.resize(t, 100, 40)
			term.await(t, "screen 100x40")
			term.enter(t, "bye\n")
			if code := term.end(t); code != 0 || !strings.Contains(term.text(), `read "bye\n"`) {
				t.Errorf("it ended with %d and showed %q", code, term.text())
			}
			b.awaitPod(t, screen, "has ended", phase(v1.PodSucceeded))
			cmd = b.command(t, "attach", "-i", pipe)
			cmd.Env = append(cmd.Env, env...)
			if s := finish(t, cmd, strings.NewReader("one\ntwo\n")); s.code != 0 || s.out != "one\ntwo\n" {
				t.Errorf("%+v", s)
			}
			b.awaitPod(t, pipe, "has ended with its stdin", phase(v1.PodSucceeded))
			if s := b.do(t, nil, "attach", pipe); s.code == 0 {
				t.Errorf("of one that has ended: %+v", s)
			}
		})
	}
}

// TestKubectlDebug puts a container with a terminal into a pod that runs, and works in it.
//
//tier:real
func TestKubectlDebug(t *testing.T) {
	t.Parallel()
	b := started(t, "debug", callable(t))
	b.create(t, b.pod("web", nil))
	b.awaitPod(t, "web", "is ready", ready)
	term := onTerminal(t, b.command(t, "debug", "web", "-it", "--image", lab.WorkImage, "--target", "app", "--", "/work", "screen"), 80, 24)
	term.await(t, "screen 80x24")
	term.enter(t, "bye\n")
	if code := term.end(t); code != 0 {
		t.Errorf("it ended with %d and showed %q", code, term.text())
	}
	b.awaitPod(t, "web", "is ready, and the container in it has ended", func(p *v1.Pod) error {
		if len(p.Status.EphemeralContainerStatuses) != 1 || p.Status.EphemeralContainerStatuses[0].State.Terminated == nil {
			return errors.New("it has not")
		}
		return ready(p)
	})
}

// TestRunOverAPI is the call that has no kubectl command: a command to its end, with its output.
//
//tier:real
func TestRunOverAPI(t *testing.T) {
	t.Parallel()
	b := started(t, "run", callable(t))
	b.create(t, b.pod("app", work("sleep")))
	p := b.awaitPod(t, "app", "is ready", ready)
	client, at := b.client(t) // the apiserver proxies to no loopback address
	at += "/run/" + b.name + "/"
	for _, c := range []struct {
		rest   string
		status int
		text   string
	}{
		{"app/app?cmd=/work+print+it+works", http.StatusOK, "it works\n"},
		{"app/" + string(p.UID) + "/app?cmd=/work+print+it+works", http.StatusOK, "it works\n"},
		{"app/app?cmd=/work+exit+3", http.StatusInternalServerError, "command '/work exit 3' exited with 3: "},
		{"app/none?cmd=/work+id", http.StatusInternalServerError, `container not found ("none")`},
		{"nobody/app?cmd=/work+id", http.StatusNotFound, "pod does not exist"},
		{"app/other/app?cmd=/work", http.StatusInternalServerError, `container not found ("app")`},
		{"app/app", http.StatusBadRequest, `query parameter "cmd" is required`},
	} {
		r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, at+c.rest, nil))(t)
		answer := check.Value(client.Do(r))(t)
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.status || !strings.HasPrefix(string(text), c.text) {
			t.Errorf("%s: %s %s %v, want %d %s", c.rest, answer.Status, text, err, c.status, c.text)
		}
	}
}

// forward starts kubectl port-forward and returns its local address for each port.
func (b *bed) forward(t *testing.T, env []string, pod string, ports ...string) (*exec.Cmd, []string) {
	t.Helper()
	args := []string{"port-forward", "--address", "127.0.0.1", pod}
	for _, p := range ports {
		args = append(args, ":"+p)
	}
	cmd := b.command(t, args...)
	cmd.Env = append(cmd.Env, env...)
	out := check.Value(cmd.StdoutPipe())(t)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	check.Fatal(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	lines := bufio.NewScanner(out)
	line := regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) -> `)
	var at []string
	for len(at) < len(ports) && lines.Scan() {
		if m := line.FindStringSubmatch(lines.Text()); m != nil {
			at = append(at, m[1])
		}
	}
	if len(at) < len(ports) {
		t.Fatalf("kubectl port-forward: %s", &errs)
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // it tells of each connection
	return cmd, at
}

// TestKubectlPortForward has many connections at once, and much through one.
//
//tier:real
func TestKubectlPortForward(t *testing.T) {
	t.Parallel()
	b := started(t, "forward", callable(t))
	b.create(t, b.pod("app", func(s *v1.PodSpec) {
		work("listen 9000")(s)
		s.Containers = append(s.Containers, v1.Container{Name: "pour", Image: lab.WorkImage, Args: []string{"pour", "9001", strconv.FormatInt(poured, 10)}})
	}))
	b.awaitPod(t, "app", "is ready", ready)
	for name, env := range spoken {
		t.Run(name, func(t *testing.T) {
			_, at := b.forward(t, env, "app", "9000", "9001")
			var all sync.WaitGroup
			for i := range lab.Size(20, 100) {
				all.Go(func() {
					if err := echoed(at[0], i, 1<<20); err != nil {
						t.Errorf("connection %d: %v", i, err)
					}
				})
			}
			all.Wait()
			want, got := sha256.New(), sha256.New()
			all.Go(func() { io.CopyN(want, mathrand.NewChaCha8([32]byte{}), poured) }) //nolint:errcheck // neither fails
			n, err := drain(at[1], got)
			all.Wait()
			if err != nil || n != poured || !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
				t.Errorf("%d bytes of %d came; the right ones: %t; %v", n, poured, bytes.Equal(want.Sum(nil), got.Sum(nil)), err)
			}
			_, at = b.forward(t, env, "app", "9")
			if n, err := drain(at[0], sha256.New()); n > 0 {
				t.Errorf("a port where nobody listens gave %d bytes, %v", n, err)
			}
		})
	}
	if s := b.do(t, nil, "port-forward", "nobody", ":80"); s.code == 0 || !strings.Contains(s.err, `pods "nobody" not found`) {
		t.Errorf("%+v", s)
	}
}

// echoed sends n bytes and reads them back. Its end comes back, too. That is sent when the bytes are back: after
// the end of one direction containerd cuts the other one off within a second.
func echoed(address string, seed, n int) (err error) {
	defer check.Return(&err)
	conn := check.Must(net.Dial("tcp", address))
	defer conn.Close()
	sent, got := make([]byte, n), make([]byte, n)
	mathrand.NewChaCha8([32]byte{byte(seed)}).Read(sent) //nolint:errcheck // it does not fail
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		failed <- err
	}()
	back, err := io.ReadFull(conn, got)
	if err = errors.Join(err, <-failed); err != nil || !bytes.Equal(got, sent) {
		return errors.Join(err, fmt.Errorf("%d of %d bytes came back, or others", back, n))
	}
	check.OK(conn.(*net.TCPConn).CloseWrite())
	rest, err := io.ReadAll(conn)
	if len(rest) > 0 {
		err = fmt.Errorf("%d bytes came back that nobody sent", len(rest))
	}
	return err
}

// drain reads all that a connection gives.
func drain(address string, into hash.Hash) (int64, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return io.Copy(into, conn)
}

// TestKubectlIsKilled cuts streams off in the middle: nothing may stay in the agent, and of what was
// started in the container only what takes no notice.
//
//tier:all a repetition of KubectlExec and KubectlAttach that waits
func TestKubectlIsKilled(t *testing.T) {
	t.Parallel()
	b := started(t, "cut", callable(t))
	b.create(t, b.pod("app", work("listen 9000")))
	b.awaitPod(t, "app", "is ready", ready)
	goroutines := func() int {
		tree := check.Value(b.Tree(t.Context()))(t)
		return tree.Goroutines
	}
	rounds := 0
	round := func(n int, env []string) {
		var cmds []*exec.Cmd
		rounds++
		end := fmt.Sprint("/end-", rounds)
		for i := range n {
			mark := fmt.Sprintf("/%s-%d-%d", b.name, os.Getpid(), i)
			// One reads its stdin, and so learns that nobody is there.
			reader := b.command(t, "exec", "-i", "app", "--", "/work", "touch", mark, "then", "echo")
			silent := b.command(t, "exec", "app", "--", "/work", "await", end, "then", "touch", mark)
			stdin := check.Value(reader.StdinPipe())(t)
			t.Cleanup(func() { stdin.Close() })
			for _, cmd := range []*exec.Cmd{reader, silent} {
				cmd.Env = append(cmd.Env, env...)
				check.Fatal(t, cmd.Start())
				cmds = append(cmds, cmd)
			}
			forwarding, _ := b.forward(t, env, "app", "9000")
			cmds = append(cmds, forwarding)
		}
		b.await(t, "all commands run", func() error {
			got := processes(t, "/"+b.name+"-"+strconv.Itoa(os.Getpid())+"-")
			return check.That(len(got) == 2*n, "%d of them: %q", len(got), got)
		})
		for _, cmd := range cmds {
			check.Error(t, cmd.Process.Kill())
			cmd.Wait() //nolint:errcheck // it was killed
		}
		b.await(t, "those that read have ended", func() error {
			got := processes(t, "/"+b.name+"-"+strconv.Itoa(os.Getpid())+"-")
			if i := slices.IndexFunc(got, func(c string) bool { return strings.Contains(c, "echo") }); i >= 0 {
				return fmt.Errorf("%s runs", got[i])
			}
			return nil
		})
		t.Logf("left in the container, until it ends by itself: %d of %d that do not read", len(processes(t, "/"+b.name+"-"+strconv.Itoa(os.Getpid())+"-")), n)
		if s := b.do(t, nil, "exec", "app", "--", "/work", "touch", end); s.code != 0 {
			t.Fatalf("%+v", s)
		}
		b.await(t, "those that do not read have ended by themselves", func() error {
			got := processes(t, "/"+b.name+"-"+strconv.Itoa(os.Getpid())+"-")
			return check.That(len(got) == 0, "%q run", got)
		})
	}
	for name, env := range spoken {
		t.Run(name, func(t *testing.T) {
			round(1, env) // what is made once is not a leak
			before := goroutines()
			round(4, env)
			b.await(t, "nothing is left in the agent", func() error {
				// Some connections to the apiserver come and go by themselves.
				now := goroutines()
				return check.That(now <= before+3, "%d goroutines, there were %d", now, before)
			})
		})
	}
}

// processes are the command lines on this machine that have a text in them and are a container's.
func processes(t *testing.T, text string) (out []string) {
	t.Helper()
	files := check.Value(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && bytes.HasPrefix(line, []byte("/work\x00")) && bytes.Contains(line, []byte(text)) {
			out = append(out, strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "))
		}
	}
	return out
}
