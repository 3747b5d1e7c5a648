package contract_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/supervisor/host/disk/pullrecords"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/contract"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// simulatedMachine is a machine on a virtual clock.
func simulatedMachine() (*machine.Machine, contract.Passing) {
	clock, passing := contract.Virtually()
	return machine.New(clock, &port.Machine{}), passing
}

func TestSimulatedHost(t *testing.T) {
	contract.Host(t, func(*testing.T) contract.HostSubject {
		m, passing := simulatedMachine()
		return contract.HostSubject{
			Passing: passing, Host: m.Host, Directory: "/mnt/data",
			Content: func(_ *testing.T, uid types.UID, volume, _, file string) string {
				return m.Host.Content(uid, volume)[len(file+"="):][:len("one")]
			},
		}
	})
}

// TestRealHost runs the suite on this machine's file systems, which needs to mount.
func TestRealHost(t *testing.T) {
	hosttest.NeedRoot(t)
	contract.Host(t, func(t *testing.T) contract.HostSubject {
		dir := t.TempDir()
		h := check.Value(host.New(host.Config{Root: filepath.Join(dir, "kubelet"), LogRoot: filepath.Join(dir, "logs")}))(t)
		t.Cleanup(func() { check.Error(t, h.Close()) })
		return contract.HostSubject{
			Passing: contract.Really(), Host: h, Directory: t.TempDir(),
			Content: func(t *testing.T, _ types.UID, _, path, file string) string {
				t.Helper()
				data, err := os.ReadFile(filepath.Join(path, file))
				if err != nil {
					t.Error(err)
				}
				return string(data)
			},
		}
	})
}

func TestSimulatedCgroups(t *testing.T) {
	contract.Cgroups(t, func(*testing.T) contract.CgroupsSubject {
		m, passing := simulatedMachine()
		return contract.CgroupsSubject{Passing: passing, Cgroups: m.Cgroups, Settings: &podcgroup.Settings{}}
	})
}

// TestRealCgroups runs the suite on cgroups of its own on this machine.
func TestRealCgroups(t *testing.T) {
	contract.Cgroups(t, func(t *testing.T) contract.CgroupsSubject {
		s := &podcgroup.Settings{Root: fmt.Sprintf("/troupe-contract-%d-%d", os.Getpid(), time.Now().UnixNano())}
		c, err := cgroup.New(s)
		if err == nil {
			set := make(chan error, 1)
			c.Set(t.Context(), s.Top(), podcgroup.Values{}, func(err error) { set <- err })
			err = <-set
		}
		hosttest.Need(t, "to make cgroups", err)
		t.Cleanup(func() { removeCgroups(t, s.Root) })
		return contract.CgroupsSubject{Passing: contract.Really(), Cgroups: c, Settings: s}
	})
}

// removeCgroups removes a cgroup and all below it, in each hierarchy.
func removeCgroups(t *testing.T, root string) {
	t.Helper()
	tops := check.Value(filepath.Glob("/sys/fs/cgroup/*" + root))(t)
	for _, top := range append(tops, "/sys/fs/cgroup"+root) {
		var dirs []string
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // a link to another hierarchy
				t.Error(err)
			}
		}
	}
}

func TestSimulatedCheckpoints(t *testing.T) {
	contract.Checkpoints(t, func(*testing.T) contract.CheckpointsSubject {
		m, passing := simulatedMachine()
		return contract.CheckpointsSubject{Passing: passing, Checkpoints: m.Checkpoints}
	})
}

func TestSimulatedPullRecords(t *testing.T) {
	contract.PullRecords(t, func(*testing.T) contract.PullRecordsSubject {
		m, passing := simulatedMachine()
		return contract.PullRecordsSubject{Passing: passing, PullRecords: m.PullRecords}
	})
}

func TestRealPullRecords(t *testing.T) {
	contract.PullRecords(t, func(t *testing.T) contract.PullRecordsSubject {
		return contract.PullRecordsSubject{Passing: contract.Really(), PullRecords: pullrecords.New(t.TempDir())}
	})
}

func TestSimulatedManifests(t *testing.T) {
	contract.Manifests(t, func(*testing.T) contract.ManifestsSubject {
		m, passing := simulatedMachine()
		return contract.ManifestsSubject{
			Passing: passing, Manifests: m.Manifests, Remove: m.Manifests.Remove,
			Write:  func(name, data string) { m.Manifests.Write(name, []byte(data)) },
			Answer: func(body string) { m.Manifests.Body, m.Manifests.FetchErr = body, nil },
			Fail:   func() { m.Manifests.FetchErr = errors.New("500 Internal Server Error") },
		}
	})
}
