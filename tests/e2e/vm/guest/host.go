package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

// patience is for one wait. Without KVM all takes about ten times as long as elsewhere, and the
// machine outside may be busy as well.
const patience = 5 * time.Minute

// await waits until condition holds. Its error says why it did not the last time.
func await(ctx context.Context, what string, condition func() error) error {
	return lab.Eventually(ctx, patience, what, condition)
}

// pods are the names of those that the checks look at, each in a manifest of its name.
var pods = []string{"crash", "guaranteed", "init-and-sidecar", "limits", "oom"}

// host is this machine with one release of containerd on it, and the agent.
type host struct {
	machine  vm.Machine
	release  lab.Release
	reporter *vm.Reporter
	registry *lab.Registry
	lab      *lab.Lab
	agent    *node.Agent
	mounts   []string // before anything began
	settings string   // of the agent
	flags    []string // of the agent
	memory   memory
	api      kubernetes.Interface // if it can be reached
	leave    func()
	// goingDown: systemd is shutting the machine down.
	goingDown bool
	uids      map[string]string // of pods that were seen, by name
	// containers of the pods that are there through all that is done with the package.
	containers []string
}

func newHost(m vm.Machine, release lab.Release, registry *lab.Registry, reporter *vm.Reporter) *host {
	return &host{machine: m, release: release, registry: registry, reporter: reporter, uids: map[string]string{}}
}

func (h *host) dir() string { return "/run/" + string(h.release) }

// checkAll makes all checks in their order and reports each.
func (h *host) checkAll(ctx context.Context) {
	checks := map[string]func(context.Context) error{
		"runtime": h.runtime, "agent": h.startAgent, "running": h.running, "sidecar": h.sidecar,
		"crash": h.crash, "limits": h.limits, "podlimits": h.podLimits, "swap": h.swap, "oomgroup": h.oomGroup,
		"oom": h.oom, "takeover": h.takeover, "resize": h.resize,
		"clock": h.clock, "nfs": h.nfs, "iscsi": h.iscsi, "projects": h.projects, "quota": h.quota, "units": h.units, "killed": h.killed,
		"numa": h.numa, "numakept": h.numaKept, "numafreed": h.numaFreed,
		"failswap": h.failSwap, "memoryqos": h.memoryQoS, "limitedswap": h.limitedSwap, "systemoom": h.systemOOM,
		"evicted": h.evicted, "unprotected": h.unprotected,
		"kubelet": h.installKubelet, "install": h.install, "waits": h.waits, "join": h.join, "pods": h.packagePods,
		"restart": h.restartUnit, "refused": h.wrongSetting, "command": h.ownCommand,
		"upgrade": h.upgrade, "back": h.back, "remove": h.removePackage, "purge": h.purge, "again": h.again,
		"shutdown": h.shutdown, "deletion": h.deletion, "warnings": h.warnings, "end": h.end,
	}
	defer func() {
		if h.leave != nil {
			h.leave()
		}
	}()
	wordsSaid, missing := false, ""
	for _, check := range h.machine.Checks() {
		if !check.Of(h.machine, h.release) {
			continue
		}
		begin := time.Now()
		err := fmt.Errorf("not tried: nothing goes without %q", missing)
		if missing == "" {
			err = checks[check.Name](ctx)
		}
		if err != nil && check.Vital && missing == "" {
			missing = check.Name
		}
		h.reporter.Result(string(h.release), check.Name, time.Since(begin), err)
		if err != nil && !wordsSaid {
			wordsSaid = true
			h.printWhy(ctx)
		}
	}
}

// printWhy prints on the console what may say why a check failed.
func (h *host) printWhy(ctx context.Context) {
	if h.agent != nil {
		view, err := h.agent.Pods(ctx)
		fmt.Printf("--- containerd %s, pods: %+v %v\n--- the agent's log:\n%s\n", h.release, view, err, h.agent.LogTail(8000))
	}
	if text, err := os.ReadFile(unitLog); err == nil {
		fmt.Printf("--- the unit's log:\n%s\n", text[max(0, len(text)-8000):])
	}
	if h.lab != nil {
		fmt.Printf("--- containerd %s, its log:\n%s\n", h.release, h.lab.LogTail(4000))
	}
}

func (h *host) runtime(ctx context.Context) (err error) {
	defer check.Return(&err)
	h.mounts = check.Must(mountPoints())
	h.lab = check.Must(lab.New(ctx, lab.Config{
		Dir: filepath.Join(h.dir(), "c"), Release: h.release, Registry: h.registry,
		BinDir: vm.ContainerdDir(h.release), SystemdCgroup: h.machine.HasSystemd(),
	}))
	return h.lab.Start(ctx)
}

func (h *host) startAgent(ctx context.Context) (err error) {
	defer check.Return(&err)
	if h.agent != nil {
		check.OK(h.agent.Stop(ctx))
	}
	h.agent = check.Must(h.newAgent())
	return h.agent.Start(ctx)
}

// newAgent prepares one with the settings and flags. There must be no other.
func (h *host) newAgent() (*node.Agent, error) {
	driver, settings := "", "failCgroupV1: true\npodPidsLimit: 500\n"
	if h.machine == vm.Systemd {
		driver = "systemd"
		settings += shutdownSettings
	}
	return node.New(node.Config{
		Binary: vm.AgentPath, Dir: filepath.Join(h.dir(), "n"), Endpoint: h.lab.Endpoint(), CgroupRoot: h.lab.CgroupRoot(),
		CgroupDriver: driver, Settings: settings + h.settings, Flags: h.flags,
	})
}

// awaitPod waits until the agent lists the pod and condition holds for it, and returns it.
func (h *host) awaitPod(ctx context.Context, name, what string, condition func(node.Pod) error) (node.Pod, error) {
	var pod node.Pod
	err := await(ctx, "pod "+name+" "+what, func() error {
		view := check.Must(h.agent.Pods(ctx))
		var there bool
		if pod, there = view.Pod(name); !there {
			return errors.New("it is not listed")
		}
		if err := condition(pod); err != nil {
			return fmt.Errorf("%w: %+v", err, pod)
		}
		return nil
	})
	if pod.UID != "" {
		h.uids[name] = pod.UID
	}
	return pod, err
}

// mountPoints are all there are, sorted.
func mountPoints() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var points []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			points = append(points, fields[1])
		}
	}
	slices.Sort(points)
	return points, nil
}
