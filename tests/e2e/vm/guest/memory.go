package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

// memory is what the checks about it hand on.
type memory struct {
	// containers are the cgroups of the containers of [memoryPods], by pod and container.
	containers map[string]string
	// protected: the memory of pods was protected once.
	protected bool
}

const memorySettings = `featureGates: {MemoryQoS: true}
memoryReservationPolicy: TieredReservation
failSwapOn: false
memorySwap: {swapBehavior: LimitedSwap}
`

const (
	mib  = int64(1 << 20)
	page = 4096
	// unlimited is "max" in a file.
	unlimited = int64(-1)
)

// memoryPods are pods of each class, and what the kernel treats differently within one. Their names say what they are.
var memoryPods = map[string]*v1.Pod{
	"tiered": memoryPod("", map[string]v1.ResourceRequirements{
		"part": memoryOf("16Mi", "64Mi"), "open": memoryOf("16Mi", ""), "equal": memoryOf("24Mi", "24Mi"),
	}),
	"critical-tiered": memoryPod("system-node-critical", map[string]v1.ResourceRequirements{
		"main": memoryOf("16Mi", "64Mi"),
	}),
	"whole": memoryPod("", map[string]v1.ResourceRequirements{"main": {Limits: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("50m"), v1.ResourceMemory: resource.MustParse("24Mi"),
	}}}),
	"idle": memoryPod("", map[string]v1.ResourceRequirements{"main": {}}),
}

func memoryOf(request, limit string) v1.ResourceRequirements {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}}
	if limit != "" {
		r.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
	}
	return r
}

func memoryPod(class string, containers map[string]v1.ResourceRequirements) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{
		NodeName: node.NodeName, PriorityClassName: class, TerminationGracePeriodSeconds: new(int64(1)),
		AutomountServiceAccountToken: new(false),
	}}
	for name, resources := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{
			Name: name, Image: lab.WorkImage, Args: []string{"sleep"}, Resources: resources,
		})
	}
	return p
}

// failSwap turns swap on. It stays on until [host.limitedSwap].
func (h *host) failSwap(ctx context.Context) (err error) {
	defer check.Return(&err)
	check.OK(h.agent.Stop(ctx))
	check.OK(swapCall(unix.SYS_SWAPON, vm.SwapDevice))
	said := len(h.agent.Log())
	refused, err := h.newAgent()
	if err == nil {
		err = refused.Launch()
	}
	if err != nil {
		return err
	}
	err = await(ctx, "the agent ends", func() error { return check.That(refused.Running() != nil, "it runs") })
	if err != nil {
		return errors.Join(err, refused.Kill(ctx))
	}
	want := "failSwapOn: swap is on (" + vm.SwapDevice + ")"
	how, text := refused.Running(), refused.Log()[said:]
	if !strings.Contains(text, want) || !strings.Contains(how.Error(), "exit status 1") {
		return fmt.Errorf("the agent ended otherwise: %w: %q, want %q", how, text, want)
	}
	return nil
}

// swapCall turns swap on or off.
func swapCall(call uintptr, device string) error {
	path, err := unix.BytePtrFromString(device)
	if err != nil {
		return err
	}
	_, _, e := unix.Syscall(call, uintptr(unsafe.Pointer(path)), 0, 0)
	return check.That(e == 0, "swap on or off (system call %d) on %s: %w", call, device, e)
}

// memoryQoS runs the pods, and looks at what is protected of their memory.
func (h *host) memoryQoS(ctx context.Context) (err error) {
	defer check.Return(&err)
	api := check.Must(h.cluster())
	h.settings, h.flags = memorySettings, clusterFlags
	defer func() { h.settings, h.flags = "", nil }()
	check.OK(h.startAgent(ctx))
	check.OK(h.runMemoryPods(ctx, api))
	n := check.Must(api.CoreV1().Nodes().Get(ctx, node.NodeName, metav1.GetOptions{}))
	allocatable := n.Status.Allocatable.Memory().Value()
	container := func(name string, least, low, high int64) cgroupWant {
		return protection(h.memory.containers[name], least, low, high)
	}
	above := func(class, pod string, least, low int64) cgroupWant {
		dir := h.classDir(class)
		if pod != "" {
			dir = h.podDir(class, h.uids[pod])
		}
		return protection(dir, least, low, unlimited)
	}
	// The pods that ran before, limits and guaranteed, count in the sums of their classes; their own cgroups are set when
	// they start. part and open are nine tenths of what is between request and limit.
	const part = (16*mib + 48*mib*9/10) / page * page
	open := int64(float64(16*mib)+float64(allocatable-16*mib)*0.9) / page * page
	check.OK(h.awaitCgroups(ctx, []cgroupWant{
		container("tiered/part", 0, 16*mib, part), container("tiered/open", 0, 16*mib, open),
		container("tiered/equal", 0, 24*mib, unlimited), container("critical-tiered/main", 0, 16*mib, part),
		container("whole/main", 24*mib, 0, unlimited), container("idle/main", 0, 0, unlimited),
		above("burstable", "tiered", 0, 56*mib), above("burstable", "critical-tiered", 0, 16*mib),
		above("", "whole", 24*mib, 0),
		above("besteffort", "idle", 0, 0), above("besteffort", "", 0, 0),
		above("burstable", "", 0, (56+16+16)*mib), above("", "", (56+16+16+24+32)*mib, (56+16+16)*mib),
	}))
	h.memory.protected = true
	if h.machine == vm.Systemd {
		return h.reload(ctx)
	}
	return nil
}

// runMemoryPods makes the pods and notes where their containers are.
func (h *host) runMemoryPods(ctx context.Context, api kubernetes.Interface) (err error) {
	defer check.Return(&err)
	pods := api.CoreV1().Pods(metav1.NamespaceDefault)
	h.memory.containers = map[string]string{}
	for name, pod := range memoryPods {
		pod = pod.DeepCopy()
		pod.Name = name
		check.Must(pods.Create(ctx, pod, metav1.CreateOptions{}))
	}
	classes := map[v1.PodQOSClass]string{v1.PodQOSBurstable: "burstable", v1.PodQOSBestEffort: "besteffort"}
	for name := range memoryPods {
		if err := await(ctx, "pod "+name+" runs", func() error {
			p := check.Must(pods.Get(ctx, name, metav1.GetOptions{}))
			if p.Status.Phase != v1.PodRunning {
				return fmt.Errorf("it is %s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
			}
			h.uids[name] = string(p.UID)
			of := h.podDir(classes[p.Status.QOSClass], string(p.UID))
			for i := range p.Status.ContainerStatuses {
				c := &p.Status.ContainerStatuses[i]
				_, id, _ := strings.Cut(c.ContainerID, "://")
				h.memory.containers[name+"/"+c.Name] = h.containerDir(of, id)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// limitedSwap looks at how much of the swap containers may use, and turns swap off.
func (h *host) limitedSwap(ctx context.Context) (err error) {
	defer check.Return(&err)
	defer func() { err = errors.Join(err, swapCall(unix.SYS_SWAPOFF, vm.SwapDevice)) }()
	total := check.Must(meminfo("MemTotal:"))
	swap := check.Must(meminfo("SwapTotal:"))
	if swap == 0 || len(h.memory.containers) == 0 {
		return fmt.Errorf("there are %d bytes of swap, and the containers %v", swap, h.memory.containers)
	}
	share := int64(float64(16*mib)/float64(total)*float64(swap)) / page * page
	fmt.Printf("--- of %d bytes of swap 16Mi of %d bytes of memory are %d\n", swap, total, share)
	wanted := make([]cgroupWant, 0, len(h.memory.containers))
	for name, want := range map[string]int64{
		"tiered/part": share, "tiered/open": share,
		"tiered/equal": 0, "critical-tiered/main": 0, "whole/main": 0, "idle/main": 0,
	} {
		wanted = append(wanted, cgroupWant{h.memory.containers[name], map[string]int64{"memory.swap.max": want}})
	}
	if err := h.awaitCgroups(ctx, wanted); err != nil || h.machine != vm.Systemd {
		return err
	}
	return h.reload(ctx)
}

// meminfo is a line of /proc/meminfo, in bytes.
func meminfo(name string) (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no %s", name)
}

// unprotected looks at an agent that was started without the feature.
func (h *host) unprotected(ctx context.Context) error {
	if !h.memory.protected {
		return errors.New("no memory was protected before")
	}
	none := map[string]int64{"memory.min": 0, "memory.low": 0}
	if err := h.awaitCgroups(ctx, []cgroupWant{{h.classDir(""), none}}); err != nil || h.machine != vm.Systemd {
		return err
	}
	return h.reload(ctx)
}

// cgroupWant is what files of a cgroup are to say.
type cgroupWant struct {
	dir   string
	files map[string]int64
}

func protection(dir string, least, low, high int64) cgroupWant {
	return cgroupWant{dir, map[string]int64{"memory.min": least, "memory.low": low, "memory.high": high}}
}

// properties of units that become files.
var properties = map[string]string{
	"memory.min": "MemoryMin", "memory.low": "MemoryLow", "memory.high": "MemoryHigh", "memory.swap.max": "MemorySwapMax",
}

// awaitCgroups waits until the kernel has it so, and systemd knows it.
func (h *host) awaitCgroups(ctx context.Context, wanted []cgroupWant) error {
	if err := await(ctx, "the cgroups are as wanted", func() error {
		var wrong error
		for _, w := range wanted {
			for file, want := range w.files {
				got, err := control(filepath.Join(w.dir, file))
				text := strconv.FormatInt(want, 10)
				if want == unlimited {
					text = "max"
				}
				if err == nil && got != text {
					err = fmt.Errorf("%s of %s is %q, want %q", file, w.dir, got, text)
				}
				wrong = errors.Join(wrong, err)
			}
		}
		return wrong
	}); err != nil || h.machine != vm.Systemd {
		return err
	}
	return withSystemd(ctx, func(conn *dbus.Conn) error {
		var wrong error
		for _, w := range wanted {
			wrong = errors.Join(wrong, knows(ctx, conn, w))
		}
		return wrong
	})
}

// knows is nil if systemd has the same for a unit as the kernel.
func knows(ctx context.Context, conn *dbus.Conn, w cgroupWant) error {
	unit, kind := filepath.Base(w.dir), "Slice"
	if strings.HasSuffix(unit, ".scope") {
		kind = "Scope"
	}
	have, err := conn.GetUnitTypePropertiesContext(ctx, unit, kind)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", unit, err)
	}
	var wrong error
	for file, n := range w.files {
		want := uint64(math.MaxUint64)
		if n != unlimited {
			want = uint64(n)
		}
		// systemd does not round to pages.
		got, ok := have[properties[file]].(uint64)
		if !ok || got != want && got/page*page != want {
			wrong = errors.Join(wrong, fmt.Errorf("%s of %s is %v, want %d", properties[file], unit, got, want))
		}
	}
	return wrong
}
