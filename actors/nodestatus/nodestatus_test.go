package nodestatus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// rig is the actor alone, on a virtual clock. The rig plays the apiserver, the runtime and the
// machine.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[Message]
	port.API
	// node and lease are what the apiserver has.
	node    *v1.Node
	lease   *coordinationv1.Lease
	version int
	// fail says what goes wrong with a call of the apiserver.
	fail func(call string) error
	// The transcript has the calls of the apiserver, but for watches.
	watch func(port.APIChange)
	// watching is true once a watch was let through.
	watching bool
	events   []string
	seen     []*v1.Node
	// reads are the readings for pods that are done.
	reads []uint64

	runtime runtimePort
	machine *port.Machine
}

// runtimePort is the runtime.
type runtimePort struct {
	port.Runtime
	r      *rig
	err    error
	status port.RuntimeStatus
	images []observed.Image
	// version is another one than 2.0.
	version string
}

// Version implements port.Runtime.
func (p *runtimePort) Version(_ context.Context, done func(port.RuntimeVersion, error)) {
	p.r.AfterFunc(time.Millisecond, func() { done(port.RuntimeVersion{Name: "containerd", Version: cmp.Or(p.version, "2.0")}, p.err) })
}

// Status implements port.Runtime.
func (p *runtimePort) Status(_ context.Context, done func(port.RuntimeStatus, error)) {
	p.r.AfterFunc(time.Millisecond, func() { done(p.status, p.err) })
}

// ListImages implements port.Runtime.
func (p *runtimePort) ListImages(_ context.Context, done func([]observed.Image, error)) {
	p.r.AfterFunc(time.Millisecond, func() { done(p.images, p.err) })
}

// Machine implements port.NodeFacts.
func (r *rig) Machine(_ context.Context, done func(*port.Machine, error)) {
	r.AfterFunc(time.Millisecond, func() { done(r.machine, nil) })
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) {
	if e.Node != "n1" {
		r.T.Errorf("an event of %q", e.Node)
	}
	r.events = append(r.events, e.Reason)
}

// Watch implements port.API.
func (r *rig) Watch(_ context.Context, _ port.Selection, change func(port.APIChange), _ func(error)) {
	r.AfterFunc(time.Millisecond, func() {
		if r.fail("watch") != nil {
			return
		}
		r.watch = change
		r.watching = true
		var all []port.APIObject
		if r.node != nil {
			all = append(all, r.node)
		}
		change(port.APIReplaced{Objects: all})
	})
}

func (r *rig) answer(call string, done func(port.APIObject, error), work func() (port.APIObject, error)) {
	r.Say("%s", call)
	err := r.fail(call)
	r.AfterFunc(time.Millisecond, func() {
		if err != nil {
			done(nil, err)
			return
		}
		done(work())
	})
}

// Get implements port.API.
func (r *rig) Get(_ context.Context, k port.APIKey, done func(port.APIObject, error)) {
	r.answer("get "+k.Kind.String(), done, func() (port.APIObject, error) {
		switch {
		case k.Kind == port.NodeKind && r.node != nil:
			return r.node, nil
		case k.Kind == port.LeaseKind && r.lease != nil:
			return r.lease, nil
		default:
			return nil, &port.Error{Kind: port.NotFound}
		}
	})
}

// Create implements port.API.
func (r *rig) Create(_ context.Context, o port.APIObject, done func(port.APIObject, error)) {
	r.answer("create "+port.APIKindOf(o).String(), done, func() (port.APIObject, error) {
		if l, is := o.(*coordinationv1.Lease); is {
			r.lease = l
			return l, nil
		}
		return r.put(func(n *v1.Node) {
			*n = *o.(*v1.Node)
			n.UID = types.UID(fmt.Sprint("u-", r.version))
		}), nil
	})
}

// Update implements port.API.
func (r *rig) Update(_ context.Context, o port.APIObject, done func(port.APIObject, error)) {
	r.answer("update "+port.APIKindOf(o).String(), done, func() (port.APIObject, error) {
		r.lease = o.(*coordinationv1.Lease)
		return r.lease, nil
	})
}

// Patch implements port.API.
func (r *rig) Patch(_ context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	call := "patch Node"
	if p.Status {
		call = "report"
	}
	r.answer(call, done, func() (port.APIObject, error) {
		if r.node == nil {
			return nil, &port.Error{Kind: port.NotFound}
		}
		to := p.To.(*v1.Node)
		return r.put(func(n *v1.Node) {
			if p.Status {
				n.Status = to.Status
			} else {
				n.Labels, n.Annotations, n.Spec = to.Labels, to.Annotations, to.Spec
			}
		}), nil
	})
}

// put makes a new version of the node, and lets the watch tell of it.
func (r *rig) put(change func(*v1.Node)) *v1.Node {
	n := &v1.Node{}
	if r.node != nil {
		n = r.node.DeepCopy()
	}
	change(n)
	r.version++
	n.ResourceVersion = fmt.Sprint(r.version)
	r.node = n
	r.AfterFunc(5*time.Millisecond, func() {
		if r.watching {
			r.watch(port.APISet{Object: n})
		}
	})
	return n
}

func ready() port.RuntimeStatus {
	return port.RuntimeStatus{Conditions: []port.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true}}}
}

// newRig prepares a world; start starts the actor in it.
func newRig(t *testing.T) *rig {
	cpu := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
	r := &rig{
		Rig: actortest.New(t), fail: func(string) error { return nil },
		machine: &port.Machine{Capacity: cpu, Allocatable: cpu, Info: v1.NodeSystemInfo{BootID: "b1"}},
	}
	r.runtime = runtimePort{r: r, status: ready()}
	return r
}

func (r *rig) start(change ...func(*Deps)) {
	r.T.Helper()
	deps := &Deps{
		Settings: Settings{
			Register: true, MaxImages: 50, StatusPeriod: 10 * time.Second, ReportPeriod: 5 * time.Minute, LeaseDuration: 40 * time.Second,
		},
		API: r, Runtime: &r.runtime, Facts: r, Events: r,
		Own:     &nodeobject.Own{Name: "n1", Labels: map[string]string{"own": "1"}},
		Seen:    func(n *v1.Node) { r.seen = append(r.seen, n) },
		Read:    func(number uint64) { r.reads = append(r.reads, number) },
		Backoff: backoff.Policy{Base: 200 * time.Millisecond, Max: 7 * time.Second}, Deadline: 15 * time.Second, Patience: time.Minute,
	}
	for _, c := range change {
		c(deps)
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[Message]{Name: "nodestatus", New: New(deps)})
}

// onLinux has more labels.
func onLinux(d *Deps) {
	d.Own.Labels = map[string]string{"own": "1", v1.LabelOSStable: "linux", v1.LabelTopologyZone: "a"}
}

// called counts the calls of a name, and forgets all.
func (r *rig) called(name string) (n int) {
	n = r.Count(name)
	r.Forget()
	return n
}

func (r *rig) wantReady(want bool) {
	r.T.Helper()
	if r.node == nil {
		r.T.Fatalf("there is no node")
	}
	if got := nodeobject.Ready(&r.node.Status); got != want {
		r.T.Errorf("ready is %v: %+v", got, r.node.Status.Conditions)
	}
}

// TestRegister: as soon as the facts hold, with one write.
func TestRegister(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(20 * time.Millisecond)
	r.wantReady(true)
	r.Want("the calls", "get Lease", "create Node", "create Lease")
	if got := strings.Join(r.events, " "); got != "Starting NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady" {
		t.Errorf("events %s", got)
	}
	if len(r.seen) != 1 || r.lease == nil || r.lease.OwnerReferences[0].UID != r.node.UID {
		t.Errorf("seen %d times, lease %+v", len(r.seen), r.lease)
	}
}

// TestMachineChanges: who uses what the machine has is told before the Node shows it, and only if it has changed.
func TestMachineChanges(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(time.Second)
	before := len(r.seen)
	r.Advance(2 * time.Minute)
	if len(r.seen) != before {
		t.Errorf("seen %d times more", len(r.seen)-before)
	}
	more := v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
	address := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.7"}}
	r.machine = &port.Machine{Capacity: more, Allocatable: more, Addresses: address, Info: r.machine.Info}
	if !r.RunUntil(r.Now().Add(2*time.Minute), func() bool { return len(r.seen) > before }) {
		t.Fatal("nobody is told")
	}
	told := r.seen[before].Status
	if told.Allocatable.Cpu().Value() != 8 || told.Addresses[0].Address != "192.0.2.7" || r.node.Status.Allocatable.Cpu().Value() != 4 {
		t.Errorf("told %v %v, the Node shows %v", told.Allocatable, told.Addresses, r.node.Status.Allocatable)
	}
	r.Advance(time.Second)
	if r.node.Status.Allocatable.Cpu().Value() != 8 || r.node.Status.Addresses[0].Address != "192.0.2.7" || len(r.seen) != before+1 {
		t.Errorf("the Node shows %v, seen %d times", r.node.Status.Allocatable, len(r.seen)-before)
	}
}

// TestFeaturesChange: pods are admitted by what the runtime can do, so that is told when it is known.
func TestFeaturesChange(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(time.Second)
	before := len(r.seen)
	r.runtime.status.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: new(true)}
	r.Advance(time.Minute)
	if len(r.seen) != before+1 || r.seen[before].Status.Features == nil {
		t.Errorf("seen %d times more", len(r.seen)-before)
	}
}

// TestIdle: a minute costs six renewals of the lease and nothing else.
func TestIdle(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(time.Second)
	r.Forget()
	r.Advance(time.Minute)
	if n := len(r.Lines()); n < 5 || n > 6 || r.called("update Lease") != n {
		t.Errorf("%d calls", n)
	}
	r.Advance(10 * time.Minute)
	if n := r.called("report"); n < 1 || n > 3 {
		t.Errorf("%d reports in ten minutes", n)
	}
}

// TestRuntimeUpgraded: nobody has seen the runtime away, and the Node shows the new version within a minute.
func TestRuntimeUpgraded(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(time.Second)
	r.runtime.version = "2.1"
	r.Advance(time.Minute + 10*time.Second)
	check.Equal(t, r.node.Status.NodeInfo.ContainerRuntimeVersion, "containerd://2.1", "the version")
}

// TestWaitsForTheCSINode: a new Node is not ready before its CSINode was written once. One that is ready stays so when
// the agent starts again.
func TestWaitsForTheCSINode(t *testing.T) {
	csi := func(d *Deps) { d.Volumes = func(*v1.Node) {} }
	r := newRig(t)
	r.start(csi)
	r.Advance(time.Minute)
	r.wantReady(false)
	check.Has(t, r.node.Status.Conditions[3].Message, "CSINode is not yet initialized", "the message")
	r.actor.Tell(CSINodeWritten{})
	r.Advance(time.Second)
	r.wantReady(true)
	check.Equal(t, slices.Contains(r.events, "NodeNotReady"), false, "there is an event NodeNotReady")
	again := newRig(t)
	again.node = r.node
	again.start(csi)
	again.Advance(time.Minute)
	again.wantReady(true)
	check.Equal(t, again.called("report"), 0, "reports")
}

// TestNotReady: the network is not there yet; the node is registered, and ready soon after it is.
func TestNotReady(t *testing.T) {
	r := newRig(t)
	r.runtime.status.Conditions[1] = port.RuntimeCondition{Type: "NetworkReady", Reason: "NetworkPluginNotReady", Message: "no plugin"}
	r.start()
	r.Advance(time.Second)
	r.wantReady(false)
	if c := r.node.Status.Conditions[3]; !strings.Contains(c.Message, "no plugin") {
		t.Errorf("it says %q", c.Message)
	}
	r.runtime.status = ready()
	r.Advance(time.Second)
	r.wantReady(true)
	if last := r.events[len(r.events)-1]; last != "NodeReady" {
		t.Errorf("events %v", r.events)
	}
}

// TestRuntimeDown: one that is restarted is no news; one that stays away is.
func TestRuntimeDown(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(time.Second)
	r.runtime.err = &port.Error{Kind: port.Unavailable, Detail: "connection refused"}
	r.Advance(25 * time.Second)
	r.wantReady(true)
	r.Advance(30 * time.Second)
	r.wantReady(false)
	r.runtime.err = nil
	r.Advance(2 * time.Second)
	r.wantReady(true)
}

// TestListsFail: a runtime that says that it is well, and lists nothing.
func TestListsFail(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(time.Second)
	since := r.Now()
	r.actor.Tell(Lists{FailSince: since})
	r.Advance(3*time.Minute - time.Second)
	r.wantReady(true)
	r.Advance(30 * time.Second)
	r.wantReady(false)
	i := slices.IndexFunc(r.node.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady })
	want := "PLEG is not healthy: no list of pods and containers has worked since " + since.UTC().Format(time.RFC3339)
	if got := r.node.Status.Conditions[i].Message; !strings.HasPrefix(got, want) {
		t.Errorf("message %q, want %q", got, want)
	}
	r.actor.Tell(Lists{})
	r.Advance(time.Second)
	r.wantReady(true)
}

// TestNodeDeleted: it is registered again at once. Who drained it and deletes it does not get pods on it for that.
func TestNodeDeleted(t *testing.T) {
	for name, cordoned := range map[string]bool{"in use": false, "drained": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.start()
			r.Advance(time.Second)
			r.put(func(n *v1.Node) { n.Spec.Unschedulable = cordoned })
			r.Advance(time.Second)
			old, before := r.node, len(r.seen)
			r.node = nil
			r.watch(port.APIDeleted{Object: old})
			r.Advance(100 * time.Millisecond)
			r.wantReady(true)
			if r.node.UID == old.UID || len(r.seen) != before+1 {
				t.Errorf("the node is %s, seen %d times, want once more than %d", r.node.UID, len(r.seen), before)
			}
			if r.node.Spec.Unschedulable != cordoned || (len(r.node.Spec.Taints) == 1) != cordoned {
				t.Errorf("cordoned: %t, with the taints %v", r.node.Spec.Unschedulable, r.node.Spec.Taints)
			}
		})
	}
}

// TestNotRegistering: somebody else makes the object; until then nothing is written.
func TestNotRegistering(t *testing.T) {
	r := newRig(t)
	r.start(onLinux, func(d *Deps) { d.Register = false })
	r.Advance(10 * time.Minute)
	r.Want("nothing is written", "get Lease")
	if r.node != nil {
		t.Fatalf("there is a node: %+v", r.node)
	}
	r.put(func(n *v1.Node) { n.Name, n.UID = "n1", "theirs" })
	r.Advance(time.Second)
	r.wantReady(true)
	if l := r.node.Labels; r.node.UID != "theirs" || len(l) != 1 || l[v1.LabelOSStable] != "linux" {
		t.Errorf("it is %+v", r.node.ObjectMeta)
	}
}

// TestOthers: what others do to labels stays, but for the system; that the node was said to be away is mended at once;
// who closes it is told of.
func TestOthers(t *testing.T) {
	r := newRig(t)
	r.start(onLinux)
	r.Advance(time.Second)
	r.put(func(n *v1.Node) {
		n.Labels = map[string]string{"theirs": "1"}
		n.Spec.Unschedulable = true
		n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
	})
	r.Advance(11 * time.Second)
	if l := r.node.Labels; len(l) != 2 || l[v1.LabelOSStable] != "linux" || l["theirs"] != "1" || !r.node.Spec.Unschedulable ||
		len(r.node.Spec.Taints) != 1 {
		t.Errorf("it is %+v", r.node)
	}
	if !slices.Contains(r.events, "NodeNotSchedulable") || len(r.seen[len(r.seen)-1].Spec.Taints) != 1 {
		t.Errorf("events %v", r.events)
	}
	r.put(func(n *v1.Node) { n.Status.Conditions[3].Status = v1.ConditionUnknown })
	r.Advance(1100 * time.Millisecond)
	r.wantReady(true)
}

// TestLabelsAtStart: an agent that starts sets again what the machine is, once, and no other label of its configuration.
func TestLabelsAtStart(t *testing.T) {
	r := newRig(t)
	r.put(func(n *v1.Node) {
		n.Name, n.UID, n.Labels = "n1", "there", map[string]string{"own": "2", v1.LabelTopologyZone: "b"}
	})
	r.start(onLinux)
	r.Advance(time.Second)
	if l := r.node.Labels; l["own"] != "2" || l[v1.LabelTopologyZone] != "a" || l[v1.LabelOSStable] != "linux" {
		t.Errorf("at the start: %v", l)
	}
	r.put(func(n *v1.Node) { n.Labels = map[string]string{v1.LabelTopologyZone: "c"} })
	r.Advance(time.Minute)
	if l := r.node.Labels; len(l) != 2 || l[v1.LabelTopologyZone] != "c" || l[v1.LabelOSStable] != "linux" {
		t.Errorf("later: %v", l)
	}
	old := r.node
	r.put(func(n *v1.Node) { n.UID, n.Labels = "another", nil })
	r.Advance(time.Minute)
	if l := r.node.Labels; r.node.UID == old.UID || len(l) != 2 || l[v1.LabelTopologyZone] != "a" {
		t.Errorf("another Node: %v", l)
	}
}

// TestLabelsRefused: labels that a policy refuses keep nothing else of the Node from being written, and are written when
// they may be.
func TestLabelsRefused(t *testing.T) {
	r := newRig(t)
	r.put(func(n *v1.Node) {
		n.Name, n.UID, n.Labels = "n1", "there", map[string]string{v1.LabelTopologyZone: "b"}
	})
	r.fail = func(call string) error {
		if call == "patch Node" {
			return &port.Error{Kind: port.Forbidden, Detail: "denied by a webhook"}
		}
		return nil
	}
	r.start(onLinux)
	r.Advance(time.Second)
	r.wantReady(true)
	r.Forget()
	r.Advance(time.Minute)
	if n := r.called("patch Node"); n < 5 || n > 7 {
		t.Errorf("%d tries in a minute", n)
	}
	r.fail = func(string) error { return nil }
	r.Advance(11 * time.Second)
	if l := r.node.Labels; l[v1.LabelTopologyZone] != "a" || l[v1.LabelOSStable] != "linux" {
		t.Errorf("labels %v", l)
	}
}

// TestAway: while the apiserver is away it is tried ever more seldom, but often enough to be back in
// seconds; nobody is told of a node that is ready again.
func TestAway(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(time.Second)
	r.events = nil
	r.fail = func(string) error { return &port.Error{Kind: port.Unavailable} }
	r.machine = &port.Machine{Capacity: r.machine.Capacity, Allocatable: r.machine.Allocatable, Info: v1.NodeSystemInfo{BootID: "b1", KernelVersion: "new"}}
	r.Forget()
	r.Advance(5 * time.Minute)
	if n := r.called("report"); n < 30 || n > 120 {
		t.Errorf("%d tries in 5 minutes", n)
	}
	r.fail = func(string) error { return nil }
	r.Advance(7 * time.Second)
	if r.node.Status.NodeInfo.KernelVersion != "new" {
		t.Error("it is not told of what is new")
	}
	if renewed := r.lease.Spec.RenewTime.Time; r.Now().Sub(renewed) > 7*time.Second {
		t.Errorf("the lease was renewed %v ago", r.Now().Sub(renewed))
	}
	if len(r.events) > 0 {
		t.Errorf("events %v", r.events)
	}
}

// TestRegisteredMeanwhile: an answer was lost, and the node is there.
func TestRegisteredMeanwhile(t *testing.T) {
	r := newRig(t)
	r.fail = func(call string) error {
		if call == "create Node" && r.node == nil {
			r.put(func(n *v1.Node) { n.Name, n.UID = "n1", "there" })
			return &port.Error{Kind: port.AlreadyExists}
		}
		return nil
	}
	r.start()
	r.Advance(time.Second)
	r.wantReady(true)
	if r.node.UID != "there" {
		t.Errorf("it is %s", r.node.UID)
	}
}
