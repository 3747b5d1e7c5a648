package volumes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// slow is a host whose mounts the test ends.
type slow struct{ open []func(string, error) }

func (s *slow) PreparePod(_ context.Context, _ *v1.Pod, done func(error)) { done(nil) }

func (s *slow) MountVolume(_ context.Context, m port.MountVolume, done func(string, error)) {
	s.open = append(s.open, done)
}

func (s *slow) GrowVolume(_ context.Context, _ port.GrowVolume, done func(error)) { done(nil) }

func (s *slow) UnmountPod(_ context.Context, _ types.UID, done func(error)) { done(nil) }

// end ends each mount, one after the other.
func (s *slow) end(r *rig, err func(i int) error) {
	open := s.open
	s.open = nil
	for i, done := range open {
		done("/v", err(i))
		r.Settle()
	}
}

// withMany is a pod with n volumes that are about to be mounted. What it is told last is written to told, if that is set.
func withMany(t *testing.T, n int, told *pod.VolumesAnswer) (*rig, *slow, func()) {
	t.Helper()
	r, host := newRig(t), &slow{}
	r.deps.Host = host
	if told != nil {
		r.pods["a"] = actortest.Play(r.Rig, "a", func(m pod.Message) { *told = m.(pod.VolumesAnswer) })
	}
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint("v", i))
	}
	m := r.mounts("a", strings.Join(list, " "))
	return r, host, func() {
		r.actor.Tell(m)
		r.Settle()
		check.Equal(t, len(host.open), n, "mounts under way")
	}
}

// TestManyVolumes: each mount that ends costs the same, however many volumes the pod has.
func TestManyVolumes(t *testing.T) {
	linear.Held(t, 500, func(n int) func() {
		var told pod.VolumesAnswer
		r, host, ask := withMany(t, n, &told)
		return func() {
			ask()
			host.end(r, func(int) error { return nil })
			check.Equal(t, told.Volumes.State, volumeplan.Up, "what the pod is told")
			check.Equal(t, len(told.Paths), n, "paths")
		}
	})
}

// TestManyFailures: so does each that fails, and while it is waited for longer than the pod is patient.
func TestManyFailures(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		var told pod.VolumesAnswer
		r, host, ask := withMany(t, n, &told)
		return func() {
			ask()
			r.Advance(11 * time.Second)
			host.end(r, func(i int) error {
				if i%2 == 0 {
					return broken("no space left on device")
				}
				return nil
			})
			check.Equal(t, told.Volumes.State, volumeplan.Failed, "what the pod is told")
		}
	})
}

// TestManyGivenUp: of a pod that is taken down while its volumes are being mounted, each mount that ends costs the same. It
// is unmounted after the last.
func TestManyGivenUp(t *testing.T) {
	linear.Held(t, 1000, func(n int) func() {
		var told pod.VolumesAnswer
		r, host, ask := withMany(t, n, &told)
		return func() {
			ask()
			r.actor.Tell(unmounts(r.mounts("a", "v0")))
			r.Settle()
			host.end(r, func(i int) error {
				check.Equal(t, told.Volumes.Unmounted, false, "mount %d is under way: unmounted", i)
				return &port.Error{Kind: port.Canceled}
			})
			check.Equal(t, told.Volumes.Unmounted, true, "unmounted")
		}
	})
}

// TestManyAreNotAllNamed: a text names some of many volumes, and says how many more there are.
func TestManyAreNotAllNamed(t *testing.T) {
	r, host, ask := withMany(t, 40, nil)
	ask()
	r.Advance(11 * time.Second)
	lines := r.Lines()
	last := lines[len(lines)-1]
	if !strings.Contains(last, `volume "v0"`) || !strings.HasSuffix(last, "; and 8 more") {
		t.Error(last)
	}
	host.end(r, func(i int) error {
		if i > 35 {
			return broken("full")
		}
		return nil
	})
	lines = r.Lines()
	last = lines[len(lines)-1]
	if strings.Contains(last, "more") || strings.Count(last, "MountVolume.SetUp failed") != 4 {
		t.Error(last)
	}
	for range 10 {
		r.Advance(time.Second)
		host.end(r, func(int) error { return nil })
	}
	if lines := r.Lines(); !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "a: up") }) {
		t.Error(lines)
	}
}
