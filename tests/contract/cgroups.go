package contract

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// CgroupsSubject is one implementation of port.Cgroups.
type CgroupsSubject struct {
	Passing
	Cgroups  port.Cgroups
	Settings *podcgroup.Settings
}

type cgroupsSuite struct {
	suite
	CgroupsSubject
}

// Cgroups runs the suite for port.Cgroups. open is called once per test and cleans up
// after itself with t.Cleanup.
func Cgroups(t *testing.T, open func(t *testing.T) CgroupsSubject) {
	for _, c := range []struct {
		name string
		test func(*cgroupsSuite)
	}{
		{"Limits", testCgroupLimits},
		{"Pods", testCgroupPods},
		{"ContextEnded", testCgroupContextEnded},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.test(&cgroupsSuite{suite: *s.suite(t), CgroupsSubject: s})
		})
	}
}

// name is the cgroup of a pod of the class Burstable.
func (s *cgroupsSuite) name(uid types.UID) podcgroup.Name {
	s.Helper()
	return check.Value(s.Settings.PodIn(v1.PodQOSBurstable, uid))(s)
}

func (s *cgroupsSuite) set(ctx context.Context, n podcgroup.Name, v podcgroup.Values) *pending[struct{}] {
	return beginErr(&s.suite, "Set", func(done func(error)) { s.Cgroups.Set(ctx, n, v, done) })
}

func (s *cgroupsSuite) get(n podcgroup.Name) *pending[observed.Resources] {
	return begin(&s.suite, "Get", func(done func(observed.Resources, error)) {
		s.Cgroups.Get(context.Background(), n, func(r observed.Resources, _ int64, err error) { done(r, err) })
	})
}

func (s *cgroupsSuite) remove(uid types.UID) {
	s.Helper()
	beginErr(&s.suite, "RemovePod", func(done func(error)) { s.Cgroups.RemovePod(context.Background(), uid, done) }).noError()
}

func (s *cgroupsSuite) pods() []types.UID {
	s.Helper()
	return begin(&s.suite, "Pods", func(done func([]types.UID, error)) { s.Cgroups.Pods(context.Background(), done) }).noError()
}

func testCgroupLimits(s *cgroupsSuite) {
	const uid = "11111111-aaaa"
	n := s.name(uid)
	s.get(n).kind(port.NotFound)
	v := podcgroup.Values{CPUShares: 512, CPUQuota: 50_000, CPUPeriod: 100_000, Memory: 64 << 20}
	for range 2 {
		s.set(context.Background(), n, v).noError()
		if got := s.get(n).noError(); got.CPUQuota != 50_000 || got.CPUPeriod != 100_000 || got.Memory != 64<<20 || got.CPUShares != 0 {
			s.Errorf("the cgroup has %+v", got)
		}
	}
	// What it says nothing of stays.
	s.set(context.Background(), n, podcgroup.Values{Memory: 128 << 20}).noError()
	if got := s.get(n).noError(); got.CPUQuota != 50_000 || got.Memory != 128<<20 {
		s.Errorf("the cgroup has %+v", got)
	}
	s.remove(uid)
	s.get(n).kind(port.NotFound)
}

func testCgroupPods(s *cgroupsSuite) {
	check.None(s, s.pods(), "there are cgroups of")
	for _, uid := range []types.UID{"22222222-b", "11111111-a"} {
		s.set(context.Background(), s.name(uid), podcgroup.Values{CPUShares: 2}).noError()
	}
	check.Same(s, s.pods(), []types.UID{"11111111-a", "22222222-b"}, "there are cgroups of")
	for range 2 {
		s.remove("11111111-a")
	}
	check.Same(s, s.pods(), []types.UID{"22222222-b"}, "there are cgroups of")
	s.remove("22222222-b")
	s.remove("never-there")
}

func testCgroupContextEnded(s *cgroupsSuite) {
	ctx, cancel := s.context()
	cancel()
	s.set(ctx, s.name("33333333-c"), podcgroup.Values{CPUShares: 2}).kind(port.Canceled)
	check.None(s, s.pods(), "there are cgroups of")
}
