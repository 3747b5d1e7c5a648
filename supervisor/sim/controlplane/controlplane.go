package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// Config is what a control plane works with. Server and Clock are required.
type Config struct {
	Server *simapi.Server
	Clock  simapi.Clock
	// NodeGrace is how long a node's lease may be old before the node counts as
	// lost; 50 s if zero (kube-controller-manager --node-monitor-grace-period).
	NodeGrace time.Duration
	// Delay is how long scheduler and controllers take until they act on what
	// they see; 5 ms if zero. What happens meanwhile is acted on together.
	Delay time.Duration
	// Binds is how many pods are bound to nodes at once, each Delay; 25 if zero,
	// 5,000 pods a second, which is several times what a real scheduler does.
	// Without an end to it all pods of a large world would be on their way at
	// once, and take the memory and the processor's cache of that.
	Binds int
	// Rand gives the random stream of a name; only ServeStorage needs it.
	Rand func(stream string) *rand.Rand
}

const defaultBinds = 25

// Validate says what of the configuration can't be.
func (c *Config) Validate() error {
	var errs []error
	if c.Server == nil {
		errs = append(errs, errors.New("controlplane: Server is required"))
	}
	if c.Clock == nil {
		errs = append(errs, errors.New("controlplane: Clock is required"))
	}
	if c.NodeGrace < 0 || c.Delay < 0 || c.Binds < 0 {
		errs = append(errs,
			fmt.Errorf("controlplane: NodeGrace %v, Delay %v, Binds %d: want none negative", c.NodeGrace, c.Delay, c.Binds))
	}
	return errors.Join(errs...)
}

// ControlPlane schedules pods, keeps workloads at their number, and lets pods
// go from nodes that are lost. Like the world it belongs to it is used by one
// goroutine.
//
//	watches of pods, nodes, leases ──► what is known ──(Delay)──► round: bind, create, delete
//	every 5 s ──► nodes that are not heard of: conditions, taints ──(toleration)──► delete their pods
type ControlPlane struct {
	config Config
	api    *simapi.Server

	nodes   candidates
	byName  map[string]*candidate
	placed  map[types.UID]placement
	pending []*v1.Pod // to be scheduled, in order of creation
	// stuck are those that fit nowhere, tried again when a node changes or gives
	// something back.
	stuck []*v1.Pod
	// refused are those that fit nowhere in the round under way, one of each kind.
	refused   []refusal
	more      bool
	workloads map[string]*workload
	dirty     []*workload
	storage   *storage // nil without storage drivers
	rounds    bool     // one is due
	heard     map[string]time.Time
	count     int // of nodes there ever were
	stops     []func()
	suspended bool
}

// placement is where a pod's share of a node is counted. It waits to be bound there while volumes are made for it.
type placement struct {
	on    *candidate
	is    demand
	waits bool
}

// workload is a workload and what is known of its pods.
type workload struct {
	Workload
	key      string
	revision int
	pods     map[types.UID]*v1.Pod
	// old is how many of the pods are of an older revision.
	old   int
	dirty bool
	gone  bool
}

// workloadLabel and revisionLabel are on each pod of a workload.
const (
	workloadLabel = "app"
	revisionLabel = "pod-template-hash"
)

const (
	monitorPeriod = 5 * time.Second
	defaultGrace  = 50 * time.Second
	defaultDelay  = 5 * time.Millisecond
)

// New starts a control plane. It acts when time passes.
func New(c Config) (*ControlPlane, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.NodeGrace == 0 {
		c.NodeGrace = defaultGrace
	}
	if c.Delay == 0 {
		c.Delay = defaultDelay
	}
	if c.Binds == 0 {
		c.Binds = defaultBinds
	}
	cp := &ControlPlane{
		config: c, api: c.Server, byName: map[string]*candidate{}, placed: map[types.UID]placement{},
		workloads: map[string]*workload{}, heard: map[string]time.Time{},
	}
	for _, w := range []struct {
		kind port.APIKind
		see  func(simapi.Event)
	}{{port.NodeKind, cp.seeNode}, {port.LeaseKind, cp.seeLease}, {port.PodKind, cp.seePod}} {
		stop, err := c.Server.Watch(simapi.WatchOptions{Select: simapi.Select{Kind: w.kind}}, w.see)
		if err != nil {
			return nil, err
		}
		cp.stops = append(cp.stops, stop)
	}
	cp.monitorLater()
	return cp, nil
}

// Stop ends everything that it does.
func (cp *ControlPlane) Stop() {
	for _, stop := range cp.stops {
		stop()
	}
	cp.stops = nil
}

// Suspend keeps it from doing anything until Resume: it can't reach the
// apiserver either.
func (cp *ControlPlane) Suspend() { cp.suspended = true }

// Resume has it act on what happened meanwhile. Nodes have their grace again, as
// the control plane could not receive their leases.
func (cp *ControlPlane) Resume() {
	cp.suspended = false
	for name := range cp.heard {
		cp.heard[name] = cp.config.Clock.Now()
	}
	cp.soon()
}

// idle says that it is not to act.
func (cp *ControlPlane) idle() bool { return cp.stops == nil || cp.suspended }

// Apply creates a workload, or changes one of that name to be so: the number of
// its pods at once, its template by replacing some at a time.
func (cp *ControlPlane) Apply(w Workload) error {
	switch {
	case w.Replicas < 0:
		return fmt.Errorf("controlplane: workload %s: %d replicas", w.Name, w.Replicas)
	case len(validation.IsDNS1123Label(w.Name)) > 0:
		return fmt.Errorf("controlplane: workload %q: %s", w.Name, validation.IsDNS1123Label(w.Name)[0])
	case len(w.Template.Spec.Containers) == 0:
		return fmt.Errorf("controlplane: workload %s: its template has no container", w.Name)
	case w.Stateful != nil && slices.ContainsFunc(w.Stateful.Claims, func(c v1.PersistentVolumeClaim) bool {
		return len(validation.IsDNS1123Label(c.Name)) > 0
	}):
		return fmt.Errorf("controlplane: workload %s: a claim template needs a name that is a DNS label", w.Name)
	}
	if w.Namespace == "" {
		w.Namespace = metav1.NamespaceDefault
	}
	key := w.Namespace + "/" + w.Name
	s := cp.workloads[key]
	if s == nil {
		s = &workload{key: key, pods: map[types.UID]*v1.Pod{}}
		cp.workloads[key] = s
	}
	if s.revision == 0 || !sameTemplate(&s.Template, &w.Template) {
		s.revision++
		s.old = len(s.pods)
	}
	// The pods of a revision share one spec.
	w.Template.Spec.Tolerations = defaultTolerations(&w.Template.Spec)
	s.Workload = w
	cp.touch(s)
	return nil
}

func sameTemplate(a, b *v1.PodTemplateSpec) bool {
	b = b.DeepCopy()
	b.Spec.Tolerations = defaultTolerations(&b.Spec)
	return equal(a, b)
}

// Workload gives a workload as it was applied last.
func (cp *ControlPlane) Workload(namespace, name string) (Workload, bool) {
	s := cp.workloads[namespace+"/"+name]
	if s == nil {
		return Workload{}, false
	}
	return s.Workload, true
}

// Remove deletes a workload and all its pods.
func (cp *ControlPlane) Remove(namespace, name string) error {
	s := cp.workloads[namespace+"/"+name]
	if s == nil {
		return fmt.Errorf("controlplane: there is no workload %s/%s", namespace, name)
	}
	delete(cp.workloads, s.key)
	s.gone = true
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		cp.remove(s.pods[uid])
	}
	return nil
}

// remove deletes a pod, if it is not being deleted.
func (cp *ControlPlane) remove(p *v1.Pod) {
	if p.DeletionTimestamp != nil {
		return
	}
	_ = cp.api.Delete(port.APIDelete{Key: keyOf(p), UID: p.UID}) // it is gone otherwise
}

func keyOf(p *v1.Pod) port.APIKey {
	return port.APIKey{Kind: port.PodKind, Namespace: p.Namespace, Name: p.Name}
}

func (cp *ControlPlane) seePod(e simapi.Event) {
	p := e.Object.(*v1.Pod)
	if e.Type == simapi.Deleted || finished(p) {
		cp.release(p)
	} else if p.Spec.NodeName == "" {
		had, placed := cp.placed[p.UID]
		placed = placed && !had.waits
		if placed { // the apiserver was restored to before it was bound
			cp.release(p)
		}
		if placed || e.Type == simapi.Added {
			cp.pending = append(cp.pending, p)
			cp.soon()
		}
	} else {
		cp.claim(p)
	}
	s := cp.workloads[p.Namespace+"/"+p.Labels[workloadLabel]]
	if s == nil {
		return
	}
	old := s.pods[p.UID]
	if e.Type == simapi.Deleted {
		delete(s.pods, p.UID)
		if old != nil && !s.newest(old) {
			s.old--
		}
	} else {
		s.pods[p.UID] = p
		if old == nil && !s.newest(p) {
			s.old++
		}
	}
	// Nothing else of a pod matters to its workload.
	if e.Type == simapi.Deleted || old == nil || (old.DeletionTimestamp == nil) != (p.DeletionTimestamp == nil) ||
		finished(old) != finished(p) || podReady(old) != podReady(p) && (s.old > 0 || s.Stateful != nil) {
		cp.touch(s)
	}
}

func (s *workload) newest(p *v1.Pod) bool { return p.Labels[revisionLabel] == revisionName(s.revision) }

func revisionName(n int) string { return fmt.Sprintf("r%d", n) }

// claim counts a bound pod on its node.
func (cp *ControlPlane) claim(p *v1.Pod) {
	if had, counted := cp.placed[p.UID]; counted && !had.waits {
		return
	}
	n := cp.byName[p.Spec.NodeName]
	if n == nil {
		return
	}
	d := of(p)
	if _, counted := cp.placed[p.UID]; counted {
		cp.release(p)
	}
	cp.placed[p.UID] = placement{n, d, false}
	n.used = n.used.plus(d)
	cp.fix(n)
}

// release gives back what a pod had.
func (cp *ControlPlane) release(p *v1.Pod) {
	had, counted := cp.placed[p.UID]
	if !counted {
		return
	}
	delete(cp.placed, p.UID)
	had.on.used = had.on.used.minus(had.is)
	cp.fix(had.on)
	cp.retry()
}

func (cp *ControlPlane) fix(n *candidate) {
	if n.index >= 0 {
		cp.nodes.fix(n)
	}
}

// retry has another look at the pods that fit nowhere.
func (cp *ControlPlane) retry() {
	if len(cp.stuck) > 0 {
		cp.more = true
		cp.soon()
	}
}

func (cp *ControlPlane) touch(s *workload) {
	if s.dirty {
		return
	}
	s.dirty = true
	cp.dirty = append(cp.dirty, s)
	cp.soon()
}

// soon has a round made after the delay.
func (cp *ControlPlane) soon() {
	if cp.rounds {
		return
	}
	cp.rounds = true
	cp.config.Clock.AfterFunc(cp.config.Delay, func() {
		cp.rounds = false
		if !cp.idle() {
			cp.round()
		}
	})
}

func (cp *ControlPlane) round() {
	sets := cp.dirty
	cp.dirty = nil
	slices.SortFunc(sets, func(a, b *workload) int { return strings.Compare(a.key, b.key) })
	for _, s := range sets {
		s.dirty = false
		if !s.gone {
			cp.reconcile(s)
		}
	}
	if cp.storage != nil {
		cp.storage.round()
	}
	pods := cp.pending
	cp.pending = nil
	if cp.more {
		cp.more = false
		pods = append(cp.stuck, pods...)
		cp.stuck = nil
	}
	cp.refused = cp.refused[:0]
	left := cp.config.Binds
	for i, p := range pods {
		if left == 0 {
			cp.pending = append(pods[i:], cp.pending...)
			cp.soon()
			return
		}
		pods[i] = nil // frees the old version
		if cp.schedule(p) {
			left--
		}
	}
}

func (cp *ControlPlane) reconcile(s *workload) {
	pods := make([]*v1.Pod, 0, len(s.pods))
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		pods = append(pods, s.pods[uid])
	}
	if s.Stateful != nil {
		cp.reconcileStateful(s, pods)
		return
	}
	create, remove := s.step(pods, s.newest)
	for _, p := range remove {
		cp.remove(p)
	}
	if create == 0 {
		return
	}
	labels := s.labels()
	for range create {
		_, err := cp.api.Create(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Namespace, GenerateName: s.Name + "-" + revisionName(s.revision) + "-", Labels: labels,
				Annotations: s.Template.Annotations,
			},
			Spec: s.Template.Spec,
		})
		if err != nil {
			panic(fmt.Sprintf("controlplane: create a pod of %s: %v", s.key, err)) // the apiserver refuses what Apply took
		}
	}
}

// labels are those of the pods of the newest revision.
func (s *workload) labels() map[string]string {
	out := maps.Clone(s.Template.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out[workloadLabel], out[revisionLabel] = s.Name, revisionName(s.revision)
	return out
}
