package lab

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// A StartContainer whose caller goes away just after the task was made, as an agent that is killed
// does, leaves the task behind: the container is Exited for the CRI, and can't be removed for its
// task is there (containerd issue 11037, in 1.6 as in 2.4). No call of the CRI helps.
var lostTask = regexp.MustCompile(`cannot delete running task ([0-9a-f]{64})`)

// lostIn is the container that a removal failed for, if it failed for this fault and nothing else.
func (l *Lab) lostIn(ctx context.Context, err error) (id string, lost bool) {
	found := lostTask.FindStringSubmatch(status.Convert(err).Message())
	if status.Code(err) != codes.FailedPrecondition || found == nil {
		return "", false
	}
	got, err := l.Runtime().ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: found[1]})
	s := got.GetStatus()
	return found[1], err == nil && s.State == runtimeapi.ContainerState_CONTAINER_EXITED && s.Reason == "StartError" &&
		strings.Contains(s.Message, "failed to get task pid: context canceled")
}

// unlessLost repeats a removal after the tasks that it stumbles over were deleted.
func (l *Lab) unlessLost(ctx context.Context, remove func() error) error {
	seen := map[string]bool{}
	for {
		err := remove()
		id, lost := l.lostIn(ctx, err)
		if !lost || seen[id] {
			return err
		}
		seen[id] = true
		l.say("containerd %s lost the task of container %s, whose start was cut off (containerd issue 11037): deleting the task past the CRI", l.config.Release, id)
		if e := l.deleteTask(ctx, id); e != nil {
			return errors.Join(err, e)
		}
	}
}

func (l *Lab) say(format string, args ...any) {
	if l.config.Log != nil {
		fmt.Fprintf(l.config.Log, format+"\n", args...)
	}
}

// deleteTask deletes a container's task by containerd's own API.
func (l *Lab) deleteTask(ctx context.Context, id string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	api := tasks.NewTasksClient(l.conn)
	return Eventually(ctx, 10*time.Second, "delete the task of container "+id, func() error {
		_, err := api.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
		if err == nil || status.Code(err) == codes.NotFound {
			return nil
		}
		_, e := api.Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(syscall.SIGKILL), All: true})
		return errors.Join(err, e)
	})
}

// LoseTask makes containers in a sandbox and cuts their starts off until containerd has lost the
// task of one, and returns that one. The others are removed. Config is the n-th container's. It is up
// to chance: with no luck the ID is empty.
func (l *Lab) LoseTask(ctx context.Context, sandboxID string, sandbox *runtimeapi.PodSandboxConfig, config func(n int) *runtimeapi.ContainerConfig) (string, error) {
	const atOnce, rounds = 6, 60
	after := 50 * time.Millisecond
	for round := range rounds {
		var ids []string
		for i := range atOnce {
			created, err := l.Runtime().CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
				PodSandboxId: sandboxID, SandboxConfig: sandbox, Config: config(round*atOnce + i),
			})
			if err != nil {
				return "", fmt.Errorf("create a container: %w", err)
			}
			ids = append(ids, created.ContainerId)
		}
		cut := l.cutOff
		if round%2 == 1 {
			cut = l.cutOffUnseen
		}
		if err := cut(ctx, ids, after); err != nil {
			return "", err
		}
		id, early, err := l.lostOf(ctx, ids)
		if err != nil || id != "" {
			return id, err
		}
		if round%2 == 1 {
			continue
		}
		// The task is lost between what is too early and what is too late.
		switch by := after / 64; early {
		case atOnce:
			after += 16 * by
		case 0:
			after -= 12 * by
		default:
			after += by * time.Duration(2*early-atOnce) / 2
		}
	}
	return "", nil
}

// cutOff starts containers and gives up on each, around that time later.
func (l *Lab) cutOff(ctx context.Context, ids []string, after time.Duration) error {
	var starts sync.WaitGroup
	for i, id := range ids {
		starts.Go(func() { l.startFor(ctx, id, after+after*time.Duration(2*i-len(ids))/64) })
	}
	starts.Wait()
	return nil
}

func (l *Lab) startFor(ctx context.Context, id string, d time.Duration) {
	ctx, cancel := context.WithCancel(ctx) // a deadline would be told to containerd
	defer cancel()
	defer time.AfterFunc(d, cancel).Stop()
	_, _ = l.Runtime().StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id}) // whether it works is not the point
}

// cutOffUnseen does so while containerd is stopped, half of that time later: when it goes on, it finds
// both that the task was made and that nobody waits for it, in the one order or the other.
func (l *Lab) cutOffUnseen(ctx context.Context, ids []string, after time.Duration) error {
	const made = 400 * time.Millisecond // by then the shim has made the task
	var starts sync.WaitGroup
	for _, id := range ids {
		starts.Go(func() { l.startFor(ctx, id, after/2+made) })
	}
	time.Sleep(after / 2)
	if err := syscall.Kill(l.PID(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop containerd: %w", err)
	}
	starts.Wait()
	if err := syscall.Kill(l.PID(), syscall.SIGCONT); err != nil {
		return fmt.Errorf("have containerd go on: %w", err)
	}
	return nil
}

// lostOf removes all of these containers but one whose task was lost, and returns that, and how many
// were cut off before they had a task.
func (l *Lab) lostOf(ctx context.Context, ids []string) (lost string, early int, err error) {
	for _, id := range ids {
		isEarly := false
		// In containerd the call goes on for a moment, and cleans up after itself; so long, the
		// container can't be removed.
		err := Eventually(ctx, 30*time.Second, "remove container "+id, func() error {
			remove := func() error {
				_, err := l.Runtime().RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
				return err
			}
			got := check.Must(l.Runtime().ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id}))
			isEarly = got.Status.State == runtimeapi.ContainerState_CONTAINER_CREATED || strings.Contains(got.Status.Message, "failed to create containerd task")
			err := remove()
			switch _, is := l.lostIn(ctx, err); {
			case !is:
				return err
			case lost == "":
				lost = id
				return nil
			default:
				return l.unlessLost(ctx, remove) // one is enough
			}
		})
		if err != nil {
			return "", 0, err
		}
		if isEarly {
			early++
		}
	}
	return lost, early, nil
}
