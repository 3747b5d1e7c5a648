package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/cri"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/kernelfile"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
)

// podCgroups are the cgroups that pods have of their own.
type podCgroups struct {
	settings *podcgroup.Settings
	port     *cgroup.Cgroups
}

// config is nil if pods have none of their own.
func (p *podCgroups) config() *podcgroup.Settings {
	if p == nil {
		return nil
	}
	return p.settings
}

// cgroupPatience is how long the first cgroups may take.
const cgroupPatience = 10 * time.Second

// makeCgroups makes the parent cgroups of pods, if they have cgroups of their own. It comes after the claim of the root
// directory: those of an agent that runs are not changed by another one with its root directory.
func (d *nodeDaemon) makeCgroups(ctx context.Context) (err error) {
	client, is := d.runtime.Runtime.(*cri.Client)
	if is {
		d.own, err = openCgroups(ctx, d.Config, &d.machine, client, d.Log)
	}
	if d.own == nil {
		d.settings.Cgroups = *d.machine.cgroupSettings(d.Config, podcgroup.Cgroupfs)
		return err
	}
	d.settings.Cgroups, d.settings.Ports.Cgroups = *d.own.settings, d.own.port
	d.runtime.node.CgroupParent = d.own.parent
	return err
}

// openCgroups makes the parent cgroups of pods. It returns nil if pods get none (cgroupsPerQOS:
// false), or with a log line if this host cannot make them. Then the runtime places the pods, and
// only the limits of containers hold.
func openCgroups(
	ctx context.Context, c config.Config, m *machine, runtime *cri.Client, log zerolog.Logger,
) (*podCgroups, error) {
	if !c.CgroupsPerQOS() {
		return nil, nil
	}
	driver, err := cgroupDriver(ctx, c, runtime, log)
	if err != nil {
		return nil, err
	}
	p := &podCgroups{settings: m.cgroupSettings(c, driver)}
	err = p.make(ctx)
	if err != nil {
		log.Warn().Stringer("driver", driver).Msg(noCgroups(err))
		return nil, nil
	}
	return p, p.enforce(ctx, c)
}

func noCgroups(err error) string {
	text := "pods have no cgroups of their own: only container limits are enforced: " + err.Error()
	if _, is := errors.AsType[*cgroup.MissingError](err); is {
		return text // it says what to do
	}
	return text + ": give the agent write access to /sys/fs/cgroup, or set cgroupsPerQOS: false"
}

// driverTries is how often the runtime is asked for its cgroup driver, and driverPause the time between: it may be
// about to begin. A kubelet asks as often.
const (
	driverTries = 3
	driverPause = 2 * time.Second
)

// cgroupDriver is the runtime's, or the configuration's if that doesn't say.
func cgroupDriver(
	ctx context.Context, c config.Config, runtime *cri.Client, log zerolog.Logger,
) (podcgroup.Driver, error) {
	configured, _ := podcgroup.ParseDriver(c.CgroupDriver()) // checked before
	for try := 1; ; try++ {
		driver, err := answer.Of(ctx, func(done func(podcgroup.Driver, error)) { runtime.CgroupDriver(ctx, done) })
		switch {
		case err == nil && driver != configured:
			log.Info().Stringer("driver", driver).Stringer("cgroupDriver",
				configured).Msg("using the cgroup driver of the container runtime; cgroupDriver of the configuration is ignored")
			return driver, nil
		case err == nil:
			return driver, nil
		case port.KindOf(err) == port.Unsupported:
			return configured, nil
		case try == driverTries:
			return 0, err
		}
		select {
		case <-time.After(driverPause):
		case <-ctx.Done():
			return 0, err
		}
	}
}

func (m *machine) cgroupSettings(c config.Config, driver podcgroup.Driver) *podcgroup.Settings {
	k := c.Kubelet()
	capacity := m.capacity.DeepCopy()
	if n, ok := mostPIDs(); ok {
		capacity[podcgroup.PIDs] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	reserved := v1.ResourceList{}
	system, kube := c.Reserved()
	for _, list := range []v1.ResourceList{system, kube} {
		for name, q := range list { // order-free: a sum by key
			sum := reserved[name].DeepCopy()
			sum.Add(q)
			reserved[name] = sum
		}
	}
	return &podcgroup.Settings{
		Root: k.CgroupRoot, Driver: driver,
		NoCPUQuota: k.CPUCFSQuota != nil && !*k.CPUCFSQuota, CPUPeriod: quotaPeriod(k.CPUCFSQuotaPeriod).Microseconds(),
		NoQuotaOfOwnCPUs: c.NoQuotaOfOwnCPUs(),
		PodPIDs:          *k.PodPidsLimit, HugePageSizes: m.hugePages,
		Capacity: capacity, Reserved: reserved, Enforce: c.Enforces("pods"), MemoryReserved: c.MemoryReserved(),
		Policy: m.memoryPolicy(c),
	}
}

// mostPIDs is how many processes the kernel has numbers for.
func mostPIDs() (int64, bool) {
	n, err := kernelfile.Number("/proc/sys/kernel/pid_max")
	return n, err == nil
}

// make makes the cgroups of classes, without limits but for that one is worth the
// least. The others follow: what already runs may use more than them.
func (p *podCgroups) make(ctx context.Context) error {
	var err error
	if p.port, err = cgroup.New(p.settings); err != nil {
		return err
	}
	for _, class := range podcgroup.Classes {
		v := podcgroup.Values{}
		if class == v1.PodQOSBestEffort {
			v.CPUShares = podcgroup.MinShares
		}
		if err := inTime(ctx, func(ctx context.Context, done func(error)) {
			p.port.Set(ctx, p.settings.Class(class), v, done)
		}); err != nil {
			return err
		}
	}
	return nil
}

// reservedCgroup is an existing cgroup that a reservation is enforced on.
type reservedCgroup struct {
	kind, field, cgroup string
	reserved            v1.ResourceList
	compressible        bool
}

func (r reservedCgroup) failed(err error) error {
	return fmt.Errorf("%s %q: %w: set a cgroup that exists and is below its limits, or remove %s from "+
		"enforceNodeAllocatable", r.field, r.cgroup, err, r.kind)
}

// enforced are the reservations that are.
func enforced(c config.Config) (out []reservedCgroup) {
	k := c.Kubelet()
	system, kube := c.Reserved()
	for _, r := range []reservedCgroup{
		{kind: "system-reserved", field: "systemReservedCgroup", cgroup: k.SystemReservedCgroup, reserved: system},
		{kind: "kube-reserved", field: "kubeReservedCgroup", cgroup: k.KubeReservedCgroup, reserved: kube},
	} {
		r.compressible = c.Enforces(r.kind + "-compressible")
		if r.compressible || c.Enforces(r.kind) {
			out = append(out, r)
		}
	}
	return out
}

// enforce limits the existing cgroups of the system and of Kubernetes to their reservations.
func (p *podCgroups) enforce(ctx context.Context, c config.Config) error {
	for _, r := range enforced(c) {
		name := podcgroup.ParseReserved(r.cgroup, p.settings.Driver)
		values := p.settings.ReservedValues(r.reserved, r.compressible)
		if err := inTime(ctx, func(ctx context.Context, done func(error)) {
			p.port.SetExisting(ctx, name, values, done)
		}); err != nil {
			return r.failed(err)
		}
	}
	return nil
}

func inTime(ctx context.Context, call func(context.Context, func(error))) error {
	ctx, cancel := context.WithTimeout(ctx, cgroupPatience)
	defer cancel()
	_, err := answer.Of(ctx, func(done func(struct{}, error)) {
		call(ctx, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// processes tells the processes of a pod.
func (p *podCgroups) processes(m *resourceuse.Meter) func(*v1.Pod) []int {
	return func(pod *v1.Pod) []int {
		name, err := p.settings.Pod(pod)
		if err != nil {
			return nil
		}
		return cgroup.Processes(m.Dir(name.Path(p.settings.Driver)))
	}
}

// parent is where the runtime puts the containers of a pod.
func (p *podCgroups) parent(pod *v1.Pod) string {
	name, err := p.settings.Pod(pod)
	if err != nil {
		return "" // its cgroup was refused before
	}
	return name.Path(p.settings.Driver)
}
