package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// The suite wants the places, ports and cgroups of a node's only kubelet. So the command runs itself in a cgroup, and
// in namespaces in which that cgroup is the root, nobody else has a port, and nobody else sees what is mounted:
//
//	apart ──starts──► enter ──joins the cgroup, execs in new namespaces──► settle ──► the run
//	  └── waits, and removes the cgroup with all that is left in it
const (
	groupVariable = "CONFORMANCE_CGROUP" // the cgroup, for enter and all after it
	apartVariable = "CONFORMANCE_APART"  // set after enter
)

// Cgroups that are the node's, below the command's, as the suite has them on a machine without systemd.
const (
	agentCgroup   = "/kubelet"
	runtimeCgroup = "/runtime"
	systemCgroup  = "/system" // of this command and what it starts
)

// address is the node's: of a documentation network (RFC 5737), and no gateway answers there.
const address, gateway = "198.51.100.1", "198.51.100.2"

// apart runs this command again as a node of its own, one at a time in a directory. Its error is an *exec.ExitError if
// the run has said why.
func apart(ctx context.Context, dir string) (err error) {
	defer check.Return(&err)
	check.OK(os.MkdirAll(dir, 0o755))
	lock := check.Must(os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644))
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another process runs the suite in %s: %w", dir, err)
	}
	group := fmt.Sprintf("/conformance-%.4x", sha256.Sum256([]byte(dir)))
	check.OK(removeGroup(ctx, group)) // of an earlier run that was killed
	cmd := exec.Command(check.Must(os.Executable()), os.Args[1:]...)
	cmd.Env = append(os.Environ(), groupVariable+"="+group)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	run := check.Must(lab.StartProcess(cmd))
	select {
	case <-run.Exited():
	case <-ctx.Done():
		ctx = context.WithoutCancel(ctx)
		check.OK(run.End(ctx, syscall.SIGTERM, cleanTime+stopTime))
	}
	return errors.Join(run.Err(), removeGroup(ctx, group))
}

func removeGroup(ctx context.Context, group string) error {
	return errors.Join(cgroup.EndAll(ctx, lab.CgroupDirs(group)), lab.RemoveCgroup(ctx, group))
}

// isApart says that this process is that which apart has started.
func isApart() bool { return os.Getenv(apartVariable) != "" }

// enter makes of a process that apart has started one in its cgroup and namespaces, by exec: a namespace is that of
// the thread that asks for it.
func enter() (err error) {
	defer check.Return(&err)
	group := os.Getenv(groupVariable)
	if group == "" || isApart() {
		return nil
	}
	for _, m := range check.Must(hierarchies()) {
		if err := joinGroup(m, group); err != nil {
			return fmt.Errorf("make a cgroup, as root: %w", err)
		}
	}
	runtime.LockOSThread()
	const apart = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWCGROUP
	if err := syscall.Unshare(apart); err != nil {
		return fmt.Errorf("make namespaces, as root: %w", err)
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), apartVariable+"=1"))
}

// hierarchies are the mounts of cgroups.
func hierarchies() ([]mounts.Mount, error) {
	all, err := mounts.Now()
	return slices.DeleteFunc(all, func(m mounts.Mount) bool { return !strings.HasPrefix(m.Type, "cgroup") }), err
}

// joinGroup makes a cgroup in a hierarchy, with its controllers, and moves this process there.
func joinGroup(m mounts.Mount, group string) (err error) {
	defer check.Return(&err)
	dir := filepath.Join(m.Point, group)
	check.OK(os.MkdirAll(dir, 0o755))
	if m.Type == "cgroup2" {
		all := check.Must(os.ReadFile(filepath.Join(m.Point, "cgroup.controllers")))
		for _, controller := range strings.Fields(string(all)) {
			check.OK(os.WriteFile(filepath.Join(m.Point, "cgroup.subtree_control"), []byte("+"+controller), 0))
		}
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		// With cgroup v1 nothing may run in a new one before it has these.
		if of, err := os.ReadFile(filepath.Join(m.Point, file)); err == nil {
			check.OK(os.WriteFile(filepath.Join(dir, file), of, 0))
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// settle furnishes the namespaces. Mounts of containers come through there, as on a machine, and nothing comes out.
func settle() (err error) {
	defer check.Return(&err)
	check.OK(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	check.OK(showGroup())
	check.OK(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""))
	ip := check.Must(lab.LookPath("ip"))
	for _, step := range []string{
		// A kubelet's statistics of the node's network are of eth0, and the suite wants traffic there.
		"link set lo up", "link add node0 type veth peer name node1", "link set node0 up", "link set node1 up",
		"address add " + address + "/24 dev node0", "route add default via " + gateway,
	} {
		if out, err := exec.Command(ip, strings.Fields(step)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", step, err, out)
		}
	}
	check.OK(errors.Join(os.Unsetenv(groupVariable), os.Unsetenv(apartVariable)))
	return cgroup.Join(systemCgroup, os.Getpid())
}

// showGroup mounts what is of the machine in /sys anew, as this network and this cgroup have it.
func showGroup() (err error) {
	defer check.Return(&err)
	const at = "/sys/fs/cgroup"
	all := check.Must(hierarchies())
	aside := check.Must(os.MkdirTemp("", "cgroup-"))
	defer os.Remove(aside)
	check.OK(syscall.Mount(at, aside, "", syscall.MS_MOVE, ""))
	check.OK(syscall.Mount("sysfs", "/sys", "sysfs", 0, ""))
	check.OK(syscall.Mount(aside, at, "", syscall.MS_MOVE, ""))
	for _, m := range all {
		options := slices.DeleteFunc(strings.Split(m.Options, ","), func(o string) bool { return o == "rw" })
		check.OK(syscall.Unmount(m.Point, syscall.MNT_DETACH))
		check.OK(syscall.Mount(m.Source, m.Point, m.Type, 0, strings.Join(options, ",")))
	}
	return nil
}
