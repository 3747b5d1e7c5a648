package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

const (
	// takeAll is the argument by which this program takes all memory.
	takeAll = "take-all-memory"
	// greedy is the name that the kernel has for the process then.
	greedy = "/run/greedy"
)

// takeAllMemory never returns without an error: the kernel is to choose this process.
func takeAllMemory() error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return err
	}
	for {
		const block, access, how = 32 << 20, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_POPULATE
		if _, err := unix.Mmap(-1, 0, block, access, how); err != nil {
			return fmt.Errorf("take memory: %w", err)
		}
	}
}

// systemOOM has a process outside of pods take all memory of the machine.
func (h *host) systemOOM(ctx context.Context) (err error) {
	defer check.Return(&err)
	api := check.Must(h.cluster())
	own := slices.Collect(maps.Keys(memoryPods))
	defer func() { err = errors.Join(err, deletePods(ctx, api, own...)) }()
	names := append([]string{"limits", "init-and-sidecar", "guaranteed"}, own...)
	before := check.Must(h.runningOf(ctx, names))
	if err := os.Symlink("/proc/self/exe", greedy); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	cmd := exec.CommandContext(ctx, greedy, takeAll)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the process was not killed: %w: %s", err, out)
	}
	fmt.Printf("--- a process that took all memory was killed after %v\n", time.Since(begin).Round(time.Millisecond))
	want := fmt.Sprintf("System OOM encountered, victim process: greedy, pid: %d", cmd.ProcessState.Pid())
	if err := await(ctx, "the Node has an event", func() error {
		of := metav1.ListOptions{FieldSelector: "reason=SystemOOM"}
		list := check.Must(api.CoreV1().Events(metav1.NamespaceDefault).List(ctx, of))
		var messages []string
		for i := range list.Items {
			e := &list.Items[i]
			if o := e.InvolvedObject; o.Kind == "Node" && o.Name == node.NodeName && e.Type == "Warning" && e.Message == want {
				return nil
			}
			messages = append(messages, e.InvolvedObject.Name+": "+e.Message)
		}
		return fmt.Errorf("events are %q, want %q", messages, want)
	}); err != nil {
		return err
	}
	after, err := h.runningOf(ctx, names)
	if err == nil && !slices.Equal(before, after) {
		err = fmt.Errorf("running before: %v\nafter: %v", before, after)
	}
	return errors.Join(err, h.agent.Running())
}

// runningOf are the containers and sandboxes of pods that run. Each pod has some.
func (h *host) runningOf(ctx context.Context, names []string) (ids []string, err error) {
	world, err := node.Look(ctx, h.lab)
	for _, name := range names {
		of := world.Of(name).RunningIDs()
		if len(of) < 2 && err == nil {
			err = fmt.Errorf("pod %s does not run: %v", name, of)
		}
		ids = append(ids, of...)
	}
	return ids, err
}
