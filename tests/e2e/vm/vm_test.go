package vm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// deadline is for the machine: to boot, to do the checks, and to end.
const deadline = Deadline + 5*time.Minute

// TestCgroupV2 boots a machine with cgroup v2 alone and runs a node in it, on each release of
// containerd. The apiserver that the node is a member of for a while runs outside.
//
//tier:all a second boot, with another release and without systemd
func TestCgroupV2(t *testing.T) { testMachine(t, Bare) }

// TestSystemd does the same in a machine with systemd, whose slices are the cgroups of pods, on the newest
// containerd. In the end logind shuts the machine down.
//
//tier:vm
func TestSystemd(t *testing.T) { testMachine(t, Systemd) }

// TestPackage has systemd start the agent by the unit of the package, which apt-get installs in the place of the kubelet's,
// takes away and brings back. kubeadm makes a node of the machine.
//
//tier:all makes packages, builds kubeadm, and boots a machine for them
func TestPackage(t *testing.T) { testMachine(t, Packaged) }

func testMachine(t *testing.T, m Machine) {
	repository := check.Value(lab.Repository())(t)
	amd64 := lab.NewRequirement("an amd64 machine", func() error {
		if runtime.GOARCH != "amd64" {
			return errors.ErrUnsupported
		}
		return nil
	})
	lab.Need(t, amd64, lab.GoToolchain, lab.Qemu, hasKernel(repository), lab.MountNFS, lab.CNIPlugins, lab.Runc, lab.RuncBuild, hasMkfs, lab.OldContainerd)
	if m.HasSystemd() {
		lab.Need(t, hasSystemd(repository))
	}
	if m == Packaged {
		lab.Need(t, hasApt)
	}
	if m == Bare {
		lab.Need(t, hasISCSI(repository))
	}
	k := check.Value(findKernel(repository))(t)
	plane := lab.ForControlPlaneTest(t, lab.ControlPlaneConfig{ControllerManager: m == Packaged}) // it signs what kubeadm asks for
	dir := t.TempDir()
	initramfs, console := filepath.Join(dir, "initramfs"), filepath.Join(dir, "console")
	check.Fatal(t, buildInitramfs(t.Context(), m, k, plane, repository, dir, initramfs, t.Output()))
	disks := check.Value(makeDisks(t.Context(), dir))(t)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	begin := time.Now()
	report, err := boot(ctx, m, k, initramfs, disks, console, t.Output())
	t.Logf("kernel %s, %s from boot to power-off", k.release, time.Since(begin).Round(time.Second))
	if err != nil {
		t.Error(err)
	}
	for _, release := range m.Releases() {
		t.Run("containerd-"+string(release), func(t *testing.T) {
			for _, check := range m.Checks() {
				if !check.Of(m, release) {
					continue
				}
				t.Run(check.Name, func(t *testing.T) {
					result, made := report.Of(string(release), check.Name)
					if !made {
						t.Fatalf("not shown: %s: the guest did not get there", check.What)
					}
					t.Logf("%s (%s)", check.What, result.Took)
					if result.Err != "" {
						t.Error(result.Err)
					}
				})
			}
		})
	}
	check.Equal(t, report.Fatal, "", "the guest could not go on")
	if !report.Ended {
		t.Error("the guest died before it was done")
	}
	check.None(t, report.Strange, "not of the protocol")
	if t.Failed() {
		t.Logf("the end of the console:\n%s", tail(console, 20_000))
	}
}

// tail is the end of a file, at most n bytes.
func tail(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-n):])
}
