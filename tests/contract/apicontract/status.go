package apicontract

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// running gives a pod the status that an agent would.
func running(s *suite) func(*v1.Pod) {
	at := metav1.NewTime(s.now())
	return func(p *v1.Pod) {
		p.Status.Phase, p.Status.StartTime = v1.PodRunning, &at
		p.Status.HostIP, p.Status.HostIPs = "192.0.2.1", []v1.HostIP{{IP: "192.0.2.1"}}
		p.Status.PodIP, p.Status.PodIPs = "10.88.0.7", []v1.PodIP{{IP: "10.88.0.7"}}
		p.Status.Conditions = []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: at},
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: at},
		}
		p.Status.ContainerStatuses = nil
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
				Name: c.Name, Image: c.Image, ImageID: c.Image + "@sha256:00", ContainerID: "containerd://" + c.Name, Ready: true, Started: new(true),
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}},
			})
		}
	}
}

func (s *suite) podOf(o port.APIObject) *v1.Pod   { s.Helper(); return as[*v1.Pod](s, o) }
func (s *suite) nodeOf(o port.APIObject) *v1.Node { s.Helper(); return as[*v1.Node](s, o) }

func testStatusNotByUpdate(s *suite) {
	p := s.podOf(s.made(with(s.bound("p"), running(s))))
	if p.Status.Phase != v1.PodPending || p.Status.PodIP != "" || len(p.Status.ContainerStatuses) > 0 {
		s.Errorf("Create took the pod's status: %+v", p.Status)
	}
	p = s.podOf(s.update(with(p, func(p *v1.Pod) { running(s)(p); label("a", "1")(p) })).ok())
	if p.Status.Phase != v1.PodPending || p.Status.PodIP != "" || p.Labels["a"] != "1" {
		s.Errorf("Update took the pod's status: %+v", p)
	}
	n := s.nodeOf(s.made(s.node("n")))
	n = s.nodeOf(s.update(with(n, func(n *v1.Node) {
		n.Status.Capacity = v1.ResourceList{v1.ResourceCPU: resource.MustParse("9")}
		label("a", "1")(n)
	})).ok())
	if n.Status.Capacity.Cpu().Value() != 4 || n.Labels["a"] != "1" {
		s.Errorf("Update took the node's status: %+v", n)
	}
}

func testStatusOnly(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	to := with(p, running(s))
	to.Labels["a"], to.Spec.Containers[0].Image, to.Finalizers = "1", "contract.test/other:1", []string{"contract.test/f"}
	got := s.podOf(s.patchStatus(p, to).ok())
	if got.Status.Phase != v1.PodRunning || len(got.Status.ContainerStatuses) != 2 || !got.Status.ContainerStatuses[1].Ready || got.Status.QOSClass == "" {
		s.Errorf("the status is %+v, want the one given", got.Status)
	}
	if got.Labels["a"] != "" || got.Spec.Containers[0].Image != "contract.test/a:1" || len(got.Finalizers) > 0 {
		s.Errorf("a patch of the status changed more: %+v", got)
	}
	check.Equal(s, got.Generation, p.Generation, "a patch of the status bumped the generation to")
	// The next one, from what the last one gave, is the agent's usual way.
	failed := s.podOf(s.patchStatus(got, with(got, func(p *v1.Pod) {
		p.Status.Conditions[1].Status = v1.ConditionFalse
		p.Status.ContainerStatuses[0].Ready = false
		p.Status.Reason = "Contract"
	})).ok())
	if c := failed.Status.Conditions; len(c) != 2 || c[1].Status != v1.ConditionFalse || failed.Status.ContainerStatuses[0].Ready || failed.Status.Reason != "Contract" {
		s.Errorf("the second patch gave %+v", failed.Status)
	}
	n := s.nodeOf(s.made(s.node("n")))
	got2 := s.nodeOf(s.patchStatus(n, with(n, func(n *v1.Node) {
		n.Status.Conditions[0].Status = v1.ConditionFalse
		n.Status.Capacity[v1.ResourceMemory] = resource.MustParse("8Gi")
		n.Spec.Unschedulable = false
		label("a", "1")(n)
	})).ok())
	if got2.Status.Conditions[0].Status != v1.ConditionFalse || got2.Status.Capacity.Memory().Value() != 8<<30 || got2.Status.Capacity.Cpu().Value() != 4 {
		s.Errorf("the node's status is %+v", got2.Status)
	}
	if !got2.Spec.Unschedulable || got2.Labels["a"] != "" {
		s.Errorf("a patch of the node's status changed more: %+v", got2)
	}
}

func testPatchLeavesStatus(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	got := s.podOf(s.patch(p, with(p, func(p *v1.Pod) { running(s)(p); label("a", "1")(p) })).ok())
	if got.Status.Phase != v1.PodPending || got.Labels["a"] != "1" {
		s.Errorf("a patch took the status: %+v", got)
	}
}

// testNodeStatusOnCreate: an agent registers its node with its status at once.
func testNodeStatusOnCreate(s *suite) {
	n := s.nodeOf(s.made(s.node("n")))
	if n.Status.Capacity.Cpu().Value() != 4 || len(n.Status.Conditions) != 1 {
		s.Errorf("the node was created without its status: %+v", n.Status)
	}
}

// testStatusTwoWriters: two writers of different conditions, neither of whom
// has seen what the other wrote, both get theirs in.
func testStatusTwoWriters(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	p = s.podOf(s.patchStatus(p, with(p, running(s))).ok())
	gate := v1.PodCondition{Type: "contract.test/gate", Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now())}
	s.otherPatch(port.APIPatch{Key: port.APIKeyOf(p), Status: true, From: p, To: with(p, func(p *v1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, gate)
	})})
	s.patchStatus(p, with(p, func(p *v1.Pod) { p.Status.Conditions[1].Status = v1.ConditionFalse })).ok()
	is := map[v1.PodConditionType]v1.ConditionStatus{}
	for _, c := range s.podOf(s.get(port.APIKeyOf(p)).ok()).Status.Conditions {
		is[c.Type] = c.Status
	}
	if len(is) != 3 || is[gate.Type] != v1.ConditionTrue || is[v1.PodReady] != v1.ConditionFalse || is[v1.PodScheduled] != v1.ConditionTrue {
		s.Errorf("conditions are %v", is)
	}
	n := s.nodeOf(s.made(s.node("n")))
	s.otherPatch(port.APIPatch{Key: port.APIKeyOf(n), Status: true, From: n, To: with(n, func(n *v1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, nodeCondition("contract.test/net", v1.ConditionTrue, s.now()))
	})})
	got := s.nodeOf(s.patchStatus(n, with(n, func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionFalse })).ok())
	if len(got.Status.Conditions) != 2 || s.ready(got) != v1.ConditionFalse {
		s.Errorf("node conditions are %+v", got.Status.Conditions)
	}
	s.patchAs(port.APIPatch{Key: port.APIKeyOf(n), Status: true, From: otherUID(n), To: with(otherUID(n), func(n *v1.Node) {
		n.Status.Conditions[0].Status = v1.ConditionUnknown
	})}).fails(port.Conflict)
}

func otherUID[T port.APIObject](o T) T {
	return with(o, func(o T) { o.SetUID(types.UID("12345678-1234-1234-1234-123456789abc")) })
}

func (s *suite) ready(n *v1.Node) v1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// testPatchMapsAndLists: a patch merges maps, and lists by their keys.
func testPatchMapsAndLists(s *suite) {
	n := s.node("n")
	n.Annotations = map[string]string{"a": "1", "b": "1"}
	made := s.nodeOf(s.made(n))
	s.otherPatch(port.APIPatch{Key: port.APIKeyOf(made), From: made, To: with(made, func(n *v1.Node) {
		n.Annotations["c"] = "1"
		n.Finalizers = []string{"contract.test/other"}
	})})
	got := s.nodeOf(s.patch(made, with(made, func(n *v1.Node) {
		delete(n.Annotations, "a")
		n.Annotations["b"] = "2"
		n.Finalizers = append(n.Finalizers, "contract.test/mine")
		n.Spec.Unschedulable = false
	})).ok())
	if a := got.Annotations; len(a) != 2 || a["b"] != "2" || a["c"] != "1" {
		s.Errorf("annotations are %v", a)
	}
	check.Equal(s, len(got.Finalizers), 2, "finalizers are %v, want those of both writers", got.Finalizers)
	if got.Spec.Unschedulable {
		s.Errorf("the node stayed unschedulable")
	}
}

// testPatchFromOld: what others changed, and From and To have alike, stays.
func testPatchFromOld(s *suite) {
	made := as[*v1.ConfigMap](s, s.made(s.configMap("o")))
	s.otherPatch(port.APIPatch{Key: port.APIKeyOf(made), From: made, To: with(made, func(c *v1.ConfigMap) {
		c.Data["k"], c.Data["n"] = "by another", "new"
	})})
	got := as[*v1.ConfigMap](s, s.patch(made, with(made, func(c *v1.ConfigMap) {
		delete(c.Data, "l")
		c.Data["m"] = "mine"
	})).ok())
	if d := got.Data; len(d) != 3 || d["k"] != "by another" || d["m"] != "mine" || d["n"] != "new" {
		s.Errorf("data is %v", d)
	}
}

// testPatchEmptied: who takes his last label or condition away takes no one else's.
func testPatchEmptied(s *suite) {
	n := s.node("n")
	n.Annotations = map[string]string{"a": "1"}
	n.Finalizers = []string{"contract.test/mine"}
	made := s.nodeOf(s.made(n))
	s.otherPatch(port.APIPatch{Key: port.APIKeyOf(made), From: made, To: with(made, func(n *v1.Node) {
		n.Annotations["b"] = "1"
		n.Finalizers = append(n.Finalizers, "contract.test/other")
	})})
	got := s.nodeOf(s.patch(made, with(made, func(n *v1.Node) { n.Annotations, n.Finalizers = nil, nil })).ok())
	if len(got.Annotations) != 1 || got.Annotations["b"] != "1" || len(got.Finalizers) != 1 || got.Finalizers[0] != "contract.test/other" {
		s.Errorf("annotations are %v and finalizers %v, want the other writer's", got.Annotations, got.Finalizers)
	}
	s.otherPatch(port.APIPatch{Key: port.APIKeyOf(made), Status: true, From: made, To: with(made, func(n *v1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, nodeCondition("contract.test/net", v1.ConditionTrue, s.now()))
	})})
	got = s.nodeOf(s.patchStatus(made, with(made, func(n *v1.Node) { n.Status.Conditions = nil })).ok())
	if c := got.Status.Conditions; len(c) != 1 || c[0].Type != "contract.test/net" {
		s.Errorf("conditions are %v, want the other writer's", c)
	}
}

// testPatchNewest: a patch that was reckoned with the newest version works only
// on that one, also where it changes nothing.
func testPatchNewest(s *suite) {
	newest := func(from, to port.APIObject, status bool) *pending[port.APIObject] {
		return s.patchAs(port.APIPatch{Key: port.APIKeyOf(from), From: from, To: to, Status: status, Newest: true})
	}
	labelled := func(p *v1.Pod) { label("a", "1")(p) }
	old := s.podOf(s.made(s.bound("p")))
	now := s.podOf(newest(old, with(old, running(s)), true).ok())
	if now.Status.Phase != v1.PodRunning || now.ResourceVersion == old.ResourceVersion {
		s.Errorf("got %+v", now)
	}
	newest(old, with(old, func(p *v1.Pod) { p.Status.Reason = "late" }), true).fails(port.Conflict)
	newest(old, with(old, labelled), false).fails(port.Conflict)
	newest(old, old, true).fails(port.Conflict)
	if got := s.podOf(newest(now, now, true).ok()); got.ResourceVersion != now.ResourceVersion {
		s.Errorf("nothing to change gave version %s, want %s", got.ResourceVersion, now.ResourceVersion)
	}
	if got := s.podOf(newest(now, with(now, labelled), false).ok()); got.Labels["a"] != "1" || got.Status.Reason != "" {
		s.Errorf("got %+v", got)
	}
}
