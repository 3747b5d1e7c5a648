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
// task of one, and returns that one. The others are removed. Config is the n-th container's.
func (l *Lab) LoseTask(ctx context.Context, sandboxID string, sandbox *runtimeapi.PodSandboxConfig, config func(n int) *runtimeapi.ContainerConfig) (string, error) {
	const atOnce, most = 6, 600
	// A start is cut off too early, or too late: in between is where the task is lost.
	if l.cutAfter == 0 {
		l.cutAfter = 50 * time.Millisecond
	}
	for n := 0; n < most; n += atOnce {
		tries := make([]cutOff, atOnce)
		var group sync.WaitGroup
		for i := range tries {
			group.Go(func() {
				after := l.cutAfter + l.cutAfter*time.Duration(2*i-atOnce)/64 // around it
				tries[i] = l.cutOff(ctx, sandboxID, sandbox, config(n+i), after)
			})
		}
		group.Wait()
		early := 0
		for _, try := range tries {
			switch {
			case try.err != nil:
				return "", try.err
			case try.lost:
				return try.id, nil
			case try.early:
				early++
			}
		}
		switch by := l.cutAfter / 64; early {
		case atOnce:
			l.cutAfter += 16 * by
		case 0:
			l.cutAfter -= 12 * by
		default:
			l.cutAfter += by * time.Duration(2*early-atOnce) / 2
		}
	}
	return "", fmt.Errorf("containerd %s lost the task of none of %d containers whose starts were cut off", l.config.Release, most)
}

// cutOff is what came of one start: lost, or too early, or too late. What is not lost was removed.
type cutOff struct {
	id          string
	lost, early bool
	err         error
}

func (l *Lab) cutOff(ctx context.Context, sandboxID string, sandbox *runtimeapi.PodSandboxConfig, config *runtimeapi.ContainerConfig, after time.Duration) (c cutOff) {
	created, err := l.Runtime().CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandboxID, SandboxConfig: sandbox, Config: config})
	if err != nil {
		return cutOff{err: fmt.Errorf("create a container: %w", err)}
	}
	c.id = created.ContainerId
	short, cancel := context.WithCancel(ctx) // a deadline would be told to containerd
	timer := time.AfterFunc(after, cancel)
	_, _ = l.Runtime().StartContainer(short, &runtimeapi.StartContainerRequest{ContainerId: c.id}) // whether it works is not the point
	timer.Stop()
	cancel()
	// In containerd the call goes on for a moment, and cleans up after itself; so long, it can't be removed.
	c.err = Eventually(ctx, 30*time.Second, "remove container "+c.id, func() error {
		got, err := l.Runtime().ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.id})
		if err != nil {
			return err
		}
		s := got.Status
		c.early = s.State == runtimeapi.ContainerState_CONTAINER_CREATED || strings.Contains(s.Message, "failed to create containerd task")
		_, err = l.Runtime().RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.id})
		if _, c.lost = l.lostIn(ctx, err); c.lost {
			return nil
		}
		return err
	})
	return c
}
