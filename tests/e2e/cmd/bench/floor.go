package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

const (
	podPatience = time.Minute
	// An agent with all the pods of a row gets this long for all of them.
	allPatience = 3 * time.Minute
)

func pull(ctx context.Context, l *lab.Lab, image string) error {
	_, err := l.Images().PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		return fmt.Errorf("pull %s: %w", image, err)
	}
	return nil
}

// bare is a pod made by direct CRI calls, as the node package's MarkPod says it.
type bare struct {
	name, dir string // dir has the marks
	sandbox   string
	config    *runtimeapi.PodSandboxConfig
}

func newBare(l *lab.Lab, name, marks string) (*bare, error) {
	logs := filepath.Join(l.Dir(), "floor-logs", name)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	return &bare{name: name, dir: marks, config: &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "floor", Uid: name + "-uid"},
		Hostname:     name,
		LogDirectory: logs,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{CgroupParent: l.CgroupRoot()},
	}}, nil
}

// run makes the sandbox and one container.
func (p *bare) run(ctx context.Context, l *lab.Lab) error {
	answer, err := l.Runtime().RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return fmt.Errorf("run sandbox %s: %w", p.name, err)
	}
	p.sandbox = answer.PodSandboxId
	if _, err := l.Runtime().PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.sandbox}); err != nil {
		return fmt.Errorf("ask for sandbox %s: %w", p.name, err)
	}
	return p.container(ctx, l, 0)
}

// container creates and starts the container's incarnation of that number.
func (p *bare) container(ctx context.Context, l *lab.Lab, attempt uint32) error {
	created, err := l.Runtime().CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.sandbox, SandboxConfig: p.config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main", Attempt: attempt},
			Image:    &runtimeapi.ImageSpec{Image: lab.WorkImage},
			Args:     node.MarkArgs(p.name),
			Mounts:   []*runtimeapi.Mount{{ContainerPath: "/marks", HostPath: p.dir}},
			LogPath:  fmt.Sprintf("main-%d.log", attempt),
			Linux:    &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		return fmt.Errorf("create container of %s: %w", p.name, err)
	}
	if _, err := l.Runtime().StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		return fmt.Errorf("start container of %s: %w", p.name, err)
	}
	return nil
}

// floorBurst runs n bare pods, so many at a time, and tells when each ran, counted from the begin.
// It removes them again.
func (b *bench) floorBurst(ctx context.Context, l *lab.Lab, n, workers int) (samples, error) {
	marks, err := b.marks()
	if err != nil {
		return nil, err
	}
	pods := make([]*bare, n)
	names := make([]string, n)
	for i := range pods {
		names[i] = fmt.Sprintf("floor-%03d", i)
		if pods[i], err = newBare(l, names[i], marks); err != nil {
			return nil, err
		}
	}
	queue := make(chan *bare, n)
	for _, p := range pods {
		queue <- p
	}
	close(queue)
	errs := make(chan error, n)
	var running sync.WaitGroup
	begin := time.Now()
	for range workers {
		running.Go(func() {
			for p := range queue {
				if err := p.run(ctx, l); err != nil {
					errs <- err
				}
			}
		})
	}
	running.Wait()
	select {
	case err := <-errs:
		return nil, fmt.Errorf("floor: %w", err)
	default:
	}
	at, err := node.AwaitMarks(ctx, podPatience, marks, 1, names...)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return since(begin, at), b.wipe(ctx, l)
}

// marks makes a fresh directory for marks. It goes with everything else in the end.
func (b *bench) marks() (dir string, err error) { return os.MkdirTemp(b.dir, "marks-") }

// wipe removes every pod past the agent, which must not run, and waits until none is left.
func (b *bench) wipe(ctx context.Context, l *lab.Lab) error {
	if err := l.RemovePods(ctx); err != nil {
		return err
	}
	err := lab.Eventually(ctx, podPatience, "nothing is left of the pods", func() error {
		if left := l.Leaks(); len(left) > 0 {
			return fmt.Errorf("%d things are, the first: %s", len(left), left[0])
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(l.Dir(), "floor-logs"))
}
