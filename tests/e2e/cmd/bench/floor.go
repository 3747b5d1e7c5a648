package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/tests/check"
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

// bare is the pod of the node package's MarkPod, made by direct CRI calls: the same requests as the
// agent's.
type bare struct {
	name    string
	pod     *v1.Pod
	node    *translate.Node
	sandbox string
}

func newBare(l *lab.Lab, name, marks string) (*bare, error) {
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(node.MarkPod(name, marks)), pod); err != nil {
		return nil, err
	}
	pod.UID = types.UID(name + "-uid")
	p := &bare{name: name, pod: pod, node: &translate.Node{
		PodLogs: filepath.Join(l.Dir(), "floor-logs"), LocalResolver: true, PossibleCPUs: runtime.NumCPU(),
		CgroupParent: func(*v1.Pod) string { return l.CgroupRoot() },
	}}
	if raw, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		if lowest, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil {
			p.node.OOMScoreAdjFloor = &lowest
		}
	}
	return p, os.MkdirAll(filepath.Join(translate.PodLogDirectory(p.node.PodLogs, pod), "main"), 0o755)
}

// run makes the sandbox and one container.
func (p *bare) run(ctx context.Context, l *lab.Lab) error {
	request, err := translate.Sandbox(p.node, &port.RunPodSandbox{Pod: p.pod})
	if err != nil {
		return err
	}
	answer, err := l.Runtime().RunPodSandbox(ctx, request)
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
	c := &p.pod.Spec.Containers[0]
	request, err := translate.Container(p.node, &port.CreateContainer{
		Pod: p.pod, Container: c, Attempt: attempt, SandboxID: p.sandbox, ImageRef: c.Image,
		Mounts: []containerplan.Mount{{Name: "marks", ContainerPath: "/marks", HostPath: p.pod.Spec.Volumes[0].HostPath.Path}},
	})
	if err != nil {
		return err
	}
	created, err := l.Runtime().CreateContainer(ctx, request)
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
func (b *bench) floorBurst(ctx context.Context, l *lab.Lab, n, workers int) (_ samples, err error) {
	defer check.Return(&err)
	marks := check.Must(b.marks())
	pods := make([]*bare, n)
	names := make([]string, n)
	for i := range pods {
		names[i] = fmt.Sprintf("floor-%03d", i)
		pods[i] = check.Must(newBare(l, names[i], marks))
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
func (b *bench) wipe(ctx context.Context, l *lab.Lab) (err error) {
	defer check.Return(&err)
	check.OK(l.RemovePods(ctx))
	// Those of an agent that was stopped before it removed them.
	check.OK(l.RemovePodCgroups(ctx))
	check.OK(lab.Eventually(ctx, podPatience, "nothing is left of the pods", func() error {
		if left := l.Leaks(); len(left) > 0 {
			return fmt.Errorf("%d things are, the first: %s", len(left), left[0])
		}
		return nil
	}))
	return os.RemoveAll(filepath.Join(l.Dir(), "floor-logs"))
}
