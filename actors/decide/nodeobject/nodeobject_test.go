package nodeobject

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func own() *Own {
	return &Own{
		Name: "n1", Labels: map[string]string{v1.LabelHostname: "n1", v1.LabelOSStable: "linux", "pool": "blue"},
		Annotations: map[string]string{AttachesVolumes: "true"},
		Taints:      []v1.Taint{{Key: "dedicated", Value: "x", Effect: v1.TaintEffectNoSchedule}},
		ProviderID:  "cloud://n1", Port: 10250,
		Unserved: []v1.ResourceName{"example.com/fpga"},
	}
}

func facts() *Facts {
	return &Facts{
		Capacity:    v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110")},
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3500m"), v1.ResourcePods: resource.MustParse("110")},
		Addresses:   []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.1"}, {Type: v1.NodeHostName, Address: "n1"}},
		Info:        v1.NodeSystemInfo{KernelVersion: "6.1"}, RuntimeVersion: "containerd://2.0",
		Images: []v1.ContainerImage{{Names: []string{"app:1"}, SizeBytes: 10}},
	}
}

func condition(s *v1.NodeStatus, t v1.NodeConditionType) v1.NodeCondition {
	for _, c := range s.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1.NodeCondition{}
}

func TestNew(t *testing.T) {
	n := New(own(), facts(), t0)
	if n.Name != "n1" || n.Labels[v1.LabelHostname] != "n1" || n.Spec.ProviderID != "cloud://n1" || len(n.Spec.Taints) != 1 {
		t.Errorf("got %+v", n)
	}
	if !Ready(&n.Status) || n.Status.NodeInfo.ContainerRuntimeVersion != "containerd://2.0" || n.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 {
		t.Errorf("got %+v", n.Status)
	}
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		if c := condition(&n.Status, kind); c.Status != v1.ConditionFalse || !c.LastHeartbeatTime.Time.Equal(t0) {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	o := own()
	o.Unschedulable = true
	if n = New(o, facts(), t0); !n.Spec.Unschedulable || len(n.Spec.Taints) != 2 || n.Spec.Taints[1].Key != v1.TaintNodeUnschedulable {
		t.Errorf("unschedulable: %+v", n.Spec)
	}
}

// has says whether the node shows so many of a resource, and the machine's own ones beside it.
func has(s *v1.NodeStatus, name v1.ResourceName, n int64) bool {
	c, capacity := s.Capacity[name]
	a, allocatable := s.Allocatable[name]
	return capacity && allocatable && c.Value() == n && a.Value() == n && !s.Capacity.Cpu().IsZero()
}

// TestShown: pods are admitted by what the node shows next.
func TestShown(t *testing.T) {
	o := own()
	n := New(o, facts(), t0)
	if !has(&n.Status, "example.com/fpga", 0) {
		t.Errorf("registered with %v", n.Status.Capacity)
	}
	f := *facts()
	shown := func(n *v1.Node, reset bool) *v1.Node {
		f := f
		f.Reset = reset
		return Shown(o, n, f)
	}
	if shown(n, false) != n || shown(n, true) != n {
		t.Error("what is shown already is changed")
	}
	n.Status.Capacity, n.Status.Allocatable = maps.Clone(n.Status.Capacity), maps.Clone(n.Status.Allocatable)
	for name, q := range map[v1.ResourceName]string{"example.com/gpu": "2", "example.com/fpga": "4"} {
		n.Status.Capacity[name], n.Status.Allocatable[name] = resource.MustParse(q), resource.MustParse(q)
	}
	before := n.DeepCopy()
	for _, reset := range []bool{false, true} {
		got := shown(n, reset)
		if gpus := map[bool]int64{false: 2}[reset]; !has(&got.Status, "example.com/gpu", gpus) || !has(&got.Status, "example.com/fpga", 0) {
			t.Errorf("reset %v: %v", reset, got.Status.Allocatable)
		}
		if SameExtended(got, n) || !SameExtended(got, got.DeepCopy()) {
			t.Error("a difference is not seen, or seen where there is none")
		}
	}
	if !apiequality.Semantic.DeepEqual(before, n) {
		t.Error("the node was changed")
	}
	bare := &v1.Node{}
	more := f
	more.Allocatable = maps.Clone(f.Allocatable)
	more.Allocatable[v1.ResourceMemory] = resource.MustParse("77Gi")
	more.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.77"}}
	if got := Shown(o, n, more); !has(&got.Status, "example.com/gpu", 2) || IPs(got.Status.Addresses, nil)[0] != "192.0.2.77" ||
		!podspec.SameResources(Native(got.Status.Allocatable, nil), more.Allocatable) {
		t.Errorf("another machine: %+v", got.Status)
	}
	old := Shown(o, n, Facts{})
	if at := facts().Capacity; !podspec.SameResources(Native(old.Status.Allocatable, at), at) ||
		old.Status.Allocatable.Name("example.com/gpu", "").Value() != 2 || !slices.Equal(IPs(old.Status.Addresses, []string{"192.0.2.3"}), []string{"192.0.2.3"}) {
		t.Errorf("what an earlier agent wrote counts: %+v", old.Status)
	}
	if got := Shown(o, bare, Facts{Reset: true}); !got.Status.Capacity.Cpu().IsZero() || len(got.Status.Allocatable) != 1 {
		t.Errorf("of a node without a status: %+v", got.Status)
	}
}

func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Facts, *v1.NodeStatus)
		differs bool
		check   func(*v1.NodeStatus) bool
	}{
		"nothing new":       {func(*Facts, *v1.NodeStatus) {}, false, Ready},
		"a label of others": {func(*Facts, *v1.NodeStatus) {}, false, Ready},
		"not ready": {
			func(f *Facts, _ *v1.NodeStatus) { f.Problems = []string{"no network", "no runtime"} }, true,
			func(s *v1.NodeStatus) bool {
				r := condition(s, v1.NodeReady)
				return !Ready(s) && r.Reason == "KubeletNotReady" && r.Message == "[no network, no runtime]" && r.LastTransitionTime.After(t0)
			},
		},
		"unknown to others": {
			func(_ *Facts, s *v1.NodeStatus) {
				for i := range s.Conditions {
					s.Conditions[i].Status = v1.ConditionUnknown
				}
			}, true, Ready,
		},
		"pressure": {
			func(f *Facts, _ *v1.NodeStatus) { f.Memory = true }, true,
			func(s *v1.NodeStatus) bool {
				c := condition(s, v1.NodeMemoryPressure)
				return c.Reason == "KubeletHasInsufficientMemory" && c.Message == "kubelet has insufficient memory available" && Ready(s)
			},
		},
		"another address":  {func(f *Facts, _ *v1.NodeStatus) { f.Addresses = f.Addresses[:1] }, true, Ready},
		"another kernel":   {func(f *Facts, _ *v1.NodeStatus) { f.Info.KernelVersion = "6.2" }, true, Ready},
		"another runtime":  {func(f *Facts, _ *v1.NodeStatus) { f.RuntimeVersion = "containerd://2.1" }, true, Ready},
		"images, unlisted": {func(f *Facts, _ *v1.NodeStatus) { f.Images = nil }, false, func(s *v1.NodeStatus) bool { return len(s.Images) == 1 }},
		"no images":        {func(f *Facts, _ *v1.NodeStatus) { f.Images = []v1.ContainerImage{} }, true, func(s *v1.NodeStatus) bool { return len(s.Images) == 0 }},
		"capacity": {
			func(f *Facts, _ *v1.NodeStatus) {
				f.Capacity = maps.Clone(f.Capacity)
				f.Capacity[v1.ResourceCPU] = resource.MustParse("8")
			}, true, Ready,
		},
		"an extended resource stays": {
			func(_ *Facts, s *v1.NodeStatus) { s.Capacity["example.com/gpu"] = resource.MustParse("2") }, true, // not allocatable yet
			func(s *v1.NodeStatus) bool {
				c, a := s.Capacity["example.com/gpu"], s.Allocatable["example.com/gpu"]
				return c.Value() == 2 && a.Value() == 2
			},
		},
		"the resource of a device plugin that nobody serves": {
			func(_ *Facts, s *v1.NodeStatus) {
				s.Capacity["example.com/fpga"], s.Allocatable["example.com/fpga"] = resource.MustParse("8"), resource.MustParse("7")
			}, true,
			func(s *v1.NodeStatus) bool { return has(s, "example.com/fpga", 0) },
		},
		"a reset": {
			func(f *Facts, s *v1.NodeStatus) {
				f.Reset = true
				for _, l := range []v1.ResourceList{s.Capacity, s.Allocatable} {
					l["example.com/gpu"], l["example.com/dongle"] = resource.MustParse("2"), resource.MustParse("3")
				}
			}, true,
			func(s *v1.NodeStatus) bool { return has(s, "example.com/gpu", 0) && has(s, "example.com/dongle", 0) },
		},
		"a reset of a node that has none": {func(f *Facts, _ *v1.NodeStatus) { f.Reset = true }, false, Ready},
		"others' conditions stay": {
			func(_ *Facts, s *v1.NodeStatus) {
				s.Conditions = append([]v1.NodeCondition{{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue}}, s.Conditions...)
			}, false,
			func(s *v1.NodeStatus) bool {
				return s.Conditions[0].Type == v1.NodeNetworkUnavailable && s.Conditions[0].LastHeartbeatTime.IsZero()
			},
		},
		"what others fill stays": {
			func(_ *Facts, s *v1.NodeStatus) { s.VolumesAttached = []v1.AttachedVolume{{Name: "v"}} }, false,
			func(s *v1.NodeStatus) bool { return len(s.VolumesAttached) == 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			have := New(own(), f, t0).Status
			have.Capacity, have.Allocatable = maps.Clone(have.Capacity), maps.Clone(have.Allocatable)
			c.change(f, &have)
			before := have.DeepCopy()
			later := t0.Add(time.Minute)
			got, differs := Status(own(), f, &have, later)
			if differs != c.differs || !c.check(&got) {
				t.Errorf("differs is %v, got %+v", differs, got)
			}
			if !apiequality.Semantic.DeepEqual(before, &have) {
				t.Error("what there was was changed")
			}
			if b := condition(&got, v1.NodeReady).LastHeartbeatTime; !b.Time.Equal(later) {
				t.Errorf("heartbeat %v", b)
			}
			if _, differs := Status(own(), f, &got, later.Add(time.Minute)); differs {
				t.Error("it never ends")
			}
		})
	}
}

func TestImages(t *testing.T) {
	list := []observed.Image{
		{ID: "1", RepoTags: []string{"small:1"}, SizeBytes: 1},
		{ID: "2", RepoTags: []string{"b:2", "b:1", "b:4", "b:3", "b:5"}, RepoDigests: []string{"b@sha256:x"}, SizeBytes: 9},
		{ID: "3", RepoTags: []string{"<none>:<none>"}, SizeBytes: 5},
		{ID: "4", RepoTags: []string{"same:2"}, SizeBytes: 1},
	}
	names := func(images []v1.ContainerImage) string {
		var out []string
		for _, i := range images {
			out = append(out, strings.Join(i.Names, ","))
		}
		return strings.Join(out, " ")
	}
	if got := names(Images(list, -1)); got != "b@sha256:x,b:1,b:2,b:3,b:4 same:2 small:1" {
		t.Errorf("got %s", got)
	}
	slices.Reverse(list)
	if got := names(Images(list, 2)); got != "b@sha256:x,b:1,b:2,b:3,b:4 same:2" {
		t.Errorf("got %s", got)
	}
	if got := Images(nil, 5); got == nil || len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestLease(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}
	l := Lease("n1", node, nil, 40*time.Second, t0)
	if l.Namespace != "kube-node-lease" || *l.Spec.HolderIdentity != "n1" || *l.Spec.LeaseDurationSeconds != 40 || !l.Spec.RenewTime.Time.Equal(t0) || l.OwnerReferences[0].UID != "u1" {
		t.Errorf("got %+v", l)
	}
	l.ResourceVersion = "7"
	next := Lease("n1", node, l, 40*time.Second, t0.Add(time.Second))
	if next == l || next.ResourceVersion != "7" || !next.Spec.RenewTime.After(t0) || !l.Spec.RenewTime.Time.Equal(t0) {
		t.Errorf("got %+v", next)
	}
	other := Lease("n1", &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u2"}}, l, 40*time.Second, t0)
	if len(other.OwnerReferences) != 1 || other.OwnerReferences[0].UID != "u2" || l.OwnerReferences[0].UID != "u1" {
		t.Errorf("got %+v", other.OwnerReferences)
	}
}

// TestRenewTime: it is the clock's, but never goes back nor stands still.
func TestRenewTime(t *testing.T) {
	at := func(d time.Duration) *metav1.MicroTime { m := metav1.NewMicroTime(t0.Add(d)); return &m }
	for name, c := range map[string]struct {
		last *metav1.MicroTime
		want time.Duration
	}{
		"never renewed":                {nil, 0},
		"renewed before":               {at(-10 * time.Second), 0},
		"renewed just now":             {at(0), time.Microsecond},
		"the clock was set back":       {at(time.Hour), time.Hour + time.Microsecond},
		"the clock is a little behind": {at(time.Millisecond), time.Millisecond + time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			last := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: c.last}}
			if got := Lease("n1", nil, last, 40*time.Second, t0).Spec.RenewTime.Sub(t0); got != c.want {
				t.Errorf("renewed at %v, want %v", got, c.want)
			}
		})
	}
}

// TestLeaseOwner: without its node a lease stays whose it is.
func TestLeaseOwner(t *testing.T) {
	last := Lease("n1", &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}, nil, 40*time.Second, t0)
	if got := Lease("n1", nil, last, 40*time.Second, t0.Add(time.Second)).OwnerReferences; len(got) != 1 || got[0].UID != "u1" {
		t.Errorf("it belongs to %+v", got)
	}
}

func TestEvents(t *testing.T) {
	first := New(own(), facts(), t0).Status
	for name, c := range map[string]struct {
		change func(before, after *v1.NodeStatus)
		want   string
	}{
		"nothing new": {func(_, _ *v1.NodeStatus) {}, ""},
		"registered": {
			func(before, _ *v1.NodeStatus) { *before = v1.NodeStatus{} },
			"NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady",
		},
		"registered, and not ready yet": {
			func(before, after *v1.NodeStatus) {
				*before, after.Conditions[3].Status = v1.NodeStatus{}, v1.ConditionFalse
			},
			"NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID",
		},
		"not ready": {func(_, after *v1.NodeStatus) { after.Conditions[3].Status = v1.ConditionFalse }, "NodeNotReady"},
		"was away":  {func(before, _ *v1.NodeStatus) { before.Conditions[3].Status = v1.ConditionUnknown }, "NodeReady"},
		"pressure": {
			func(_, after *v1.NodeStatus) {
				for i := range 3 {
					after.Conditions[i].Status = v1.ConditionTrue
				}
			}, "NodeHasInsufficientMemory NodeHasDiskPressure NodeHasInsufficientPID",
		},
		"booted": {func(before, after *v1.NodeStatus) { before.NodeInfo.BootID, after.NodeInfo.BootID = "a", "b" }, "Rebooted"},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := first.DeepCopy(), first.DeepCopy()
			c.change(before, after)
			var got []string
			for _, e := range Events("n1", before, after) {
				got = append(got, e.Reason)
				if e.Warning != (e.Reason == "Rebooted") || !strings.Contains(e.Message, "n1") {
					t.Errorf("got %+v", e)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
	if Schedulable("n1", true).Reason != "NodeNotSchedulable" || Schedulable("n1", false).Reason != "NodeSchedulable" || Starting().Reason != "Starting" {
		t.Error("the reasons are not those that tools know")
	}
}

func TestRuntimeVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v2.4.2":      "containerd://2.4.2",
		"1.33.1":      "containerd://1.33.1",
		"1.6.20~ds1":  "containerd://1.6.20",
		"v2.0.0-rc.1": "containerd://2.0.0-rc.1",
		"simulated":   "containerd://simulated",
	} {
		if got := RuntimeVersion("containerd", version); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

func TestRuntimeFeatures(t *testing.T) {
	f := facts()
	f.Handlers, f.Features = []v1.NodeRuntimeHandler{{Name: "runc"}}, &v1.NodeFeatures{SupplementalGroupsPolicy: new(true)}
	s, differs := Status(own(), f, &New(own(), facts(), t0).Status, t0)
	if !differs || len(s.RuntimeHandlers) != 1 || !*s.Features.SupplementalGroupsPolicy {
		t.Errorf("differs is %v, got %+v", differs, s)
	}
	f.Handlers, f.Features = nil, nil
	if s, differs = Status(own(), f, &s, t0); differs || len(s.RuntimeHandlers) != 1 || s.Features == nil {
		t.Errorf("a runtime that says nothing takes it away: %+v", s)
	}
}
