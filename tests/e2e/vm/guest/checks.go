package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

// example writes a manifest of docs/examples.
func (h *host) example(name string) error {
	text, err := os.ReadFile(filepath.Join(vm.ExamplesDir, name+".yaml"))
	if err != nil {
		return err
	}
	return h.agent.Write(name+".yaml", string(text))
}

// running waits for the plainest pod. The one that crashes has its time to do so meanwhile; the
// others come one after another, for the machine is slow.
func (h *host) running(ctx context.Context) error {
	if err := errors.Join(h.agent.Write("crash.yaml", crashPod), h.agent.Write("limits.yaml", limitsPod)); err != nil {
		return err
	}
	_, err := h.awaitPod(ctx, "limits", "runs", node.Pod.Running)
	return err
}

func serves(ctx context.Context, ip, want string) error {
	return await(ctx, "the pod at "+ip+" serves", func() error { return lab.Serves(ctx, "http://"+ip+":8080/", want) })
}

func (h *host) sidecar(ctx context.Context) (err error) {
	defer check.Return(&err)
	check.OK(h.example("init-and-sidecar"))
	pod := check.Must(h.awaitPod(ctx, "init-and-sidecar", "runs", node.Pod.Running))
	if c := pod.Container("prepare"); c.State != "terminated" || c.ExitCode == nil || *c.ExitCode != 0 {
		return fmt.Errorf("the init container is %+v; want it completed", c)
	}
	return serves(ctx, pod.IP, "written by the init container\nand by the sidecar\n")
}

// crashPod ends at once. Its first restart comes at once, the next after ten seconds.
var crashPod = node.Manifest("crash", 1, `
  containers:
  - {name: main, image: `+lab.WorkImage+`, args: [exit, "3"]}`)

func (h *host) crash(ctx context.Context) (err error) {
	defer check.Return(&err)
	pod := check.Must(h.awaitPod(ctx, "crash", "has restarted twice and waits", func(p node.Pod) error {
		c := p.Container("main")
		return check.That(c.Restarts >= 2 && c.State == "waiting" && c.Reason == "CrashLoopBackOff", "it does not")
	}))
	// The count is the newest attempt in the runtime: three runs are two restarts.
	world := check.Must(node.Look(ctx, h.lab))
	newest := uint32(0)
	for _, c := range world.Of("crash").Containers {
		newest = max(newest, c.Metadata.GetAttempt())
	}
	got := pod.Container("main").Restarts
	return check.That(got == int(newest), "%d restarts are counted; the runtime's newest attempt is %d", got, newest)
}

var limitsPod = node.Manifest("limits", 1, `
  containers:
  - name: small
    image: `+lab.WorkImage+`
    args: [sleep]
    resources:
      requests: {cpu: 100m, memory: 16Mi}
      limits: {cpu: 250m, memory: 48Mi}
  - name: free
    image: `+lab.WorkImage+`
    args: [sleep]`)

func (h *host) limits(ctx context.Context) (err error) {
	defer check.Return(&err)
	var wrong error
	weights := map[string]int{}
	for _, want := range []struct{ container, cpu, memory string }{
		{"small", "25000 100000", strconv.Itoa(48 << 20)},
		{"free", "max 100000", "max"},
	} {
		files := check.Must(h.ofContainer(ctx, "limits", want.container, "cpu.max", "memory.max", "cpu.weight"))
		if files["cpu.max"] != want.cpu || files["memory.max"] != want.memory {
			wrong = errors.Join(wrong, fmt.Errorf("container %s has cpu.max %q, memory.max %q; want %q, %q",
				want.container, files["cpu.max"], files["memory.max"], want.cpu, want.memory))
		}
		weights[want.container] = check.Must(strconv.Atoi(files["cpu.weight"]))
	}
	// How shares become weights is the runtime's: only their order is sure.
	if weights["free"] >= weights["small"] {
		wrong = errors.Join(wrong, fmt.Errorf("cpu.weight is %v; want free < small", weights))
	}
	return wrong
}

// podLimits looks at the cgroups above those of containers. The weights are those that
// shares of 102 and of 2 become (KEP-2254).
func (h *host) podLimits(ctx context.Context) (err error) {
	defer check.Return(&err)
	crash := check.Must(h.awaitPod(ctx, "crash", "is listed", func(node.Pod) error { return nil }))
	// The plainest pod of the third class.
	check.OK(h.agent.Write("guaranteed.yaml", guaranteedPod))
	check.Must(h.awaitPod(ctx, "guaranteed", "runs", node.Pod.Running))
	limits, guaranteed := h.podDir("burstable", h.uids["limits"]), h.podDir("", h.uids["guaranteed"])
	bestEffort := h.podDir("besteffort", crash.UID)
	return await(ctx, "the cgroups of pods are as wanted", func() error {
		var wrong error
		for file, want := range map[string]string{
			h.classDir("besteffort") + "/cpu.weight": "1",
			h.classDir("burstable") + "/cpu.weight":  "4",
			limits + "/cpu.weight":                   "4",
			limits + "/cpu.max":                      "max 100000", // one container has no limit
			limits + "/memory.max":                   "max",
			limits + "/pids.max":                     "500",
			bestEffort + "/cpu.weight":               "1",
			bestEffort + "/memory.max":               "max",
			bestEffort + "/pids.max":                 "500",
			guaranteed + "/cpu.weight":               "8",
			guaranteed + "/cpu.max":                  "20000 100000",
			guaranteed + "/memory.max":               strconv.Itoa(32 << 20),
		} {
			got, err := control(file)
			if err == nil && got != want {
				err = fmt.Errorf("%s is %q, want %q", file, got, want)
			}
			wrong = errors.Join(wrong, err)
		}
		if got, err := control(h.classDir("") + "/memory.max"); err != nil || got == "max" {
			wrong = errors.Join(wrong, fmt.Errorf("memory.max of all pods is %q, %v; want what is allocatable", got, err))
		}
		return wrong
	})
}

// guaranteedPod has requests as high as its limits.
var guaranteedPod = node.Manifest("guaranteed", 1, `
  containers:
  - name: main
    image: `+lab.WorkImage+`
    args: [sleep]
    resources: {limits: {cpu: 200m, memory: 32Mi}}`)

// control reads a file of a cgroup.
func control(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// classDir is the cgroup of the pods of a class, and for "" that of all pods, where Guaranteed ones are.
func (h *host) classDir(class string) string {
	if h.machine == vm.Systemd {
		dir := filepath.Join(cgroups, "kubepods.slice")
		if class != "" {
			dir = filepath.Join(dir, "kubepods-"+class+".slice")
		}
		return dir
	}
	return filepath.Join(cgroups, h.lab.CgroupRoot(), "kubepods", class)
}

// podDir is the cgroup of a pod.
func (h *host) podDir(class, uid string) string {
	if h.machine == vm.Systemd {
		name := strings.TrimSuffix(filepath.Base(h.classDir(class)), ".slice") + "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
		return filepath.Join(h.classDir(class), name)
	}
	return filepath.Join(h.classDir(class), "pod"+uid)
}

// containerDir is the cgroup of a container in that of its pod.
func (h *host) containerDir(pod, id string) string {
	if h.machine == vm.Systemd {
		return filepath.Join(pod, "cri-containerd-"+id+".scope")
	}
	return filepath.Join(pod, id)
}

func (h *host) swap(ctx context.Context) error {
	return h.allHave(ctx, "memory.swap.max", "0")
}

func (h *host) oomGroup(ctx context.Context) error {
	return h.allHave(ctx, "memory.oom.group", "1")
}

// allHave is nil if a file of the cgroup says so for a container with limits and for one without.
func (h *host) allHave(ctx context.Context, file, want string) error {
	var wrong error
	for _, container := range []string{"small", "free"} {
		files, err := h.ofContainer(ctx, "limits", container, file)
		if err != nil {
			return err
		}
		if got := files[file]; got != want {
			wrong = errors.Join(wrong, fmt.Errorf("container %s has %s %q; want %q", container, file, got, want))
		}
	}
	return wrong
}

// ofContainer reads files of the cgroup that a container's process is in.
func (h *host) ofContainer(
	ctx context.Context, pod, container string, files ...string,
) (_ map[string]string, err error) {
	defer check.Return(&err)
	world := check.Must(node.Look(ctx, h.lab))
	for _, c := range world.Of(pod).Running() {
		if c.Metadata.GetName() != container {
			continue
		}
		pid := check.Must(node.ContainerPID(ctx, h.lab, c.Id))
		text := check.Must(os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)))
		path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "0::/")
		if !ok || !strings.Contains(path, c.Id) {
			return nil, fmt.Errorf("container %s is in cgroup %q; want one of cgroup v2 with its ID", container, text)
		}
		values := map[string]string{}
		for _, file := range files {
			value := check.Must(os.ReadFile(filepath.Join(cgroups, path, file)))
			values[file] = strings.TrimSpace(string(value))
		}
		return values, nil
	}
	return nil, fmt.Errorf("container %s of pod %s does not run", container, pod)
}

var oomPod = node.Manifest("oom", 1, `
  restartPolicy: Never
  containers:
  - name: main
    image: `+lab.WorkImage+`
    args: [hog, memory, "64"]
    resources: {limits: {memory: 24Mi}}`)

// oom compares the reason with the runtime's: containerd watches the container's cgroup for it, and
// at times sees the container gone first.
func (h *host) oom(ctx context.Context) (err error) {
	defer check.Return(&err)
	before := check.Must(oomKills())
	check.OK(h.agent.Write("oom.yaml", oomPod))
	check.Must(h.awaitPod(ctx, "oom", "was killed for its memory", func(p node.Pod) error {
		c := p.Container("main")
		if p.Phase != "Failed" || c.State != "terminated" || c.ExitCode == nil || *c.ExitCode != 137 {
			return errors.New("it was not")
		}
		reason, err := h.runtimeReason(ctx, "oom", "main")
		if err == nil && c.Reason != reason {
			err = fmt.Errorf("the agent says %q, the runtime %q", c.Reason, reason)
		}
		return err
	}))
	after, err := oomKills()
	if err == nil && after <= before {
		err = errors.New("the kernel killed no process for its memory")
	}
	return err
}

// runtimeReason is why a pod's one container ended, as the runtime says.
func (h *host) runtimeReason(ctx context.Context, pod, container string) (string, error) {
	world, err := node.Look(ctx, h.lab)
	if err != nil {
		return "", err
	}
	for _, c := range world.Of(pod).Containers {
		if c.Metadata.GetName() == container {
			answer, err := h.lab.Runtime().ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.Id})
			return answer.GetStatus().GetReason(), err
		}
	}
	return "", fmt.Errorf("the runtime has no container %s of pod %s", container, pod)
}

// oomKills is how many processes the kernel has killed for want of memory, in any cgroup.
func oomKills() (int, error) {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, errors.New("/proc/vmstat has no oom_kill")
}

// steady are the pods in which no container restarts.
var steady = []string{"init-and-sidecar", "limits"}

func (h *host) takeover(ctx context.Context) (err error) {
	defer check.Return(&err)
	before := check.Must(h.steadyIDs(ctx))
	check.OK(h.agent.Kill(ctx))
	check.OK(h.agent.Start(ctx))
	for _, name := range steady {
		pod := check.Must(h.awaitPod(ctx, name, "runs on", node.Pod.Running))
		for _, c := range pod.Containers {
			if c.Restarts != 0 {
				return fmt.Errorf("container %s of pod %s has %d restarts", c.Name, name, c.Restarts)
			}
			if c.State == "running" && !slices.ContainsFunc(before, func(id string) bool { return c.ID != "" && strings.Contains(c.ID, id) }) {
				return fmt.Errorf("container %s of pod %s is %s, which was not there before", c.Name, name, c.ID)
			}
		}
	}
	after := check.Must(h.steadyIDs(ctx))
	if !slices.Equal(before, after) {
		return fmt.Errorf("running before: %v\nafter: %v", before, after)
	}
	_, err = h.awaitPod(ctx, "crash", "keeps its count", func(p node.Pod) error {
		return check.That(p.Restarts >= 2, "it has not")
	})
	return err
}

// steadyIDs are the IDs of the containers and sandboxes that run, as the runtime says, sorted.
func (h *host) steadyIDs(ctx context.Context) ([]string, error) {
	world, err := node.Look(ctx, h.lab)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, name := range steady {
		of := world.Of(name)
		for _, c := range of.Running() {
			ids = append(ids, c.Id)
		}
		for _, s := range of.Ready() {
			ids = append(ids, s.Id)
		}
	}
	const want = 2 + 2 + 2 // sandboxes; sidecar and main container; containers with limits and without
	if len(ids) != want {
		return nil, fmt.Errorf("%d containers and sandboxes run; want %d", len(ids), want)
	}
	slices.Sort(ids)
	return ids, nil
}

// deletion takes the pods away one after another, for the machine is slow and containerd has
// deadlines of its own.
func (h *host) deletion(ctx context.Context) (err error) {
	defer check.Return(&err)
	for _, name := range pods {
		check.OK(h.agent.Remove(name + ".yaml"))
		check.OK(await(ctx, "pod "+name+" is gone", func() error {
			view, err := h.agent.Pods(ctx)
			if pod, there := view.Pod(name); there {
				err = fmt.Errorf("the agent lists %+v", pod)
			}
			return err
		}))
	}
	return await(ctx, "nothing is left of any pod", func() error {
		world := check.Must(node.Look(ctx, h.lab))
		left, err := h.podCgroups()
		left = append(left, node.Leftovers(h.agent.Daemon, h.lab)...)
		if err == nil {
			var units []string
			units, err = h.unitsLeft(ctx)
			left = append(left, units...)
		}
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %s", strings.Join(left, "; "))
		}
		return errors.Join(err, world.Empty())
	})
}

// containerID is what runc, and so the cgroup of a container, is told.
var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// podCgroups are the cgroups of a pod or a container, dead or alive.
func (h *host) podCgroups() ([]string, error) {
	var left []string
	err := filepath.WalkDir(cgroups, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // they come and go
		}
		if err != nil || !d.IsDir() {
			return err
		}
		ofPod := containerID.MatchString(d.Name())
		for _, uid := range h.uids {
			ofPod = ofPod || strings.Contains(strings.ReplaceAll(d.Name(), "_", "-"), uid)
		}
		if ofPod {
			left = append(left, "cgroup "+path)
		}
		return nil
	})
	return left, err
}

func (h *host) warnings(context.Context) error {
	for line := range strings.Lines(h.agent.Log()) {
		if strings.Contains(strings.ToLower(line), "cgroup v1") {
			return fmt.Errorf("the agent's log says: %s", strings.TrimSpace(line))
		}
	}
	return nil
}

func (h *host) end(ctx context.Context) error {
	if err := errors.Join(h.agent.Stop(ctx), h.lab.Close()); err != nil {
		return err
	}
	return await(ctx, "nothing is left", func() error {
		mounts := check.Must(mountPoints())
		if !slices.Equal(mounts, h.mounts) {
			return fmt.Errorf("mounted before: %v\nnow: %v", h.mounts, mounts)
		}
		return otherProcesses()
	})
}

// otherProcesses is nil if only this process and process 1 run.
func otherProcesses() error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		pid := filepath.Base(filepath.Dir(file))
		if err != nil || len(text) == 0 || pid == "1" || pid == strconv.Itoa(os.Getpid()) {
			continue // it ended, or is a kernel thread, or a zombie that process 1 is about to reap
		}
		return fmt.Errorf("process %s: %s", pid, strings.ReplaceAll(string(text), "\x00", " "))
	}
	return nil
}
