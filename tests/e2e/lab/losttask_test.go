package lab

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestLostTask holds what is known of containerd issue 11037, on each release: what the agent's
// words for an operator and [Lab.RemovePods] build upon. It needs minutes and some luck, so it is run
// with TROUPE_LOSE=1 alone. Once no task is lost any more, or a removal works, containerd was mended.
//
//tier:all a measure of containerd, run with TROUPE_LOSE=1
func TestLostTask(t *testing.T) {
	Asked(t, "TROUPE_LOSE", "it needs minutes and some luck")
	for _, release := range TestedReleases() {
		t.Run(string(release), func(t *testing.T) {
			t.Parallel()
			l := ForTest(t, release)
			var said bytes.Buffer
			l.config.Log = &said
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			lose := func(name string) (pod rawPod) {
				pod = makePod(ctx, t, l, name, WebImage)
				id, err := l.LoseTask(ctx, pod.sandbox, podConfig(l, name), func(n int) *runtimeapi.ContainerConfig {
					return containerConfig(fmt.Sprintf("c%d", n), WebImage)
				})
				switch {
				case err != nil:
					t.Fatal(err)
				case id == "":
					t.Fatal("containerd lost no task: try again")
				}
				pod.container = id
				l.wantLost(ctx, t, pod)
				return pod
			}

			pod := lose("restarted")
			calls := l.Runtime()
			if _, err := calls.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: pod.container}); err != nil {
				t.Error(err)
			}
			l.wantLost(ctx, t, pod)
			if _, err := calls.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: pod.container}); err == nil {
				t.Error("it can be started again")
			}
			if _, err := calls.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod.sandbox}); err != nil {
				t.Error(err)
			}
			l.wantLost(ctx, t, pod)
			check.Fatal(t, l.Restart(ctx))
			l.removes(ctx, t, "after a restart", pod)

			if ctr, err := exec.LookPath("ctr"); err == nil {
				pod = lose("deleted")
				out, err := output(ctx, "", nil, ctr, "--address", l.SocketPath(), "-n", "k8s.io", "tasks", "delete", "--force", pod.container)
				t.Logf("ctr tasks delete --force: %s %v", out, err)
				l.removes(ctx, t, "after ctr tasks delete --force", pod)
			}

			lose("left")
			check.Error(t, l.RemovePods(ctx))
			check.Has(t, said.String(), "11037", "it was not said that a task was deleted past the CRI, but")
		})
	}
}

// wantLost fails the test if the container or its sandbox can be removed.
func (l *Lab) wantLost(ctx context.Context, t *testing.T, pod rawPod) {
	t.Helper()
	if _, err := l.Runtime().RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: pod.container}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the container with the lost task: %v; want that it can't be removed", err)
	}
}

func (l *Lab) removes(ctx context.Context, t *testing.T, when string, pod rawPod) {
	t.Helper()
	if _, err := l.Runtime().RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: pod.container}); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	if err := l.removePod(ctx, pod.sandbox); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}
