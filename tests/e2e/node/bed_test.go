package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// patience is for what takes a moment, on a busy machine too. Nothing here is a measurement.
const patience = 3 * time.Minute

var shared = lab.Shared{Name: "node"}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// onNewest runs a test on the newest release of containerd. The others are left to tests about what they do otherwise.
func onNewest(t *testing.T, test func(t *testing.T, release lab.Release)) {
	t.Parallel()
	test(t, lab.Containerd2)
}

// onEach runs a test on the newest release of containerd, and in full on every one, at once.
func onEach(t *testing.T, test func(t *testing.T, release lab.Release)) {
	t.Parallel()
	for _, release := range lab.TestedReleases() {
		t.Run("containerd-"+string(release), func(t *testing.T) {
			t.Parallel()
			test(t, release)
		})
	}
}

// bed is a node under test.
type bed struct {
	*Agent
	lab *lab.Lab
	dir string // for the test's own files
}

// newBed starts containerd and prepares an agent on it. What is left in the end fails the test.
func newBed(t *testing.T, release lab.Release, change ...func(*Config)) *bed {
	t.Helper()
	lab.Need(t, append(release.Needs(), lab.GoToolchain)...)
	binary := check.Value(shared.Troupe())(t)
	registry := check.Value(shared.Registry())(t)
	// t.TempDir has too long a path for sockets.
	dir := check.Value(os.MkdirTemp(shared.Dir, ""))(t)
	ctx, cancel := context.WithTimeout(context.Background(), lab.BuildTime)
	defer cancel()
	l := check.Value(
		lab.New(ctx, lab.Config{Dir: filepath.Join(dir, "c"), Release: release, Registry: registry, Log: t.Output()}))(t)
	b := &bed{lab: l, dir: filepath.Join(dir, "files")}
	t.Cleanup(func() { b.clean(t) })
	check.Fatal(t, l.Start(ctx))
	config := Config{Binary: binary, Dir: filepath.Join(dir, "n"), Endpoint: l.Endpoint(), CgroupRoot: l.CgroupRoot()}
	for _, c := range change {
		c(&config)
	}
	b.Agent = check.Value(New(config))(t)
	check.Fatal(t, os.MkdirAll(b.dir, 0o755))
	return b
}

func (b *bed) clean(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if t.Failed() && b.Agent != nil {
		if view, err := b.Pods(ctx); err == nil {
			t.Logf("pods at the end: %+v", view)
		}
		t.Logf("the end of the agent's log:\n%s", b.LogTail(8000))
		t.Logf("the end of containerd's log:\n%s", b.lab.LogTail(2000))
	}
	b.collect(t)
	if b.Agent != nil {
		check.Error(t, b.Stop(ctx))
	}
	if err := b.lab.Cleanup(ctx); err != nil {
		t.Errorf("clean up the lab: %v", err)
	}
	if b.Agent != nil {
		check.Error(t, b.Discard())
	}
}

// collect keeps what says why a test has failed, if it has.
func (b *bed) collect(t *testing.T) {
	t.Helper()
	reach := "containerd: crictl --runtime-endpoint " + b.lab.Endpoint() + " ps"
	if b.Agent != nil {
		reach += "\nagent: troupe tree --root-dir " + b.Root()
	}
	lab.Collect(t, reach, func(ctx context.Context, e lab.Evidence) {
		e.File("containerd.log", b.lab.LogPath())
		if b.Agent != nil {
			b.Collect(ctx, e)
		}
	})
}

// started is newBed with the agent started.
func started(t *testing.T, release lab.Release, change ...func(*Config)) *bed {
	t.Helper()
	b := newBed(t, release, change...)
	b.start(t)
	return b
}

func (b *bed) start(t *testing.T) {
	t.Helper()
	check.Fatal(t, b.Start(t.Context()))
}

func (b *bed) kill(t *testing.T) {
	t.Helper()
	check.Fatal(t, b.Kill(t.Context()))
}

// apply writes a manifest, filled in: each $NAME becomes the value of vars, $FILES the directory of
// the test's own files, $WORK and $WEB images.
func (b *bed) apply(t *testing.T, file, manifest string, vars ...string) {
	t.Helper()
	pairs := append([]string{"$FILES", b.dir, "$WORK", lab.WorkImage, "$WEB", lab.WebImage}, vars...)
	check.Fatal(t, b.Write(file, strings.NewReplacer(pairs...).Replace(manifest)))
}

func (b *bed) remove(t *testing.T, file string) {
	t.Helper()
	check.Fatal(t, b.Remove(file))
}

// await polls until condition holds.
func (b *bed) await(t *testing.T, what string, condition func() error) {
	t.Helper()
	check.Fatal(t, lab.Eventually(t.Context(), patience, what, condition))
}

// awaitPod polls until the agent lists the pod and condition holds of it, and returns it.
func (b *bed) awaitPod(t *testing.T, name, what string, condition func(Pod) error) Pod {
	t.Helper()
	var pod Pod
	b.await(t, "pod "+name+" "+what, func() error {
		view := check.Must(b.Pods(t.Context()))
		var there bool
		if pod, there = view.Pod(name); !there {
			return errors.New("it is not listed")
		}
		if err := condition(pod); err != nil {
			return fmt.Errorf("%w: %+v", err, pod)
		}
		return nil
	})
	return pod
}

func (b *bed) awaitRunning(t *testing.T, name string) Pod {
	t.Helper()
	return b.awaitPod(t, name, "runs", Pod.Running)
}

// awaitGone waits until neither agent nor runtime know the pod, and nothing of it is on disk.
func (b *bed) awaitGone(t *testing.T, name, uid string) {
	t.Helper()
	b.await(t, "pod "+name+" is gone", func() error {
		view := check.Must(b.Pods(t.Context()))
		if pod, there := view.Pod(name); there {
			return fmt.Errorf("it is listed: %+v", pod)
		}
		check.OK(b.look(t).Of(name).Empty())
		for _, pattern := range []string{filepath.Join(b.Root(), "pods", uid), filepath.Join(b.Logs(), "*"+uid+"*")} {
			left := check.Must(filepath.Glob(pattern))
			if len(left) > 0 {
				return fmt.Errorf("left: %v", left)
			}
		}
		return nil
	})
}

// look reads the runtime past the agent.
func (b *bed) look(t *testing.T) World {
	t.Helper()
	world := check.Value(Look(t.Context(), b.lab))(t)
	return world
}

// lines are those of one of the test's own files; none if it is not there.
func (b *bed) lines(file string) []string {
	text, err := os.ReadFile(filepath.Join(b.dir, file))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// awaitLines waits until a file has at least n lines, and returns them.
func (b *bed) awaitLines(t *testing.T, file string, n int) []string {
	t.Helper()
	var lines []string
	b.await(t, "file "+file, func() error {
		if lines = b.lines(file); len(lines) < n {
			return fmt.Errorf("it has %d lines of %d: %q", len(lines), n, lines)
		}
		return nil
	})
	return lines
}

// output is what a container's first run printed on stdout, from its log file.
func (b *bed) output(t *testing.T, pod Pod, container string) string {
	t.Helper()
	pattern := filepath.Join(b.Logs(), pod.Namespace+"_"+pod.Name+"_"+pod.UID, container, "0.log")
	text := check.Value(os.ReadFile(pattern))(t)
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		// time stream tag text
		if parts := strings.SplitN(line, " ", 4); len(parts) == 4 && parts[1] == "stdout" {
			out.WriteString(parts[3])
		}
	}
	return out.String()
}

// killOne kills the pod's one running container from outside.
func (b *bed) killOne(t *testing.T, name string) {
	t.Helper()
	running := b.look(t).Of(name).Running()
	check.Fatal(t, check.Is(len(running), 1, "pod %s has %d running containers; want one", name, len(running)))
	pid := check.Value(ContainerPID(t.Context(), b.lab, running[0].Id))(t)
	check.Fatal(t, syscall.Kill(pid, syscall.SIGKILL))
}

// noneDoubled fails the test if a pod has two living sandboxes or a container runs twice.
func (b *bed) noneDoubled(t *testing.T) {
	t.Helper()
	for _, twice := range b.look(t).Doubled() {
		t.Error(twice)
	}
}
