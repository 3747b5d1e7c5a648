package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// World is what is in the runtime, read past the agent.
type World struct {
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
}

// Runtime is a container runtime as tests see it past the agent: a lab's, or a served one.
type Runtime interface {
	Runtime() runtimeapi.RuntimeServiceClient
	// Leaks is what it has of pods that are gone.
	Leaks() []string
}

// Look reads the world.
func Look(ctx context.Context, l Runtime) (World, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	sandboxes, err := l.Runtime().ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return World{}, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := l.Runtime().ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return World{}, fmt.Errorf("list containers: %w", err)
	}
	return World{sandboxes.Items, containers.Containers}, nil
}

// ofPod says whether a pod's name in the runtime is that of a manifest.
func ofPod(full, name string) bool { return full == name || full == name+"-"+NodeName }

// Of is what belongs to one pod, named as in its manifest.
func (w World) Of(name string) World {
	var of World
	mine := map[string]bool{}
	for _, s := range w.Sandboxes {
		if ofPod(s.Metadata.GetName(), name) {
			mine[s.Id] = true
			of.Sandboxes = append(of.Sandboxes, s)
		}
	}
	for _, c := range w.Containers {
		if mine[c.PodSandboxId] || ofPod(c.Labels["io.kubernetes.pod.name"], name) {
			of.Containers = append(of.Containers, c)
		}
	}
	return of
}

// Ready are the sandboxes that live.
func (w World) Ready() []*runtimeapi.PodSandbox {
	return slices.DeleteFunc(slices.Clone(w.Sandboxes), func(s *runtimeapi.PodSandbox) bool {
		return s.State != runtimeapi.PodSandboxState_SANDBOX_READY
	})
}

// Running are the containers that run.
func (w World) Running() []*runtimeapi.Container {
	return slices.DeleteFunc(slices.Clone(w.Containers), func(c *runtimeapi.Container) bool {
		return c.State != runtimeapi.ContainerState_CONTAINER_RUNNING
	})
}

// RunningIDs are the IDs of the containers that run and of the sandboxes that live, sorted.
func (w World) RunningIDs() []string {
	var ids []string
	for _, c := range w.Running() {
		ids = append(ids, "container "+c.Labels["io.kubernetes.pod.name"]+"/"+c.Metadata.GetName()+" "+c.Id)
	}
	for _, s := range w.Ready() {
		ids = append(ids, "sandbox "+s.Metadata.GetName()+" "+s.Id)
	}
	slices.Sort(ids)
	return ids
}

// Doubled says which pods have more than one living sandbox, and which containers run twice.
func (w World) Doubled() []string {
	var found []string
	seen := map[string]int{}
	for _, s := range w.Ready() {
		seen["sandbox of "+s.Metadata.GetNamespace()+"/"+s.Metadata.GetName()]++
	}
	for _, c := range w.Running() {
		l := c.Labels
		seen["container "+c.Metadata.GetName()+" of "+l["io.kubernetes.pod.namespace"]+"/"+l["io.kubernetes.pod.name"]]++
	}
	for what, n := range seen {
		if n > 1 {
			found = append(found, fmt.Sprintf("%s: %d of them", what, n))
		}
	}
	slices.Sort(found)
	return found
}

// Empty is nil if nothing is there, dead or alive.
func (w World) Empty() error {
	if len(w.Sandboxes)+len(w.Containers) == 0 {
		return nil
	}
	var names []string
	for _, s := range w.Sandboxes {
		names = append(names, fmt.Sprintf("sandbox %s (%s)", s.Metadata.GetName(), s.State))
	}
	for _, c := range w.Containers {
		names = append(names, fmt.Sprintf("container %s of %s (%s)", c.Metadata.GetName(), c.Labels["io.kubernetes.pod.name"], c.State))
	}
	return errors.New(strings.Join(names, ", "))
}

// ContainerPID is the process ID of a running container, or of a sandbox, as the runtime's verbose
// status tells it.
func ContainerPID(ctx context.Context, l *lab.Lab, id string) (int, error) {
	answer, err := l.Runtime().ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0, fmt.Errorf("ask for container %s: %w", id, err)
	}
	return pidIn(answer.Info)
}

// SandboxPID is the process ID of a sandbox's pause program.
func SandboxPID(ctx context.Context, l *lab.Lab, id string) (int, error) {
	answer, err := l.Runtime().PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return 0, fmt.Errorf("ask for sandbox %s: %w", id, err)
	}
	return pidIn(answer.Info)
}

func pidIn(info map[string]string) (int, error) {
	var details struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(info["info"]), &details); err != nil {
		return 0, fmt.Errorf("read the runtime's verbose status: %w", err)
	}
	if details.PID == 0 {
		return 0, errors.New("the runtime's verbose status has no pid")
	}
	return details.PID, nil
}

// Leftovers are files, directories, mounts and network namespaces that a pod that is gone has left
// behind: what there is of the agent's directories of pods, logs and links, and of the runtime's.
func Leftovers(d *lab.Daemon, l Runtime) []string {
	var left []string
	for _, pattern := range []string{
		filepath.Join(d.Root(), "pods/*"),
		filepath.Join(d.Logs(), "*"),
		filepath.Join(d.Links(), "*"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // the patterns are ours
		}
		left = append(left, found...)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return append(left, err.Error())
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " "+d.Root()+"/") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	return append(left, l.Leaks()...)
}
