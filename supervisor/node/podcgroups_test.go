package node

import (
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestCgroupSettings shows what of a configuration becomes of cgroups.
func TestCgroupSettings(t *testing.T) {
	m := &machine{hugePages: []string{"2MB"}, capacity: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"),
	}}
	s := m.cgroupSettings(configOf(t, ""), podcgroup.Systemd)
	if s.Driver != podcgroup.Systemd || s.Root != "" || s.NoCPUQuota || s.CPUPeriod != 100_000 || s.PodPIDs > 0 || !s.Enforce || s.MemoryReserved != 0 || len(s.HugePageSizes) != 1 {
		t.Errorf("by default: %+v", s)
	}
	if v := s.TopValues(); v.CPUShares != 4096 || v.Memory != 8<<30 || v.PIDs <= 0 {
		t.Errorf("by default all pods have %+v", v)
	}
	s = m.cgroupSettings(configOf(t, `cgroupRoot: /a
podPidsLimit: 100
cpuCFSQuota: false
cpuCFSQuotaPeriod: 10ms
enforceNodeAllocatable: [pods]
systemReserved: {cpu: 500m, memory: 1Gi}
kubeReserved: {cpu: 500m, memory: 1Gi}
qosReserved: {memory: 25%}
featureGates: {QOSReserved: true, CustomCPUCFSQuotaPeriod: true}`), podcgroup.Cgroupfs)
	if s.Root != "/a" || s.PodPIDs != 100 || !s.NoCPUQuota || s.CPUPeriod != (10*time.Millisecond).Microseconds() || s.MemoryReserved != 25 {
		t.Errorf("as said: %+v", s)
	}
	if v := s.TopValues(); v.CPUShares != 3072 || v.Memory != 6<<30 {
		t.Errorf("with reservations all pods have %+v", v)
	}
	s = m.cgroupSettings(configOf(t, "enforceNodeAllocatable: [none]\nsystemReserved: {memory: 1Gi}"), podcgroup.Cgroupfs)
	if v := s.TopValues(); v.Memory != 8<<30 {
		t.Errorf("with nothing enforced all pods have %+v", v)
	}
}

// TestNoCgroups: what to do where pods can have no cgroups of their own.
func TestNoCgroups(t *testing.T) {
	missing := noCgroups(&cgroup.MissingError{Where: "/sys/fs/cgroup/cgroup.controllers", Controller: "memory"})
	must.Has(t, missing, "no controller memory: boot the kernel with cgroup_enable=memory", "without the controller")
	if strings.Contains(missing, "write access") {
		t.Errorf("it is no matter of access: %s", missing)
	}
	must.Has(t, noCgroups(os.ErrPermission), "give the agent write access to /sys/fs/cgroup", "read-only")
}

// TestReservedCgroupIsMissing: whoever holds a reservation to a cgroup that is not
// there is told so.
func TestReservedCgroupIsMissing(t *testing.T) {
	settings := &podcgroup.Settings{}
	cgroups, err := cgroup.New(settings)
	hosttest.Need(t, "cgroups", err)
	p := &podCgroups{settings: settings, port: cgroups}
	c := configOf(t, "enforceNodeAllocatable: [pods, system-reserved]\nsystemReserved: {memory: 1Gi}\nsystemReservedCgroup: /no-such-cgroup")
	err = p.enforce(t.Context(), c)
	if err == nil || !strings.HasPrefix(err.Error(), `systemReservedCgroup "/no-such-cgroup":`) || !strings.Contains(err.Error(), "there is no cgroup") {
		t.Errorf("got %v", err)
	}
	if err := p.enforce(t.Context(), configOf(t, "systemReservedCgroup: /no-such-cgroup")); err != nil {
		t.Errorf("nothing is to be enforced: %v", err)
	}
}

func TestCgroupParent(t *testing.T) {
	p := &podCgroups{settings: &podcgroup.Settings{}}
	pod := func(uid types.UID) *v1.Pod {
		out := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}}
		out.UID = uid
		return out
	}
	if got := p.parent(pod("1-2")); got != "/kubepods/besteffort/pod1-2" {
		t.Errorf("got %q", got)
	}
	if got := p.parent(pod("../etc")); got != "" {
		t.Errorf("an odd UID leads to %q", got)
	}
}
