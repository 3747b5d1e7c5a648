package controlplane

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

// cluster is a control plane whose nodes do the least that one can: pods are
// ready a second after they were bound and gone a second after their deletion,
// unless their node is dead.
type cluster struct {
	t     *testing.T
	clock *kernel.Virtual
	api   *simapi.Server
	cp    *ControlPlane
	dead  map[string]bool
	nodes int
}

func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	clock := kernel.NewVirtual(1, t0)
	api, err := simapi.New(simapi.Config{Clock: clock, Rand: func(s string) *rand.Rand { return rand.New(rand.NewPCG(1, uint64(len(s)))) }})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, clock: clock, api: api, dead: map[string]bool{}}
	c.cp = check.Value(
		New(Config{Server: api, Clock: clock, Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }}))(t)
	t.Cleanup(c.cp.Stop)
	check.Value(api.Watch(simapi.WatchOptions{Select: simapi.Select{Kind: port.PodKind}}, c.kubelet))(t)
	for range nodes {
		c.addNode()
	}
	return c
}

func (c *cluster) addNode() {
	c.t.Helper()
	name := fmt.Sprintf("n%d", c.nodes)
	c.nodes++
	check.Value(c.api.Create(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("10")},
		Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
	}}))(c.t)
	lease := metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: name}
	check.Value(c.api.Create(&coordinationv1.Lease{ObjectMeta: lease}))(c.t)
	c.renew(name)
}

func (c *cluster) renew(name string) {
	c.clock.AfterFunc(10*time.Second, func() {
		c.renew(name)
		if c.dead[name] {
			return
		}
		l, err := simapi.Object[*coordinationv1.Lease](c.api, v1.NamespaceNodeLease, name)
		if err != nil {
			return
		}
		out := *l
		at := metav1.NewMicroTime(c.clock.Now())
		out.Spec.RenewTime = &at
		check.Value(c.api.Update(&out))(c.t)
		n, err := simapi.Object[*v1.Node](c.api, "", name)
		if err != nil {
			return
		}
		if n.Status.Conditions[0].Status != v1.ConditionTrue {
			back := *n
			back.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
			check.Value(c.api.UpdateStatus(&back))(c.t)
		}
	})
}

func (c *cluster) kubelet(e simapi.Event) {
	p := e.Object.(*v1.Pod)
	if e.Type == simapi.Deleted || p.Spec.NodeName == "" {
		return
	}
	c.clock.AfterFunc(time.Second, func() {
		o, err := c.api.Get(keyOf(p))
		if err != nil || c.dead[p.Spec.NodeName] {
			return
		}
		now := o.(*v1.Pod)
		if now.DeletionTimestamp != nil {
			zero := int64(0)
			check.Fatal(c.t, c.api.Delete(port.APIDelete{Key: keyOf(p), UID: now.UID, Grace: &zero}))
		} else if !podReady(now) {
			out := *now
			out.Status.Phase = v1.PodRunning
			out.Status.Conditions = append(slices.Clone(now.Status.Conditions), v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue})
			check.Value(c.api.UpdateStatus(&out))(c.t)
		}
	})
}

func (c *cluster) pods() []*v1.Pod {
	c.t.Helper()
	return check.Value(simapi.Objects[*v1.Pod](c.api, simapi.Select{}))(c.t)
}

// stands says, for each node, how many pods it has: n0:3 n1:2, and -:1 for those without one.
func (c *cluster) stands() string {
	count := map[string]int{}
	for _, p := range c.pods() {
		name := p.Spec.NodeName
		if name == "" {
			name = "-"
		}
		if p.DeletionTimestamp != nil {
			name += "!"
		}
		count[name]++
	}
	var out []string
	for name, n := range count {
		out = append(out, fmt.Sprintf("%s:%d", name, n))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (c *cluster) want(what, stands string) {
	c.t.Helper()
	check.Equal(c.t, c.stands(), stands, "%s", what)
}

func web(replicas int, image, cpu string) Workload {
	return Workload{Name: "web", Replicas: replicas, Template: v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "main", Image: image, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
	}}}}}
}

func TestSpreadAndScale(t *testing.T) {
	c := newCluster(t, 3)
	check.Fatal(c.t, c.cp.Apply(web(6, "a", "100m")))
	c.clock.Advance(10 * time.Second)
	c.want("six on three", "n0:2 n1:2 n2:2")
	check.Fatal(c.t, c.cp.Apply(web(2, "a", "100m")))
	c.clock.Advance(10 * time.Second)
	check.Count(t, len(c.pods()), 2, "%d pods after the scale")
	check.Fatal(c.t, c.cp.Remove("default", "web"))
	c.clock.Advance(10 * time.Second)
	c.want("removed", "")
}

// TestRestored: pods that were not bound yet when the apiserver's backup was made are bound again,
// and counted once.
func TestRestored(t *testing.T) {
	c := newCluster(t, 2)
	check.Fatal(c.t, c.cp.Apply(web(4, "a", "1500m")))
	for len(c.pods()) < 4 {
		c.clock.Advance(time.Millisecond)
	}
	backup := c.api.Checkpoint()
	c.clock.Advance(10 * time.Second)
	c.want("bound", "n0:2 n1:2")
	c.api.Restore(backup)
	c.want("restored", "-:4")
	c.clock.Advance(10 * time.Second)
	c.want("bound again", "n0:2 n1:2")
}

func TestStuckUntilThereIsRoom(t *testing.T) {
	c := newCluster(t, 1)
	check.Fatal(c.t, c.cp.Apply(web(3, "a", "2")))
	c.clock.Advance(10 * time.Second)
	c.want("two fit", "-:1 n0:2")
	for _, p := range c.pods() {
		if p.Spec.NodeName == "" && (len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Message != "0/1 nodes are available: 1 Insufficient cpu.") {
			t.Errorf("its conditions are %+v", p.Status.Conditions)
		}
	}
	c.addNode()
	c.clock.Advance(time.Second)
	c.want("another node", "n0:2 n1:1")
	check.Fatal(c.t, c.cp.Drain("n0"))
	c.clock.Advance(10 * time.Second)
	c.want("drained", "-:1 n1:2")
	check.Fatal(c.t, c.cp.Cordon("n0", false))
	c.clock.Advance(time.Second)
	c.want("open again", "n0:1 n1:2")
}

func TestUpdate(t *testing.T) {
	c := newCluster(t, 4)
	check.Fatal(c.t, c.cp.Apply(web(8, "a", "100m")))
	c.clock.Advance(10 * time.Second)
	check.Fatal(c.t, c.cp.Apply(web(8, "b", "100m")))
	fewest, most := 8, 8
	c.clock.RunUntil(c.clock.Now().Add(time.Minute), func() bool {
		ready, all := 0, 0
		for _, p := range c.pods() {
			if p.DeletionTimestamp == nil {
				all++
				if podReady(p) {
					ready++
				}
			}
		}
		fewest, most = min(fewest, ready), max(most, all)
		return false
	})
	if fewest != 6 || most != 10 {
		t.Errorf("at least %d were ready, at most %d there; want 6 and 10", fewest, most)
	}
	for _, p := range c.pods() {
		if p.Spec.Containers[0].Image != "b" || !podReady(p) {
			t.Errorf("%s has image %s, ready %v", p.Name, p.Spec.Containers[0].Image, podReady(p))
		}
	}
	check.Count(t, len(c.pods()), 8, "%d pods")
}

func TestNodeLost(t *testing.T) {
	c := newCluster(t, 2)
	check.Fatal(c.t, c.cp.Apply(web(4, "a", "100m")))
	c.clock.Advance(10 * time.Second)
	c.dead["n1"] = true
	c.clock.Advance(70 * time.Second)
	n, err := simapi.Object[*v1.Node](c.api, "", "n1")
	check.Fatal(c.t, err)
	if n.Status.Conditions[0].Status != v1.ConditionUnknown || len(n.Spec.Taints) != 2 {
		t.Errorf("after 70 s: %+v, %+v", n.Status.Conditions, n.Spec.Taints)
	}
	c.want("not yet", "n0:2 n1:2")
	for _, p := range c.cp.on("n1") {
		if podReady(p) {
			t.Errorf("%s is ready on a node that is lost", p.Name)
		}
	}
	c.clock.Advance(5 * time.Minute)
	c.want("its pods are made anew", "n0:4 n1!:2")
	c.dead["n1"] = false
	for _, p := range c.cp.on("n1") {
		c.kubelet(simapi.Event{Type: simapi.Modified, Object: p})
	}
	c.clock.Advance(20 * time.Second)
	c.want("it is back", "n0:4")
	if n, err = simapi.Object[*v1.Node](c.api, "", "n1"); err != nil || len(n.Spec.Taints) != 0 {
		t.Errorf("back: %v, taints %+v", err, n.Spec.Taints)
	}
	check.Fatal(c.t, c.api.Delete(port.APIDelete{Key: port.APIKey{Kind: port.NodeKind, Name: "n0"}}))
	c.clock.Advance(10 * time.Second)
	c.want("a node is removed", "n1:4")
}

func TestSuspended(t *testing.T) {
	c := newCluster(t, 2)
	check.Fatal(c.t, c.cp.Apply(web(4, "a", "100m")))
	c.clock.Advance(10 * time.Second)
	c.dead["n1"] = true
	c.cp.Suspend()
	check.Fatal(c.t, c.cp.Apply(web(6, "a", "100m")))
	c.clock.Advance(time.Hour)
	c.want("nothing is done", "n0:2 n1:2")
	c.cp.Resume()
	c.clock.Advance(30 * time.Second)
	c.want("it goes on, with patience", "n0:3 n1:3")
	c.clock.Advance(6 * time.Minute)
	c.want("not for ever", "n0:6 n1!:3")
}

func TestRefused(t *testing.T) {
	c := newCluster(t, 0)
	for _, w := range []Workload{web(-1, "a", "1"), {Name: "No Name", Template: web(1, "a", "1").Template}, {Name: "empty"}} {
		check.Fails(t, c.cp.Apply(w), "%+v was taken", w)
	}
	check.Fails(t, c.cp.Remove("default", "none"), "removed what is not there")
	check.Fails(t, c.cp.Drain("none"), "drained what is not there")
	check.Fails(t, check.Err(New(Config{})), "a control plane of nothing")
}

// TestLeaseOfANodeThatIsGone goes with its node, as the garbage collector has it;
// another's stays.
func TestLeaseOfANodeThatIsGone(t *testing.T) {
	c := newCluster(t, 2)
	for i, owned := range []bool{true, false} {
		n, err := simapi.Object[*v1.Node](c.api, "", fmt.Sprint("n", i))
		check.Fatal(c.t, err)
		l, err := simapi.Object[*coordinationv1.Lease](c.api, v1.NamespaceNodeLease, n.Name)
		check.Fatal(c.t, err)
		if owned {
			l = l.DeepCopy()
			l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
			_, err = c.api.Update(l)
			check.Fatal(c.t, err)
		}
		check.Fatal(c.t, c.api.Delete(port.APIDelete{Key: port.APIKey{Kind: port.NodeKind, Name: n.Name}}))
		c.clock.Advance(time.Minute)
		_, err = simapi.Object[*coordinationv1.Lease](c.api, v1.NamespaceNodeLease, n.Name)
		check.Equal(t, apierrors.IsNotFound(err), owned, "the lease of a node that is gone, owned %v: %v", owned, err)
	}
}
