package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	decide "github.com/troupe-dev/troupe/actors/decide/cpus"
	decidememory "github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// numaSettings reserve CPU 0, as a part of a CPU so that pods can ask for more CPUs than one NUMA node has. The
// reserved memory is that of systemReserved and of evictionHard ([node.New]).
const numaSettings = `cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
systemReserved: {cpu: 100m, memory: 99Mi}
reservedMemory:
- {numaNode: 0, limits: {memory: 60Mi}}
- {numaNode: 1, limits: {memory: 40Mi}}
`

// The CPUs and NUMA nodes of the machine as the kernel lists them. CPU 0 is reserved, so two CPUs of one NUMA node are
// those of the second.
const (
	allCPUs, allNodes = "0-3", "0-1"
	ownCPUs, ownNode  = "2-3", "1"
	restCPUs          = "0-1"
	// firstNode is the first choice for memory of a container that needs no exclusive CPUs.
	firstNode = "0"
	noQuota   = "max 100000" // in cpu.max
)

// numaPods are those of the checks here, besides the guaranteed one of [host.podLimits].
var numaPods = []string{"own", "late", "refused-cpus", "refused-memory"}

// wholePod is a Guaranteed pod with whole CPUs.
func wholePod(name, cpus, memory string) string {
	return node.Manifest(name, 1, `
  containers:
  - name: main
    image: `+lab.WorkImage+`
    args: [sleep]
    resources: {limits: {cpu: `+cpus+`, memory: `+memory+`}}`)
}

// numa has the agent give CPUs and memory of one NUMA node to a pod. They stay its own until [host.numaFreed].
func (h *host) numa(ctx context.Context) (err error) {
	defer check.Return(&err)
	check.OK(twoNodes())
	before := check.Must(h.steadyIDs(ctx))
	// It gets memory of its own when it is created, and not while it runs.
	check.OK(h.goes(ctx, "guaranteed"))
	h.settings = numaSettings
	check.OK(h.startAgent(ctx))
	check.OK(h.runs(ctx, "guaranteed", guaranteedPod))
	check.OK(h.awaitSeats(ctx, sharing(allCPUs)...))
	// Three CPUs are free, and much memory, but not on one NUMA node.
	check.OK(errors.Join(
		h.refused(ctx, "refused-cpus", "3", "16Mi"), h.refused(ctx, "refused-memory", "1", "1200Mi"),
	))
	check.OK(h.runs(ctx, "own", wholePod("own", "2", "32Mi")))
	check.OK(h.awaitSeats(ctx, append(sharing(restCPUs), owning())...))
	if got, err := control(filepath.Join(h.podDir("", h.uids["own"]), "cpu.max")); err != nil || got != noQuota {
		return fmt.Errorf("cpu.max of pod own is %q, %v; want %q", got, err, noQuota)
	}
	return errors.Join(h.usesNode(ctx), h.sameAs(ctx, before))
}

// usesNode is nil if the memory of the pod's process is on the pod's NUMA node.
func (h *host) usesNode(ctx context.Context) error {
	const file = "memory.numa_stat"
	files, err := h.ofContainer(ctx, "own", "main", file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(files[file]) {
		fields := strings.Fields(line)
		if fields[0] != "anon" {
			continue
		}
		if slices.Contains(fields, "N0=0") && !slices.Contains(fields, "N1=0") {
			return nil
		}
		return fmt.Errorf("%s of pod own: %q; want memory of NUMA node %s only", file, strings.TrimSpace(line), ownNode)
	}
	return fmt.Errorf("%s of pod own has no anon: %q", file, files[file])
}

// twoNodes is nil if the machine has the NUMA nodes that the checks count on.
func twoNodes() error {
	for file, want := range map[string]string{
		"online": allNodes, "node" + firstNode + "/cpulist": restCPUs, "node" + ownNode + "/cpulist": ownCPUs,
	} {
		if got, err := control(filepath.Join("/sys/devices/system/node", file)); err != nil || got != want {
			return fmt.Errorf("%s is %q, %v; want %q", file, got, err, want)
		}
	}
	return nil
}

// numaKept ends the agent by SIGKILL. The next one goes on with what containers have alone.
func (h *host) numaKept(ctx context.Context) (err error) {
	defer check.Return(&err)
	names := append([]string{"own", "guaranteed"}, steady...)
	before := check.Must(h.runningOf(ctx, names))
	check.OK(errors.Join(h.statesSay(restCPUs, "own"), h.agent.Kill(ctx), h.agent.Start(ctx)))
	// One that comes now is told of the rest by the next agent.
	check.OK(h.runs(ctx, "late", plainPod("late")))
	seats := append(sharing(restCPUs), owning(), shares("late", "main", restCPUs))
	check.OK(errors.Join(h.awaitSeats(ctx, seats...), h.statesSay(restCPUs, "own")))
	after, err := h.runningOf(ctx, names)
	if err == nil && !slices.Equal(before, after) {
		err = fmt.Errorf("running before: %v\nafter: %v", before, after)
	}
	for _, name := range names {
		_, e := h.awaitPod(ctx, name, "runs on without a restart", func(p node.Pod) error {
			if p.Restarts != 0 {
				return errors.New("it was restarted")
			}
			return p.Running()
		})
		err = errors.Join(err, e)
	}
	return err
}

// numaFreed takes the pod away, and has the agent go on as before [host.numa].
func (h *host) numaFreed(ctx context.Context) (err error) {
	defer check.Return(&err)
	defer func() {
		check.Ended(recover(), &err)
		h.settings = ""
		if err != nil {
			err = errors.Join(err, h.forgetOwn(ctx))
		}
		err = errors.Join(err, h.startAgent(ctx), h.runs(ctx, "guaranteed", guaranteedPod))
	}()
	before := check.Must(h.steadyIDs(ctx))
	check.OK(h.goes(ctx, "own"))
	seats := append(sharing(allCPUs), shares("late", "main", allCPUs))
	check.OK(errors.Join(h.awaitSeats(ctx, seats...), h.statesSay(allCPUs)))
	// The agent does not start with another policy while a pod has something alone.
	check.OK(errors.Join(h.goes(ctx, "late"), h.goes(ctx, "guaranteed")))
	return h.sameAs(ctx, before)
}

// forgetOwn removes the pods and the state files of an agent that did not get that far.
func (h *host) forgetOwn(ctx context.Context) error {
	err := h.agent.Kill(ctx)
	for _, name := range numaPods {
		err = errors.Join(err, absent(h.agent.Remove(name+".yaml")))
	}
	for _, name := range []string{decide.FileName, decidememory.FileName} {
		err = errors.Join(err, absent(os.Remove(filepath.Join(h.agent.Root(), name))))
	}
	return err
}

// absent is nil also if there is no such file.
func absent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// runs writes a manifest, and waits until the pod runs.
func (h *host) runs(ctx context.Context, name, manifest string) error {
	if err := h.agent.Write(name+".yaml", manifest); err != nil {
		return err
	}
	_, err := h.awaitPod(ctx, name, "runs", node.Pod.Running)
	return err
}

// refused waits until a pod is rejected because no NUMA node alone has what it asks for, and takes it away.
func (h *host) refused(ctx context.Context, name, cpus, memory string) (err error) {
	defer check.Return(&err)
	check.OK(h.agent.Write(name+".yaml", wholePod(name, cpus, memory)))
	check.Must(h.awaitPod(ctx, name, "is rejected", func(p node.Pod) error {
		return check.That(p.Phase == "Failed" && p.Reason == "TopologyAffinityError", "it is not")
	}))
	return h.goes(ctx, name)
}

// sameAs is nil if the steady pods have the containers that they had.
func (h *host) sameAs(ctx context.Context, before []string) error {
	after, err := h.steadyIDs(ctx)
	if err == nil && !slices.Equal(before, after) {
		err = fmt.Errorf("running before: %v\nafter: %v", before, after)
	}
	return err
}

// seat is where a container is to run: what files of its cgroup and /proc/PID/status of its processes say.
type seat struct {
	pod, container  string
	cgroup, process map[string]string
}

func newSeat(pod, container, cpus, nodes string) seat {
	return seat{
		pod, container,
		map[string]string{"cpuset.cpus.effective": cpus, "cpuset.mems.effective": nodes},
		map[string]string{"Cpus_allowed_list": cpus, "Mems_allowed_list": nodes},
	}
}

// owning is the seat of the pod that has CPUs alone: without a quota, and its memory comes from the NUMA node.
func owning() seat {
	s := newSeat("own", "main", ownCPUs, ownNode)
	s.cgroup["cpuset.cpus"], s.cgroup["cpuset.mems"], s.cgroup["cpu.max"] = ownCPUs, ownNode, noQuota
	return s
}

// sharing are the seats of the containers that ran before, on the CPUs that no pod has alone. One of them has a quota
// and memory of its own.
func sharing(cpus string) []seat {
	bound := newSeat("guaranteed", "main", cpus, firstNode)
	bound.cgroup["cpuset.mems"], bound.cgroup["cpu.max"] = firstNode, "20000 100000"
	return []seat{
		bound, shares("init-and-sidecar", "notes", cpus), shares("init-and-sidecar", "web", cpus),
		shares("limits", "small", cpus), shares("limits", "free", cpus),
	}
}

func shares(pod, container, cpus string) seat { return newSeat(pod, container, cpus, allNodes) }

// awaitSeats waits until all containers run where they are to.
func (h *host) awaitSeats(ctx context.Context, seats ...seat) error {
	return await(ctx, "containers run on the CPUs and NUMA nodes that they are to", func() error {
		var wrong error
		for _, s := range seats {
			if err := h.sits(ctx, s); err != nil {
				wrong = errors.Join(wrong, fmt.Errorf("container %s of pod %s: %w", s.container, s.pod, err))
			}
		}
		return wrong
	})
}

func (h *host) sits(ctx context.Context, s seat) error {
	files, err := h.ofContainer(ctx, s.pod, s.container, append(slices.Collect(maps.Keys(s.cgroup)), "cgroup.procs")...)
	if err != nil {
		return err
	}
	var wrong error
	for file, want := range s.cgroup {
		if got := files[file]; got != want {
			wrong = errors.Join(wrong, fmt.Errorf("%s is %q, want %q", file, got, want))
		}
	}
	for _, pid := range strings.Fields(files["cgroup.procs"]) {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
		if err != nil {
			return err
		}
		for name, want := range s.process {
			if line := name + ":\t" + want + "\n"; !strings.Contains(string(text), line) {
				wrong = errors.Join(wrong, fmt.Errorf("process %s: no line %q in\n%s", pid, line, text))
			}
		}
	}
	return wrong
}

// statesSay is nil if by the state files the pods have the CPUs and NUMA node that [owning] is about, all others share
// these CPUs, and the guaranteed pod has memory of the first NUMA node.
func (h *host) statesSay(shared string, pods ...string) (err error) {
	defer check.Return(&err)
	data := check.Must(os.ReadFile(filepath.Join(h.agent.Root(), decide.FileName)))
	cpus, err := decide.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", decide.FileName, err, data)
	}
	got := []string{"shared " + cpus.Shared.String()}
	want := []string{"shared " + shared, fmt.Sprintf("memory guaranteed main %d of [%s]", 32*mib, firstNode)}
	names := map[string]string{}
	for name, uid := range h.uids {
		names[uid] = name
	}
	for uid, containers := range cpus.Own {
		for name, set := range containers {
			got = append(got, fmt.Sprintf("cpus %s %s %s", names[string(uid)], name, set))
		}
	}
	data = check.Must(os.ReadFile(filepath.Join(h.agent.Root(), decidememory.FileName)))
	banks, err := decidememory.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", decidememory.FileName, err, data)
	}
	for uid, containers := range banks.Own {
		for name, blocks := range containers {
			for _, b := range blocks {
				got = append(got, fmt.Sprintf("memory %s %s %d of %d", names[string(uid)], name, b.Size, b.Nodes.List()))
			}
		}
	}
	for _, pod := range pods {
		want = append(want, fmt.Sprintf("cpus %s main %s", pod, ownCPUs),
			fmt.Sprintf("memory %s main %d of [%s]", pod, 32*mib, ownNode))
	}
	slices.Sort(got)
	slices.Sort(want)
	return check.That(slices.Equal(got, want), "the state files say %q, want %q", got, want)
}
