package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// asking is a pod of one program that asks for resources.
func asking(name, resources string) string {
	return Manifest(name, 1, "  containers: [{name: main, image: $WORK, args: [sleep], resources: "+resources+"}]")
}

const cgroupV2 = "/sys/fs/cgroup/cgroup.controllers"

// cgroupFile reads a file of a cgroup below the bed's; with v1, of a controller.
func (b *bed) cgroupFile(controller, path string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", controller, b.lab.CgroupRoot(), path))
	return strings.TrimSpace(string(text)), err
}

// TestCgroups shows the cgroups of pods of each class, what is in them, and that nothing is left of
// them, whoever leaves it.
//
//tier:real
func TestCgroups(t *testing.T) {
	if _, err := os.Stat(cgroupV2); err == nil {
		hosttest.Need(t, "cgroup v1", errors.New("this machine has v2, which is looked at in the virtual machine"))
	}
	onEach(t, func(t *testing.T, release lab.Release) {
		b := newBed(t, release, func(c *Config) {
			c.Settings = "podPidsLimit: 300\nsystemReserved: {cpu: 100m, memory: 100Mi}\n"
		})
		b.start(t)
		b.apply(t, "sure.yaml", asking("sure", "{limits: {cpu: 500m, memory: 64Mi}}"))
		b.apply(t, "some.yaml", asking("some", "{requests: {cpu: 250m, memory: 16Mi}, limits: {memory: 96Mi}}"))
		b.apply(t, "none.yaml", asking("none", "{}"))
		sure, some, none := b.awaitRunning(t, "sure"), b.awaitRunning(t, "some"), b.awaitRunning(t, "none")

		ofSure, ofSome, ofNone := "kubepods/pod"+sure.UID, "kubepods/burstable/pod"+some.UID, "kubepods/besteffort/pod"+none.UID
		expect := func(controller, path, want string) {
			t.Helper()
			b.await(t, path+" is "+want, func() error {
				got, err := b.cgroupFile(controller, path)
				return check.That(err == nil && got == want, "it is %q, %v", got, err)
			})
		}
		expect("cpu", ofSure+"/cpu.shares", "512")
		expect("cpu", ofSure+"/cpu.cfs_quota_us", "50000")
		expect("cpu", ofSure+"/cpu.cfs_period_us", "100000")
		expect("memory", ofSure+"/memory.limit_in_bytes", strconv.Itoa(64<<20))
		expect("pids", ofSure+"/pids.max", "300")
		expect("cpu", ofSome+"/cpu.shares", "256")
		expect("cpu", ofSome+"/cpu.cfs_quota_us", "-1")
		expect("memory", ofSome+"/memory.limit_in_bytes", strconv.Itoa(96<<20))
		expect("cpu", ofNone+"/cpu.shares", "2")
		expect("pids", ofNone+"/pids.max", "300")
		expect("cpu", "kubepods/burstable/cpu.shares", "256")
		expect("cpu", "kubepods/besteffort/cpu.shares", "2")
		all, err := b.cgroupFile("memory", "kubepods/memory.limit_in_bytes")
		if n, e := strconv.ParseInt(all, 10, 64); err != nil || e != nil || n > 1<<45 {
			t.Errorf("the memory limit of all pods is %q, %v; want what is allocatable", all, err)
		}
		for name, path := range map[string]string{"sure": ofSure, "some": ofSome, "none": ofNone} {
			b.runsIn(t, name, path)
		}

		// More is asked for, and less.
		b.apply(t, "more.yaml", asking("more", "{requests: {cpu: 500m}}"))
		b.awaitRunning(t, "more")
		expect("cpu", "kubepods/burstable/cpu.shares", "768")
		b.remove(t, "some.yaml")
		b.awaitGone(t, "some", some.UID)
		expect("cpu", "kubepods/burstable/cpu.shares", "512")
		if _, err := b.cgroupFile("memory", ofSome+"/memory.limit_in_bytes"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its cgroup is left: %v", err)
		}

		// What is left in a pod's cgroup is killed with it.
		stray := exec.Command("sleep", "600")
		check.Fatal(t, stray.Start())
		join := filepath.Join("/sys/fs/cgroup/memory", b.lab.CgroupRoot(), ofNone, "cgroup.procs")
		check.Fatal(t, os.WriteFile(join, []byte(strconv.Itoa(stray.Process.Pid)), 0))
		t.Cleanup(func() { stray.Process.Kill() }) //nolint:errcheck // it ought to be dead
		ended := make(chan struct{})
		go func() {
			stray.Wait() //nolint:errcheck // it is killed
			close(ended)
		}()
		b.remove(t, "none.yaml")
		b.awaitGone(t, "none", none.UID)
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("a process that was left in a pod's cgroup lives on")
		}

		// An agent finds what another left.
		b.kill(t)
		orphan := filepath.Join("/sys/fs/cgroup/cpu", b.lab.CgroupRoot(), "kubepods/burstable/pod0a-1b/left")
		check.Fatal(t, os.MkdirAll(orphan, 0o755))
		b.start(t)
		b.await(t, "the cgroup of a pod that is no more is removed", func() error {
			_, err := os.Stat(filepath.Dir(orphan))
			return check.That(errors.Is(err, os.ErrNotExist), "it is there: %v", err)
		})
		b.runsIn(t, "sure", ofSure)
		for _, name := range []string{"sure", "more"} {
			b.remove(t, name+".yaml")
		}
		b.await(t, "nothing is left of any pod", func() error {
			left := Leftovers(b.Daemon, b.lab)
			return check.That(len(left) == 0, "left: %s", strings.Join(left, "; "))
		})
	})
}

// runsIn shows that all processes of a pod's containers are in its cgroup, of each controller.
func (b *bed) runsIn(t *testing.T, name, path string) {
	t.Helper()
	for _, c := range b.look(t).Of(name).Running() {
		pid := check.Value(ContainerPID(t.Context(), b.lab, c.Id))(t)
		text := check.Value(os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)))(t)
		for line := range strings.Lines(string(text)) {
			if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); parts[0] != "0" && parts[2] != filepath.Join(b.lab.CgroupRoot(), path, c.Id) {
				t.Errorf("%s of %s is in %s", c.Metadata.GetName(), name, line)
			}
		}
	}
}
