package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestFiftyPods is a node with many pods, in full fifty, to which everything happens that operators know: its runtime
// is killed, its runtime hangs for long, its checkpoints are spoilt, all its manifests are changed
// at once. No container that nobody touched is restarted.
//
//tier:all size: fifty pods; tests/damage spoils more checkpoints
func TestFiftyPods(t *testing.T) {
	t.Parallel()
	pods, hang := lab.Size(12, 50), lab.Size(12*time.Second, time.Minute)
	b := started(t, lab.Containerd2)
	name := func(i int) string { return fmt.Sprintf("p%02d", i) }
	all := func(what string, condition func(Pod) error) {
		t.Helper()
		begun := time.Now()
		check.Fatal(t, lab.Eventually(t.Context(), 3*patience, what, func() error {
			view := check.Must(b.Pods(t.Context()))
			for i := range pods {
				p, there := view.Pod(name(i))
				if !there {
					return fmt.Errorf("pod %s is not listed", name(i))
				}
				if err := condition(p); err != nil {
					return fmt.Errorf("%w: %+v", err, p)
				}
			}
			return nil
		}))
		t.Logf("%s after %v", what, time.Since(begun).Round(time.Millisecond))
	}
	for i := range pods {
		b.apply(t, name(i)+".yaml", restarts(name(i), "Always", "sleep"))
	}
	all("all run", Pod.Running)
	ran := b.look(t).RunningIDs()
	untouched := func(when string) {
		t.Helper()
		all("all run after "+when, func(p Pod) error {
			if p.Restarts > 0 {
				t.Fatalf("after %s pod %s is %+v", when, p.Name, p)
			}
			return p.Running()
		})
		if now := b.look(t).RunningIDs(); !slices.Equal(now, ran) {
			t.Fatalf("after %s what runs is\n%v\nbefore\n%v", when, now, ran)
		}
	}

	// The runtime is killed.
	check.Fatal(t, b.lab.Kill(t.Context()))
	b.await(t, "the agent says that the runtime is away", func() error { return b.silentRuntime(t) })
	check.Fatal(t, b.lab.Start(t.Context()))
	untouched("a killed runtime")

	// It hangs, and takes no calls. The agent answers meanwhile; one that is started says why it can't.
	signal := func(s syscall.Signal) {
		t.Helper()
		check.Fatal(t, syscall.Kill(b.lab.PID(), s))
	}
	signal(syscall.SIGSTOP)
	resumed := false
	defer func() {
		if !resumed {
			signal(syscall.SIGCONT)
		}
	}()
	hung := time.Now()
	b.await(t, "the agent says that the runtime is away", func() error { return b.silentRuntime(t) })
	all("all are still shown as they were", Pod.Running)
	b.apply(t, "late.yaml", restarts("late", "Always", "sleep"))
	if out, err := b.Command(t.Context(), b.Args()...); err == nil || !strings.Contains(err.Error(), "no container runtime answers at "+b.lab.Endpoint()) {
		t.Errorf("an agent that is started meanwhile ends with %v:\n%s", err, out)
	}
	all("all are still shown as they were", Pod.Running)
	if left := hang - time.Since(hung); left > 0 {
		<-time.After(left)
	}
	signal(syscall.SIGCONT)
	resumed = true
	b.awaitRunning(t, "late")
	b.remove(t, "late.yaml")
	b.await(t, "the late pod is gone", func() error { return b.look(t).Of("late").Empty() })
	untouched("a runtime that hung")

	// What the agent wrote down is spoilt.
	for _, c := range []struct {
		how   string
		spoil func(file string) error
		said  string
	}{
		{"cut off", func(file string) error { return os.Truncate(file, 10) }, "checkpoint is damaged and was set aside"},
		{"empty", func(file string) error { return os.Truncate(file, 0) }, "checkpoint is damaged and was set aside"},
		{"garbage", func(file string) error { return os.WriteFile(file, bytes.Repeat([]byte{0, 0xff}, 500), 0o600) }, "checkpoint is damaged and was set aside"},
		{"of another shape", func(file string) error {
			return os.WriteFile(file, []byte(`{"version": 99, "pods": "none", "containers": [1, 2]}`), 0o600)
		}, ""},
		{"a directory", func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o755)) }, "checkpoint is damaged and was set aside"},
	} {
		b.kill(t)
		file := filepath.Join(b.Root(), "checkpoints", "static-pods.json")
		check.Fatal(t, c.spoil(file))
		said := len(b.Log())
		b.start(t)
		untouched("a checkpoint that is " + c.how)
		if text := b.Log()[said:]; c.said != "" && (!strings.Contains(text, c.said) || !strings.Contains(text, "checkpoint=static-pods")) {
			t.Errorf("of a checkpoint that is %s the log says nothing:\n%s", c.how, text)
		}
	}

	// All are changed at once: each is another pod.
	before := map[string]bool{}
	for _, id := range ran {
		before[id] = true
	}
	for i := range pods {
		b.apply(t, name(i)+".yaml", restarts(name(i), "Always", "trap"))
	}
	all("all run as they are wanted now", func(p Pod) error {
		if err := p.Running(); err != nil {
			return err
		}
		for _, c := range p.Containers {
			if _, id, _ := strings.Cut(c.ID, "://"); before[id] {
				return errors.New("it is the old one")
			}
		}
		return nil
	})
	b.noneDoubled(t)
	b.await(t, "nothing of the old ones runs", func() error {
		n := len(b.look(t).Running())
		return check.That(n == pods, "%d containers run", n)
	})
	for i := range pods {
		b.remove(t, name(i)+".yaml")
	}
	b.await(t, "all are gone", func() error { return b.look(t).Empty() })
}

// silentRuntime is nil if the agent says that the runtime does not answer.
func (b *bed) silentRuntime(t *testing.T) error {
	t.Helper()
	ctx := t.Context()
	text, err := b.get(ctx, "/v1/pods")
	if err == nil && !bytes.Contains(text, []byte(`"runtime"`)) {
		err = errors.New("it does not say so")
	}
	return err
}

// TestDiskFull is an agent whose root directory has no room: what runs goes on, what needs room says
// so, also after a restart of the agent, and comes up when there is room again.
//
//tier:real
func TestDiskFull(t *testing.T) {
	t.Parallel()
	b := newBed(t, lab.Containerd2)
	check.Fatal(t, unix.Mount("tmpfs", b.Root(), "tmpfs", 0, "size=2m"))
	b.start(t)
	b.apply(t, "keep.yaml", restarts("keep", "Always", "sleep"))
	keep := b.awaitRunning(t, "keep")
	ballast := filepath.Join(b.Root(), "ballast")
	fill(t, ballast)
	needs := strings.Replace(restarts("needs", "Always", "sleep"), "  volumes:", "    env: [{name: A, value: b}]\n  volumes:", 1)
	b.apply(t, "needs.yaml", needs)
	full := func(p Pod) error {
		text := fmt.Sprintf("%+v", p)
		return check.That(strings.Contains(text, "no space left on device"), "it does not")
	}
	b.awaitPod(t, "needs", "says that there is no room", full)
	b.kill(t)
	b.start(t)
	b.awaitPod(t, "needs", "says so to the next agent", full)
	if p := b.awaitRunning(t, "keep"); !slices.EqualFunc(p.Containers, keep.Containers, sameContainer) {
		t.Errorf("the pod was %+v and is %+v", keep, p)
	}
	check.Fatal(t, os.Remove(ballast))
	b.awaitRunning(t, "needs")
	for _, name := range []string{"keep", "needs"} {
		b.remove(t, name+".yaml")
	}
	b.await(t, "all are gone", func() error { return b.look(t).Empty() })
}

// fill writes a file until the file system has no room.
func fill(t *testing.T, file string) {
	t.Helper()
	f := check.Value(os.Create(file))(t)
	defer f.Close()
	for size := 64 << 10; size > 0; {
		n, err := f.Write(make([]byte, size))
		if errors.Is(err, unix.ENOSPC) && n == 0 {
			size /= 2
		} else if err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}
