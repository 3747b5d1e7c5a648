package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// Where things are in the guest.
const (
	AgentPath    = "/opt/troupe"
	ImagesDir    = "/opt/images"   // a static program each, named as it
	ExamplesDir  = "/opt/examples" // manifests
	ModulesDir   = "/opt/modules"  // kernel modules, in the order of their names
	ReportDevice = "/dev/ttyS1"
	NewRuncDir   = "/opt/runc" // has one that can give pods users of their own
	guestPath    = "/init"
	// Kubeconfigs of the apiserver outside.
	AdminKubeconfig = "/opt/kube/admin"
	NodeKubeconfig  = "/opt/kube/node"
)

// Addresses of the emulator's network: the guest, and the machine outside with its loopback.
const (
	GuestAddress = "10.0.2.15"
	HostAddress  = "10.0.2.2"
)

// ContainerdDir has a release's containerd and shim, in the guest.
func ContainerdDir(r lab.Release) string { return "/opt/containerd-" + string(r) }

// modules are what a node needs of the kernel that Debian does not build in.
var modules = []string{"overlay", "bridge", "veth", "virtio_pci", "virtio_rng", "virtio_net", "nfsv4", "nfsd", "virtio_blk", "ext4", "quota_v2", "xfs"}

// mountPrograms mount NFS, as on any node that does. They read the files of settings.
var (
	mountPrograms = map[string]string{"/usr/bin/mount": "mount", "/usr/bin/umount": "umount", "/sbin/mount.nfs": "mount.nfs", "/sbin/mount.nfs4": "mount.nfs"}
	mountSettings = []string{"/etc/netconfig", "/etc/protocols", "/etc/services"}
)

// plugins are the CNI plugins of a laboratory's network, and what containerd calls besides.
var plugins = []string{"bridge", "host-local", "loopback"}

// buildInitramfs builds all that goes into the guest, and writes it to file. Dir is for what is in
// between.
func buildInitramfs(
	ctx context.Context, m Machine, k kernel, plane *lab.ControlPlane, repository, dir, file string, log io.Writer,
) (err error) {
	defer check.Return(&err)
	a := newArchive()
	for _, name := range []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/root", "/var/lib"} {
		a.directory(name)
	}
	a.content("/etc/resolv.conf", nil, 0o644)
	a.content("/etc/hosts", []byte("127.0.0.1 localhost\n"), 0o644)
	a.content("/etc/hostname", []byte("guest\n"), 0o644)
	a.content("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644)
	a.content("/etc/group", []byte("root:x:0:\n"), 0o644)

	guest := check.Must(lab.BuildGuest(ctx, repository))
	a.file(guestPath, guest, 0o755)
	agent := check.Must(lab.BuildTroupe(ctx, repository, false))
	a.file(AgentPath, agent, 0o755)
	for _, program := range lab.Programs() {
		binary := check.Must(lab.BuildProgram(ctx, repository, program))
		a.content(path.Join(ImagesDir, program), binary, 0o755)
	}
	examples := check.Must(filepath.Glob(filepath.Join(repository, "docs/examples/*.yaml")))
	for _, example := range examples {
		a.file(path.Join(ExamplesDir, filepath.Base(example)), example, 0o644)
	}
	for name, user := range map[string][]string{
		AdminKubeconfig: {"guest-admin", "system:masters"},
		NodeKubeconfig:  {"system:node:" + node.NodeName, "system:nodes"},
	} {
		kubeconfig := check.Must(plane.Kubeconfig(user[0], user[1:]...))
		a.file(name, kubeconfig, 0o600)
	}
	if m.HasSystemd() {
		root := check.Must(systemdRoot(repository))
		check.OK(a.addSystemd(m, root))
	}
	if m == Packaged {
		check.OK(a.addPackages(ctx, plane, repository, dir, log))
	}
	check.OK(a.addRuntime(ctx, m, repository, log))
	load := modules
	if m == Bare {
		root := check.Must(iscsiRoot(repository))
		check.OK(a.addISCSI(root))
		load = slices.Concat(modules, iscsiModules)
	}
	load = check.Must(k.load(load...))
	for i, module := range load {
		a.file(path.Join(ModulesDir, fmt.Sprintf("%02d-%s", i, filepath.Base(module))), module, 0o644)
	}

	f := check.Must(os.Create(file))
	return errors.Join(a.write(f), f.Close())
}

// addRuntime adds the releases of containerd, runc and the CNI plugins, where they are outside.
func (a *archive) addRuntime(ctx context.Context, m Machine, repository string, log io.Writer) (err error) {
	defer check.Return(&err)
	for _, release := range m.Releases() {
		bin := check.Must(release.BinDir(ctx, repository, log))
		for _, name := range []string{"containerd", "containerd-shim-runc-v2"} {
			check.OK(a.addProgram(path.Join(ContainerdDir(release), name), filepath.Join(bin, name)))
		}
	}
	runc := check.Must(lab.LookPath("runc"))
	check.OK(a.addProgram("/usr/sbin/runc", runc))
	newRunc := check.Must(lab.BuildRunc(ctx, repository, log))
	check.OK(a.addProgram(path.Join(NewRuncDir, "runc"), filepath.Join(newRunc, "runc")))
	for name, program := range mountPrograms {
		file := check.Must(lab.LookPath(program))
		check.OK(a.addProgram(name, file))
	}
	for _, file := range mountSettings {
		if _, err := os.Stat(file); err == nil {
			a.file(file, file, 0o644)
		}
	}
	cni := check.Must(lab.CNIBinDir())
	for _, plugin := range plugins {
		check.OK(a.addProgram(path.Join(cni, plugin), filepath.Join(cni, plugin)))
	}
	return nil
}

// processors are the machine's CPUs and memory, as arguments of the emulator: two NUMA nodes of two CPUs and a
// gibibyte each, of which guest/numa.go has the numbers. Those with systemd have no nodes. Half of the memory is for files,
// and packages take theirs twice.
func (m Machine) processors() []string {
	switch m {
	case Systemd:
		return []string{"-smp", "2", "-m", "2048"}
	case Packaged:
		return []string{"-smp", "2", "-m", "4096"}
	case Bare:
	}
	return []string{
		"-smp", "4,sockets=2,cores=2,threads=1", "-m", "2048",
		"-object", "memory-backend-ram,id=ram0,size=1024M", "-numa", "node,nodeid=0,cpus=0-1,memdev=ram0",
		"-object", "memory-backend-ram,id=ram1,size=1024M", "-numa", "node,nodeid=1,cpus=2-3,memdev=ram1",
	}
}

// boot runs the guest until it powers the machine off or ctx ends, and returns its report. What the
// console says goes to the file, and what is reported also to log, at once.
func boot(
	ctx context.Context, m Machine, k kernel, initramfs string, disks []string, console string, log io.Writer,
) (_ Report, err error) {
	defer check.Return(&err)
	qemu := check.Must(lab.LookPath("qemu-system-x86_64"))
	cmd := exec.Command(qemu,
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "q35", "-accel", accelerator(),
		"-cpu", "Nehalem", // without AVX, which takes longer to emulate than it saves
		"-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng",
		"-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=", // to the apiserver outside
		"-kernel", k.image, "-initrd", initramfs,
		// A panic ends the machine at once. What guards against other guests only takes time.
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off cgroup_no_v1=all",
		"-serial", "file:"+console, "-serial", "stdio",
	)
	cmd.Args = slices.Concat(cmd.Args, m.processors(), disks)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	port, write := check.Must2(os.Pipe())
	defer port.Close()
	cmd.Stdout = write
	machine, err := lab.StartProcess(cmd) // which the kernel ends with this process, if not we do
	write.Close()
	if err != nil {
		return Report{}, fmt.Errorf("start the virtual machine: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = machine.Signal(syscall.SIGKILL) }) // or it has ended
	defer stop()
	report, err := ReadReport(io.TeeReader(port, log))
	<-machine.Exited()
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("the virtual machine was ended: %w", ctx.Err()))
	} else if machine.Err() != nil {
		err = errors.Join(err, fmt.Errorf("run the virtual machine: %w: %s", machine.Err(), strings.TrimSpace(stderr.String())))
	}
	return report, err
}
