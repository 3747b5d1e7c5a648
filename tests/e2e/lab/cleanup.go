package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/tests/check"
)

// perPod bounds a removal through CRI: a pod that takes longer is removed by force.
const perPod = 2 * time.Minute

// Cleanup removes every pod, first through containerd, which it starts if needed, then by force
// what is left; stops containerd and the registry; and takes away mounts, network namespaces, the
// bridge, cgroups and all files but containerd's log. It can be called in any state and again.
// The lab is closed afterwards. Its error says what it could not remove, or had to by force.
func (l *Lab) Cleanup(ctx context.Context) error {
	polite := l.removePods(ctx)
	if polite != nil {
		polite = fmt.Errorf("remove pods through containerd: %w", polite)
	}
	err := errors.Join(polite, l.Close(), l.removeByForce(ctx))
	if left := l.Leaks(); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("left behind: %s", strings.Join(left, "; ")))
	}
	return err
}

// removePods removes all sandboxes, and with them their containers, through CRI.
func (l *Lab) removePods(ctx context.Context) error {
	if l.process == nil {
		if _, err := os.Stat(filepath.Join(l.dir, "root")); errors.Is(err, fs.ErrNotExist) {
			return nil // never started
		}
		if l.registry == nil {
			return nil // closed before
		}
		if err := l.Start(ctx); err != nil {
			return err
		}
	}
	return l.RemovePods(ctx)
}

// RemovePods removes every sandbox and container through CRI, without grace, and past it only what
// containerd is known to lose: see lostTask.
func (l *Lab) RemovePods(ctx context.Context) error {
	list, err := l.Runtime().ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	ids := make(chan string)
	errs := make(chan error)
	const workers = 3
	for range workers {
		go func() {
			var err error
			for id := range ids {
				err = errors.Join(err, l.removePod(ctx, id))
			}
			errs <- err
		}()
	}
	for _, s := range list.Items {
		ids <- s.Id
	}
	close(ids)
	err = nil
	for range workers {
		err = errors.Join(err, <-errs)
	}
	// Containers whose sandbox had gone before them.
	containers, listErr := l.Runtime().ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if listErr != nil {
		return errors.Join(err, fmt.Errorf("list containers: %w", listErr))
	}
	for _, c := range containers.Containers {
		e := l.unlessLost(ctx, func() error {
			_, e := l.Runtime().RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.Id})
			return e
		})
		if e != nil {
			err = errors.Join(err, fmt.Errorf("remove container %s: %w", c.Id, e))
		}
	}
	return err
}

func (l *Lab) removePod(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, perPod)
	defer cancel()
	if _, err := l.Runtime().StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	err := l.unlessLost(ctx, func() error {
		_, err := l.Runtime().RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
		return err
	})
	if err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}

// removeByForce removes what containerd did not.
func (l *Lab) removeByForce(ctx context.Context) error {
	ids, err := l.endByForce(ctx)
	err = errors.Join(err, l.removeCgroups(ctx, ids), Unmount(l.dir), l.removeNetwork(ctx, ids))
	for _, part := range []string{"root", "state", "cni", "certs.d", "cdi", "containerd.toml", "network.json", "containerd.sock", "containerd.sock.ttrpc"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(l.dir, part)))
	}
	if l.sockets != l.dir {
		err = errors.Join(err, os.RemoveAll(l.sockets))
	}
	return err
}

// endByForce ends all processes of the lab, and says which containers there were.
func (l *Lab) endByForce(ctx context.Context) (ids []string, err error) {
	defer check.Return(&err)
	bundles := check.Must(filepath.Glob(filepath.Join(l.dir, "state/io.containerd.runtime.v2.task/k8s.io/*")))
	var shimSockets []string
	for _, bundle := range bundles {
		ids = append(ids, filepath.Base(bundle))
		shimSockets = append(shimSockets, shimSocket(bundle))
	}
	shims := check.Must(l.shims())
	contained := check.Must(containerProcesses(ids))
	err = errors.Join(l.killStray(ctx), kill(ctx, append(shims, contained...)), l.endOrphans(ctx))
	for _, socket := range shimSockets {
		if socket != "" {
			err = errors.Join(err, ignoreMissing(os.Remove(socket)))
		}
	}
	return ids, err
}

// endOrphans ends what runs in the lab's cgroups though the runtime knows nothing of it any more. When an agent is
// killed while a container is made, containerd may forget the container and leave its "runc init" behind, which waits
// for a start or is frozen (runc issue 2575). An agent does the same when it removes the cgroup of a pod.
func (l *Lab) endOrphans(ctx context.Context) error {
	if l.config.SystemdCgroup {
		return nil // they are not below a cgroup of the lab
	}
	err := processes(func(pid int, args []string) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(text), ":"+l.CgroupRoot()+"/") {
			l.say("process %d is left in a cgroup, and the runtime knows nothing of it: %q", pid, args)
		}
	})
	return errors.Join(err, cgroup.EndAll(ctx, CgroupDirs(l.CgroupRoot())))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// shimSocket is the socket of a bundle's shim, which lies outside the lab's directory. Which file
// names it depends on the release.
func shimSocket(bundle string) string {
	var bootstrap struct{ Address string }
	if text, err := os.ReadFile(filepath.Join(bundle, "bootstrap.json")); err == nil {
		if json.Unmarshal(text, &bootstrap) == nil && bootstrap.Address != "" {
			return strings.TrimPrefix(bootstrap.Address, "unix://")
		}
	}
	text, err := os.ReadFile(filepath.Join(bundle, "address"))
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(string(text), "unix://")
}

// mountsUnder are the mount points at dir and under it, deepest first.
func mountsUnder(dir string) ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil { // the table has no links
		dir = real
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape.Replace(fields[4]); point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points) // the table is in the order of mounting
	return points, nil
}

// Unmount takes away every mount at dir and under it, an absolute path, also those in use.
func Unmount(dir string) error {
	points, err := mountsUnder(dir)
	for _, point := range points {
		if e := syscall.Unmount(point, syscall.MNT_DETACH); e != nil && !errors.Is(e, syscall.EINVAL) {
			err = errors.Join(err, fmt.Errorf("unmount %s: %w", point, e))
		}
	}
	return err
}

// removeCgroups removes the cgroups of containers whose runc could not, and [Lab.CgroupRoot].
func (l *Lab) removeCgroups(ctx context.Context, ids []string) error {
	var left []string
	ours := false // inside CgroupRoot
	root := ""
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // cgroups come and go
		}
		ours = root != "" && strings.HasPrefix(path, root+"/")
		if !ours && d.Name() == filepath.Base(l.CgroupRoot()) {
			root, ours = path, true
		}
		if ours || slices.Contains(ids, d.Name()) {
			left = append(left, path)
		}
		return nil
	})
	return errors.Join(err, removeDirs(ctx, left))
}

// RemovePodCgroups removes the cgroups of pods below [Lab.CgroupRoot], in which nothing may run any
// more.
func (l *Lab) RemovePodCgroups(ctx context.Context) error {
	return removeBelow(ctx, l.CgroupRoot()+"/kubepods", func(below string) bool { return strings.Contains(below, "/pod") })
}

// RemoveCgroup removes a cgroup and all below it, in which nothing may run any more.
func RemoveCgroup(ctx context.Context, name string) error {
	return removeBelow(ctx, name, func(string) bool { return true })
}

// removeBelow removes the cgroups at and below one whose names from there are so.
func removeBelow(ctx context.Context, name string, so func(below string) bool) error {
	var left []string
	for _, root := range CgroupDirs(name) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && so(path[len(root):]) {
				left = append(left, path)
			}
			return nil // cgroups come and go
		})
		if err != nil {
			return err
		}
	}
	return removeDirs(ctx, left)
}

// CgroupDirs are the directories of a cgroup: one, or with v1 one for each controller.
func CgroupDirs(name string) (found []string) {
	for _, pattern := range []string{"/sys/fs/cgroup" + name, "/sys/fs/cgroup/*" + name} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // the pattern is ours
		}
		found = append(found, dirs...)
	}
	return found
}

// removeDirs removes the directories of cgroups, which are in the order of a walk.
func removeDirs(ctx context.Context, dirs []string) (err error) {
	slices.Reverse(dirs) // children before their parents
	for _, dir := range dirs {
		e := Eventually(ctx, 5*time.Second, "remove cgroup "+dir, func() error { return ignoreMissing(syscall.Rmdir(dir)) })
		err = errors.Join(err, e)
	}
	return err
}

// removeNetwork takes away the bridge, what the CNI library remembers of its pods, and chains of
// host ports that no rule needs any more.
func (l *Lab) removeNetwork(ctx context.Context, ids []string) error {
	bridge := "lab" + l.id
	var err error
	if _, e := os.Stat("/sys/class/net/" + bridge); e == nil {
		if _, e := output(ctx, "", nil, "ip", "link", "delete", bridge); e != nil {
			err = fmt.Errorf("remove bridge: %w", e)
		}
	}
	results, e := filepath.Glob("/var/lib/cni/results/" + bridge + "-*")
	err = errors.Join(err, e)
	for _, id := range ids {
		results = append(results, "/var/lib/cni/results/cni-loopback-"+id+"-lo")
	}
	for _, file := range results {
		err = errors.Join(err, ignoreMissing(os.Remove(file)))
	}
	return errors.Join(err, removeHostPortRules(ctx, bridge))
}

// removeHostPortRules deletes the rules and chains that the portmap plugin made for the network's
// pods and that its own removal, after a crash, did not. The rule of a pod names the network.
func removeHostPortRules(ctx context.Context, network string) (err error) {
	for _, program := range []string{"iptables", "ip6tables"} {
		if _, e := LookPath(program + "-save"); e != nil {
			continue // then nothing can have made any
		}
		text, e := output(ctx, "", nil, program+"-save", "-t", "nat")
		if e != nil {
			err = errors.Join(err, fmt.Errorf("list host port rules: %w", e))
			continue
		}
		for line := range strings.Lines(text) {
			rule, ok := strings.CutPrefix(strings.TrimSpace(line), "-A ")
			if !ok || !strings.Contains(rule, `name: \"`+network+`\"`) {
				continue
			}
			_, chain, _ := strings.Cut(rule, "-j ")
			// A shell reads the quotes as iptables-save wrote them.
			of := program + " -w -t nat "
			script := "PATH=$PATH:/usr/sbin:/sbin; " + of + "-D " + rule
			if strings.HasPrefix(chain, "CNI-DN-") {
				script += " && " + of + "-F " + chain + " && " + of + "-X " + chain
			}
			if _, e := output(ctx, "", nil, "sh", "-c", script); e != nil {
				err = errors.Join(err, fmt.Errorf("remove host port rule: %w", e))
			}
		}
	}
	return err
}

// Leaks lists what of the lab's pods is on the host: shims, mounts, network namespaces, cgroups; and
// once containerd has stopped, the bridge and all cgroups. After Cleanup it is empty.
func (l *Lab) Leaks() []string {
	var left []string
	shims, err := l.shims()
	if err != nil {
		return []string{err.Error()}
	}
	for _, pid := range shims {
		left = append(left, fmt.Sprintf("shim %d", pid))
	}
	points, err := mountsUnder(l.dir)
	if err != nil {
		return []string{err.Error()}
	}
	for _, point := range points {
		left = append(left, "mount "+point)
	}
	if spaces, err := filepath.Glob(filepath.Join(l.dir, "state/netns/*")); err == nil {
		for _, s := range spaces {
			left = append(left, "network namespace "+s)
		}
	}
	cgroups := func(below string) {
		if l.config.SystemdCgroup {
			return // not known by these names, and not all of them the lab's
		}
		for _, dir := range CgroupDirs(l.CgroupRoot() + below) {
			left = append(left, "cgroup "+dir)
		}
	}
	cgroups("/kubepods/pod*")
	cgroups("/kubepods/*/pod*")
	if l.process != nil {
		return left
	}
	if _, err := os.Stat("/sys/class/net/lab" + l.id); err == nil {
		left = append(left, "bridge lab"+l.id)
	}
	cgroups("")
	return left
}
