package node

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/cri"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/config/rootdir"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/inuse"
	"github.com/troupe-dev/troupe/supervisor/serve"
)

// Report is what a start on this machine would come to.
type Report struct {
	// Node is the name of the node, empty if it has none.
	Node string `json:"node"`
	// Refused are the reasons why the agent would not start.
	Refused []string `json:"refused"`
	// Warnings are what the operator should know of a node that starts.
	Warnings []string `json:"warnings"`
	// WithoutEffect are the settings that have none.
	WithoutEffect []string `json:"withoutEffect"`
}

// Check looks at this machine as a start does, with the same rules, and changes nothing: it reads, and asks the runtime
// for its version and its status. What a start tries, such as writing a file, it judges by what the kernel allows.
func Check(ctx context.Context, o Options) Report {
	o.Log = zerolog.Nop()
	d := newDaemon(o)
	defer d.close()
	k := &check{nodeDaemon: d, report: Report{
		Refused: []string{}, Warnings: []string{}, WithoutEffect: append([]string{}, o.Config.WithoutEffect()...),
	}}
	why := d.refusals()
	for _, err := range why {
		k.refuse(err)
	}
	k.report.Node = d.name
	k.warn(d.Config.OtherWarnings()...)
	machine := d.machine.capacity != nil // else it could not be looked at
	if machine {
		k.warn(d.machine.warnings(d.Config)...)
	}
	k.ports()
	directories := k.directories()
	if directories && machine {
		k.refuse(d.assignCPUs(ctx))
		k.refuse(d.assignMemory(ctx))
	}
	if machine && d.Config.Options().Runtime == config.RuntimeCRI {
		k.runtime(ctx)
		k.cgroups()
		k.process()
	}
	return k.report
}

// check is a look at a machine.
type check struct {
	*nodeDaemon
	report Report
}

func (k *check) refuse(err error) {
	if err != nil {
		k.report.Refused = append(k.report.Refused, err.Error())
	}
}

func (k *check) warn(texts ...string) { k.report.Warnings = append(k.report.Warnings, texts...) }

// directories: those that the agent writes to, and the locks in them. It is false if there can be no root directory.
func (k *check) directories() bool {
	c, o := k.Config, k.Config.Options()
	if err := rootdir.Look(o.RootDir); err != nil {
		k.refuse(err)
		return false
	}
	if err := writable(o.RootDir); err != nil {
		k.refuse(fmt.Errorf("--root-dir %s: %w", o.RootDir, err))
	}
	if by, locked := inuse.Locked("/proc", filepath.Join(o.RootDir, rootdir.LockName)); locked {
		k.held(by, fmt.Sprintf("the root directory %s", o.RootDir), "choose another --root-dir")
	}
	if o.LockFile != "" {
		if by, locked := inuse.Locked("/proc", o.LockFile); locked {
			k.warn(fmt.Sprintf("--lock-file %s: held by %s: the agent waits until that ends", o.LockFile, by))
		}
	}
	if _, on := secured(c); on {
		k.certificates()
	}
	if err := writable(c.PodLogsDir()); err != nil {
		err = fmt.Errorf("podLogsDir %s: %w", c.PodLogsDir(), err)
		if info, e := os.Stat(c.PodLogsDir()); e == nil && info.IsDir() {
			k.warn(err.Error() + ": no container can be started")
		} else { // a start has to make it
			k.refuse(err)
		}
	}
	if path := k.Config.Kubelet().StaticPodPath; path != "" && !exists(path) {
		k.warn(fmt.Sprintf("staticPodPath %s: does not exist: there are no static pods of it until it does", path))
	}
	return true
}

// certificates: whether those of the HTTPS server can be written. One that is there is used, and must be renewed one
// day. One that the cluster signs is written when it is.
func (k *check) certificates() {
	dir, c := certDir(k.Config), k.Config
	err := writable(dir)
	if err == nil || !signedServer(c) && c.Kubelet().TLSCertFile != "" {
		return
	}
	err = fmt.Errorf("directory of certificates %s: %w", dir, err)
	switch {
	case signedServer(c):
		k.warn(err.Error() + ": what the cluster signs can't be stored")
	case serve.LookAtOwn(dir) == nil:
		k.warn(err.Error() + ": the certificate in it can't be renewed")
	default:
		k.refuse(err)
	}
}

// writable says why nothing can be made in a directory, or in the one that it would be made in.
func writable(dir string) error {
	at := nearest(dir)
	if info, err := os.Stat(at); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory", at)
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("cannot write to %s: %w", at, err)
	}
	return nil
}

// held is about something that a start needs for itself. A node agent that runs is the one that will be replaced.
func (k *check) held(by inuse.Process, what, otherwise string) {
	unknown := by.PID == 0 && os.Geteuid() != 0 // only root sees whose it is
	agents := []string{"kubelet", "troupe", filepath.Base(os.Args[0])}
	if unknown || by.PID == os.Getpid() || slices.Contains(agents, by.Name) {
		k.warn(fmt.Sprintf("%s is in use by %s: the agent starts when that has ended", what, by))
		return
	}
	k.refuse(inUse(what, by, otherwise))
}

// ports: those that the agent listens on.
func (k *check) ports() {
	for _, p := range tcpPorts(k.Config) {
		if by, used := inuse.Port("/proc", p.address); used {
			k.held(by, p.String(), p.otherwise())
		}
	}
	settings := k.Config.Kubelet()
	ip, err := netip.ParseAddr(settings.HealthzBindAddress)
	if _, on := k.Config.Healthz(); !on || err != nil { // a name
		return
	}
	if by, used := inuse.Port("/proc", netip.AddrPortFrom(ip, uint16(*settings.HealthzPort))); used {
		k.warn(fmt.Sprintf("healthzPort %d is in use by %s: there is no health endpoint until that has ended",
			*settings.HealthzPort, by))
	}
}

// runtimePatience is how long the runtime may take for an answer.
const runtimePatience = 10 * time.Second

// runtime asks the runtime for its version and its status.
func (k *check) runtime(ctx context.Context) {
	c := k.Config
	node := k.machine.translation(c)
	if err := node.Validate(); err != nil {
		k.refuse(err)
	}
	if _, err := userRange(ctx, c, &k.machine); err != nil {
		k.refuse(err)
	}
	client, err := cri.Dial(ctx, cri.Config{
		Endpoint: c.RuntimeEndpoint(), ImageEndpoint: c.ImageEndpoint(),
		RequestTimeout: min(c.RuntimeRequestTimeout(), runtimePatience), Node: func() *translate.Node { return node },
	})
	if err != nil {
		k.warn(err.Error() + ": the agent does not start before it answers")
		return
	}
	defer client.Close()
	status, err := answer.Of(ctx, func(done func(port.RuntimeStatus, error)) { client.Status(ctx, done) })
	if err != nil {
		k.warn("status of the container runtime: " + err.Error())
	}
	for _, condition := range status.Conditions {
		if !condition.Status {
			text := fmt.Sprintf("container runtime: %s is false: %s: %s", condition.Type, condition.Reason, condition.Message)
			k.warn(strings.TrimSuffix(text, ": "))
		}
	}
}

// cgroups: whether pods can have cgroups of their own, and those that reservations are enforced on.
func (k *check) cgroups() {
	c := k.Config
	if !c.CgroupsPerQOS() {
		return
	}
	driver, _ := podcgroup.ParseDriver(c.CgroupDriver()) // checked before
	_, err := cgroup.New(k.machine.cgroupSettings(c, driver))
	if err == nil {
		err = writable(cgroupRoot)
	}
	if err != nil {
		k.warn(noCgroups(err))
		return
	}
	if !k.machine.cgroups.v2 {
		return
	}
	otherDriver := podcgroup.Systemd
	if driver == podcgroup.Systemd {
		otherDriver = podcgroup.Cgroupfs
	}
	for _, r := range enforced(c) {
		path := podcgroup.ParseReserved(r.cgroup, driver).Path(driver)
		if exists(filepath.Join(cgroupRoot, path)) {
			continue
		}
		why := r.failed(fmt.Errorf("there is no cgroup %s", path))
		other := podcgroup.ParseReserved(r.cgroup, otherDriver).Path(otherDriver)
		if exists(filepath.Join(cgroupRoot, other)) {
			k.warn(why.Error() + "; if the runtime uses the other cgroup driver, " + other + " is used")
		} else {
			k.refuse(why)
		}
	}
}

// process: what the kernel grants this process, and how it treats this machine.
func (k *check) process() {
	c := k.Config
	if os.Geteuid() != 0 {
		k.warn("the agent does not run as root: most pods need that")
	}
	if lacking := lackingCapabilities("/proc/self/status"); len(lacking) > 0 {
		k.warn("the agent lacks the capabilities " + strings.Join(lacking, ", "))
	}
	if floor := k.machine.oomFloor; floor != nil && int64(c.OOMScoreAdj()) < *floor {
		k.warn(noOOMScore(c.OOMScoreAdj(), unix.EACCES).Error())
	}
	if !c.Kubelet().ProtectKernelDefaults {
		for _, s := range kernelSettings {
			file, _, differs, err := s.read(sysctlRoot)
			if err == nil && differs {
				err = unix.Access(file, unix.W_OK)
			}
			if err != nil {
				k.warn(fmt.Sprintf("kernel parameter %s: want %d: %v", s.name, s.want, err))
			}
		}
	}
}

// neededCapabilities are those that pods of all kinds need of the agent, by their bits (capabilities(7)).
var neededCapabilities = []struct {
	bit  int
	name string
}{{0, "CAP_CHOWN"}, {1, "CAP_DAC_OVERRIDE"}, {3, "CAP_FOWNER"}, {12, "CAP_NET_ADMIN"}, {19, "CAP_SYS_PTRACE"},
	{21, "CAP_SYS_ADMIN"}, {capSysResource, "CAP_SYS_RESOURCE"}}

// lackingCapabilities are those that the process of that status does not have.
func lackingCapabilities(status string) (names []string) {
	has, ok := capabilities(status)
	for _, c := range neededCapabilities {
		if ok && has&(1<<c.bit) == 0 {
			names = append(names, c.name)
		}
	}
	return names
}
