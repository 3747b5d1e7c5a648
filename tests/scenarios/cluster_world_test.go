package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/events"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

// cluster is the apiserver above a world's node, and what it has seen.
type cluster struct {
	w   *world
	api *simapi.Server
	// fault says what goes wrong with a call of the agent; nil is nothing. lag is
	// how much later than usual watches tell.
	fault func(simapi.Call) simapi.Fault
	lag   time.Duration

	pods map[types.UID]*v1.Pod
	// phases are the phases, reasons and readiness that each pod went through,
	// as kubectl get -w would show them.
	shown map[string][]string
	// seenResizing is what each pod's versions said of its resizes.
	seenResizing map[string][]string
	// renewed are the renewals of the lease.
	renewed []time.Time
	nodes   []v1.Node
	calls   map[string]int
	events  *events.Recorder
}

func withAPI(change ...func(*simapi.Config)) option {
	return func(s *setting) {
		c := &cluster{w: s.w, pods: map[types.UID]*v1.Pod{}, shown: map[string][]string{}, seenResizing: map[string][]string{}, calls: map[string]int{}}
		s.w.cluster = c
		s.spec.Standalone = false
		s.sim.API.ExtraLag = func(simapi.Watching) time.Duration { return c.lag }
		s.sim.Hooks.API = func(call simapi.Call) simapi.Fault {
			what := call.Verb.String() + " " + call.Key.Kind.String()
			if call.Status {
				what += " status"
			}
			c.calls[what]++
			if c.fault != nil {
				return c.fault(call)
			}
			return simapi.Fault{}
		}
		for _, f := range change {
			f(&s.sim.API)
		}
	}
}

// begin looks at all that the apiserver has from now on.
func (c *cluster) begin() {
	c.api = c.w.sim.API()
	c.see(port.PodKind, c.pod)
	c.see(port.NodeKind, func(e simapi.Event) {
		if e.Type != simapi.Deleted {
			c.nodes = append(c.nodes, *e.Object.(*v1.Node))
		}
	})
	c.see(port.LeaseKind, func(e simapi.Event) {
		if e.Type != simapi.Deleted {
			c.renewed = append(c.renewed, e.Object.(*coordinationv1.Lease).Spec.RenewTime.Time)
		}
	})
}

func (c *cluster) see(kind port.APIKind, f func(simapi.Event)) {
	check.Value(c.api.Watch(simapi.WatchOptions{Select: simapi.Select{Kind: kind}}, f))(c.w.t)
}

// pod holds each version of each pod against what must always be so.
func (c *cluster) pod(e simapi.Event) {
	p := e.Object.(*v1.Pod)
	c.w.rules.Shown(p, e.Type == simapi.Deleted)
	if e.Type == simapi.Deleted {
		delete(c.pods, p.UID)
		c.show(p.Name, "gone")
		return
	}
	c.seeResizing(p)
	c.pods[p.UID] = p
	line := string(p.Status.Phase)
	if p.Status.Reason != "" {
		line += " " + p.Status.Reason
	}
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.State.Waiting != nil {
			line += " " + s.State.Waiting.Reason
		}
	}
	if isReady(p) {
		line += " Ready"
	}
	if p.DeletionTimestamp != nil {
		line += " Terminating"
	}
	c.show(p.Name, line)
}

func (c *cluster) show(name, line string) {
	if l := c.shown[name]; len(l) == 0 || l[len(l)-1] != line {
		c.shown[name] = append(l, line)
	}
}

func isMirror(p *v1.Pod) bool { return p.Annotations["kubernetes.io/config.mirror"] != "" }

func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

func isReady(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// recorder is that of one agent.
func (c *cluster) recorder() port.Recorder {
	c.events = check.Value(events.New(events.Config{
		API: c.api.Client(nodeName), Clock: c.w.v, Component: "troupe", Host: nodeName,
		Deadline: 10 * time.Second, Retry: 5 * time.Second, Wait: events.Wait, Also: recorder{c.w},
	}))(c.w.t)
	return c.events
}

func podKey(name string) port.APIKey {
	return port.APIKey{Kind: port.PodKind, Namespace: "default", Name: name}
}

// create makes pods that are bound to the node, as users and the scheduler would.
func (c *cluster) create(specs ...*spec) {
	c.w.t.Helper()
	for _, s := range specs {
		p := s.Pod
		p.Namespace, p.Spec.NodeName = "default", nodeName
		if _, err := c.api.Create(&p); err != nil {
			c.w.failf("%v", err)
		}
	}
}

// get is a pod as the apiserver has it, nil if it has none of that name.
func (c *cluster) get(name string) *v1.Pod {
	o, err := c.api.Get(podKey(name))
	if err != nil {
		return nil
	}
	return o.(*v1.Pod)
}

func (c *cluster) delete(name string, grace *int64) {
	c.w.t.Helper()
	if err := c.api.Delete(port.APIDelete{Key: podKey(name), Grace: grace}); err != nil {
		c.w.failf("%v", err)
	}
}

// change changes a pod's status as somebody else would.
func (c *cluster) changeStatus(name string, f func(*v1.PodStatus)) {
	c.w.t.Helper()
	from := c.get(name)
	to := *from
	to.Status = *from.Status.DeepCopy()
	f(&to.Status)
	if _, err := c.api.Patch(port.APIPatch{Key: podKey(name), From: from, To: &to, Status: true}); err != nil {
		c.w.failf("%v", err)
	}
}

func (c *cluster) node() *v1.Node {
	o, err := c.api.Get(port.APIKey{Kind: port.NodeKind, Name: nodeName})
	if err != nil {
		return nil
	}
	return o.(*v1.Node)
}

// ready says whether the apiserver shows a pod as Running and Ready.
func (c *cluster) ready(name string) bool {
	p := c.get(name)
	return p != nil && p.Status.Phase == v1.PodRunning && isReady(p)
}

func (c *cluster) allReady(names ...string) bool {
	for _, n := range names {
		if !c.ready(n) {
			return false
		}
	}
	return true
}

// restarts is the restart count that the apiserver shows of a container.
func (c *cluster) restarts(name, container string) int32 {
	if p := c.get(name); p != nil {
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == container {
				return s.RestartCount
			}
		}
	}
	return -1
}

// nothingLeft: neither the runtime nor the host has anything, nor the apiserver
// any pod of this node.
func (c *cluster) nothingLeft() bool {
	return len(c.w.rt.Truth().Runtime.Pods) == 0 && c.w.host.Pods() == 0 && len(c.pods) == 0
}

func (c *cluster) dump() string {
	var b strings.Builder
	for name, l := range c.shown {
		fmt.Fprintf(&b, "api %s: %s\n", name, strings.Join(l, " → "))
	}
	return b.String()
}

// parallelCluster is newClusterNode for a test that runs beside others.
func parallelCluster(t *testing.T, seed uint64, options ...option) (*world, *cluster) {
	t.Parallel()
	return newClusterNode(t, seed, options...)
}

// newClusterNode makes a node with an apiserver, and waits until it is Ready.
func newClusterNode(t testing.TB, seed uint64, options ...option) (*world, *cluster) {
	t.Helper()
	w := newNode(t, seed, append([]option{withAPI()}, options...)...)
	w.until(5*time.Second, "the node is Ready", func() bool {
		n := w.cluster.node()
		return n != nil && nodeobject.Ready(&n.Status)
	})
	return w, w.cluster
}
