package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// ownCgroups are cgroups of this test's own, on this host.
func ownCgroups(t *testing.T) *Cgroups {
	t.Helper()
	s := &podcgroup.Settings{Root: fmt.Sprintf("/troupe-test-%d-%d", os.Getpid(), time.Now().UnixNano())}
	c, err := New(s)
	if err == nil {
		err = asked(t, func(ctx context.Context, done func(error)) { c.Set(ctx, s.Top(), podcgroup.Values{}, done) })
	}
	hosttest.Need(t, "to make cgroups", err)
	t.Cleanup(func() {
		for _, class := range []v1.PodQOSClass{v1.PodQOSBurstable, v1.PodQOSBestEffort, v1.PodQOSGuaranteed} {
			for _, dir := range c.dirs(s.Class(class).Path(s.Driver)) {
				remove(t, dir)
			}
		}
		for _, dir := range c.dirs(s.Root) {
			remove(t, dir)
		}
	})
	return c
}

func remove(t *testing.T, dir string) {
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func asked(t *testing.T, call func(context.Context, func(error))) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got := make(chan error, 1)
	call(ctx, func(err error) { got <- err })
	return <-got
}

func TestCgroupsOnThisHost(t *testing.T) {
	c := ownCgroups(t)
	pods := func() []types.UID {
		var uids []types.UID
		check.Fatal(t, asked(t, func(ctx context.Context, done func(error)) {
			c.Pods(ctx, func(found []types.UID, err error) { uids = found; done(err) })
		}))
		return uids
	}
	name := check.Value(c.settings.PodIn(v1.PodQOSBurstable, "a-1"))(t)
	set := func(v podcgroup.Values) {
		t.Helper()
		for range 2 { // again is as once
			check.Fatal(t, asked(t, func(ctx context.Context, done func(error)) { c.Set(ctx, name, v, done) }))
		}
	}
	file := func(v1, v2 string) string {
		path := filepath.Join(c.root, name.Path(c.settings.Driver), v2)
		if !c.v2 {
			controller, _, _ := strings.Cut(v1, ".")
			path = filepath.Join(c.root, controller, name.Path(c.settings.Driver), v1)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(text))
	}
	set(podcgroup.Values{CPUShares: 512, Memory: 64 << 20, PIDs: 50, CPUQuota: 50000, CPUPeriod: 100000})
	check.Equal(t, file("memory.limit_in_bytes", "memory.max"), "67108864", "memory")
	check.Equal(t, file("pids.max", "pids.max"), "50", "processes")
	set(podcgroup.Values{CPUShares: 1024, Memory: 32 << 20}) // what is zero stays
	check.Equal(t, file("memory.limit_in_bytes", "memory.max"), "33554432", "then memory")
	check.Equal(t, file("pids.max", "pids.max"), "50", "then processes")
	check.Same(t, pods(), []types.UID{"a-1"}, "there are pods")

	// One process is in the cgroup of one controller alone, deep down.
	deep := filepath.Join(c.dirs(name.Path(c.settings.Driver))[0], "x", "y")
	if !c.v2 {
		deep = filepath.Join(c.root, "memory", name.Path(c.settings.Driver), "x", "y")
	}
	check.Fatal(t, os.MkdirAll(deep, 0o755))
	stray := exec.Command("sleep", "300")
	check.Fatal(t, stray.Start())
	t.Cleanup(func() { stray.Process.Kill() }) //nolint:errcheck // it ought to be dead
	check.Fatal(t, os.WriteFile(filepath.Join(deep, "cgroup.procs"), fmt.Append(nil, stray.Process.Pid), 0))
	if !c.v2 { // as a runc leaves it that is killed at the wrong moment
		frozen := filepath.Join(c.root, "freezer", name.Path(c.settings.Driver), "frozen")
		check.Fatal(t, os.MkdirAll(frozen, 0o755))
		for file, text := range map[string]string{"cgroup.procs": strconv.Itoa(stray.Process.Pid), "freezer.state": "FROZEN"} {
			check.Fatal(t, os.WriteFile(filepath.Join(frozen, file), []byte(text), 0))
		}
	}
	ended := make(chan struct{})
	go func() {
		stray.Wait() //nolint:errcheck // it is killed
		close(ended)
	}()
	for range 2 {
		check.Fatal(t, asked(t, func(ctx context.Context, done func(error)) { c.RemovePod(ctx, "a-1", done) }))
	}
	<-ended
	if got := pods(); len(got) > 0 {
		t.Errorf("pods %v are left", got)
	}
}

// TestCgroupsOfOthers: what is not there is not made, and an odd UID harms nobody.
func TestCgroupsOfOthers(t *testing.T) {
	c := ownCgroups(t)
	err := asked(t, func(ctx context.Context, done func(error)) {
		c.SetExisting(ctx, podcgroup.Name{"no-such-cgroup"}, podcgroup.Values{CPUShares: 2}, done)
	})
	check.Equal(t, port.KindOf(err), port.NotFound, "a cgroup that is not there: %v", err)
	for _, uid := range []types.UID{"", "..", "../..", "a/b"} {
		if err := asked(t, func(ctx context.Context, done func(error)) { c.RemovePod(ctx, uid, done) }); err != nil {
			t.Errorf("UID %q: %v", uid, err)
		}
	}
}
