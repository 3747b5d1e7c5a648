package invariants

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// Node is what has been seen of one node: a model that events keep up to date, never a
// copy of the runtime's state. It asks the checkers of an event before the model takes
// the event in, and costs no more than the event's own pod. It is not safe for concurrent
// use.
type Node struct {
	now  func() time.Time
	fail func(Violation)
	pods map[types.UID]*Pod
	// sources are the pods that the agent was last told of by each source.
	sources map[podspec.Origin]map[types.UID]*v1.Pod
	// disk is until when the agent may wait for a checkpoint that is not written.
	disk time.Time
	// still is until when the agent, or a message within it, may stand still.
	still time.Time
	// trouble excuses what is late, apiTrouble what the apiserver is told late, and callTrouble what waits for a call
	// about no pod, such as the removal of an image.
	trouble, apiTrouble, callTrouble trouble
	timely                           bool
	// began is when the agent did, crashedAt when an actor last crashed, replacedAt when the next one begins, clockSet
	// when the wall clock was last set, restoredAt when the apiserver was last restored from a backup.
	began, crashedAt, replacedAt, clockSet, restoredAt time.Time
	// agents is how many there were.
	agents int
	// inCluster: the agent calls an apiserver. The lease there has renewTime, and was leased then.
	inCluster bool
	instant
	// reached has a bit for each rare state.
	reached           uint64
	renewTime, leased time.Time
	pressures
	devices  Devices                            // those of device plugins that containers have
	volumes  csiVolumes                         // those of CSI drivers
	entitled func(p *v1.Pod, image string) bool // see Entitles; nil: each pod may use each image
	// running are the UIDs of a pod's name that have running containers, and how many.
	running map[podName]map[types.UID]int
}

type podName struct{ namespace, name string }

// Pod is what has been seen of one pod.
type Pod struct {
	Ref observed.PodRef
	// spec is the newest that the agent was told, nil if it never was.
	spec *v1.Pod
	// wanted: the agent was last told that the pod is to run, first at since; at dropped that it is not.
	wanted         bool
	dropped, since time.Time
	// givenUp is since when its source wants it no more, as the agent that runs was told; zero if it does.
	givenUp time.Time
	// adopted: it had a ready sandbox when the agent began, and has had one until now. leaving: the agent has asked for
	// the end of its sandbox.
	adopted, leaving bool
	// everDropped: since the runtime last had nothing of the pod.
	everDropped bool

	sandboxes  map[string]*sandbox
	ready      int
	containers map[string]*container
	names      map[string]*lineage
	// newest is the highest attempt of a sandbox, -1 for none.
	newest int64

	// shown is the newest version in the API, nil if there is none; over since when it
	// is gone or has ended for good.
	shown *v1.Pod
	over  time.Time
	// lateWrite: a write of its status may arrive after later ones.
	lateWrite bool
	// undone: it was deleted, and the apiserver may have been restored to before that. finished: it was shown as ended
	// for good before the apiserver was restored, or had completed when its last record went, and nothing was made for it
	// since.
	undone, finished bool

	// graceEnds is when the shortest grace period ends that the agent was told of, endsSince when it
	// was first told of one; zero for none. forced: it was told that the pod is deleted by force.
	graceEnds, endsSince time.Time
	forced               bool
	trouble              trouble
	evicted              evicted
	// overLimit is since when it uses more disk than its limits; zero if it does not.
	overLimit time.Time
	// failed are the calls about the machine for it that have gone wrong.
	failed map[string]bool
}

type sandbox struct {
	ready           bool
	madeAt, endedAt time.Time
}

func (s *sandbox) isReady() bool { return s != nil && s.ready }

// container is one incarnation.
type container struct {
	name, sandbox string
	attempt       uint32
	state         observed.ContainerState
	exitCode      int32
	cause         simcri.Cause
	// image is the one that it was made with.
	image string
	// otherImage: the pod asked for another one meanwhile, or already when it was made.
	otherImage bool
	// doubtful: the agent, or the actor that asked, may not have been told by the answer that it was started.
	// tried: it was asked to start.
	// removed: the runtime has no record of it any more.
	doubtful, tried, removed bool
	// asked is when the agent first asked the runtime to stop it.
	asked time.Time
	// startedAt is when it was made, or then started; endedAt when it has ended; life when its sandbox was made.
	startedAt, endedAt, life time.Time
	// graceEnds is that of its pod while it lived; probed is when it last was.
	graceEnds, probed time.Time
	// commands are those that were run in it, nil for none.
	commands map[string]bool
}

func (c *container) running() bool { return c.state == observed.ContainerRunning }

// lineage are the incarnations of one container name of a pod.
type lineage struct {
	made   bool
	newest uint32
	// ran: the newest was started.
	ran     bool
	running *container
	// last is the newest incarnation that ended, nil for none.
	last *container
	// dead are those that ended and were not removed, ends all that have ended.
	dead, ends int
	backoffs
	// doubtful: the agent may count its ends otherwise. resized: its pod asked for other resources for it.
	doubtful, resized bool
	// completed and started are the sandboxes in which one ended with code 0, or was started.
	completed, started map[string]bool
}

// New makes the model of a node of which nothing was seen. fail is told of each violation.
func New(now func() time.Time, fail func(Violation)) *Node {
	return &Node{
		now: now, fail: fail, pods: map[types.UID]*Pod{}, sources: map[podspec.Origin]map[types.UID]*v1.Pod{},
		running: map[podName]map[types.UID]int{},
	}
}

func (n *Node) pod(ref observed.PodRef) *Pod {
	p := n.pods[ref.UID]
	if p == nil {
		p = &Pod{
			Ref: ref, newest: -1, sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
			names: map[string]*lineage{}, failed: map[string]bool{},
		}
		n.pods[ref.UID] = p
	}
	return p
}

// image is what the pod asks for now, for a container.
func (p *Pod) image(name string) string {
	if p.spec != nil {
		if c, _ := podspec.Find(&p.spec.Spec, name); c != nil {
			return c.Image
		}
	}
	return ""
}

func (p *Pod) lineage(name string) *lineage {
	l := p.names[name]
	if l == nil {
		l = &lineage{completed: map[string]bool{}, started: map[string]bool{}}
		p.names[name] = l
	}
	return l
}

func (n *Node) violated(r *rule, p *Pod, what string) {
	v := Violation{ID: r.ID, What: what, At: n.now()}
	if p != nil {
		v.Pod = p.Ref
	}
	n.fail(v)
}

// Changed: a sandbox or container of the runtime has changed.
func (n *Node) Changed(t simcri.Transition) {
	p := n.pod(t.Pod)
	for i := range rules {
		if f := rules[i].changed; f != nil {
			if what := f(n, p, &t); what != "" {
				n.violated(&rules[i], p, what)
			}
		}
	}
	n.sometimes(func(r *rare) bool { return r.changed != nil && r.changed(n, p, &t) })
	if t.Container == "" {
		p.sandboxChanged(&t, n.now())
	} else {
		n.containerChanged(p, &t)
		n.devices.Changed(&t)
	}
	if len(p.containers) == 0 && p.everDropped {
		n.devices.forgetAll(p)
		p.finished = p.finished || p.completed()
		clear(p.names) // the numbers begin anew if it comes back: no log is left that they could meet
		if len(p.sandboxes) == 0 {
			p.newest, p.everDropped = -1, !p.wanted
		}
	}
}

// Called: the agent calls the runtime, and this goes wrong with the call.
func (n *Node) Called(c simcri.Call, f simcri.Fault) {
	if c.Pod.UID == "" {
		if f != (simcri.Fault{}) {
			n.callTrouble.last(n.now().Add(delay(f) + recovery))
		}
		return
	}
	p := n.pod(c.Pod)
	if f != (simcri.Fault{}) {
		n.Troubled(c.Pod.UID, delay(f))
	}
	for i := range rules {
		if f := rules[i].called; f != nil {
			if what := f(n, p, &c); what != "" {
				n.violated(&rules[i], p, what)
			}
		}
	}
	n.sometimes(func(r *rare) bool { return r.called != nil && r.called(n, p, &c) })
	at := p.containers[c.Object]
	switch {
	case at == nil:
	case c.Method == simcri.StopContainer && at.asked.IsZero():
		at.asked = n.now()
	case c.Method == simcri.ExecSync:
		at.noted(c.Command)
	case c.Method == simcri.StartContainer:
		at.doubtful, at.tried = f != simcri.Fault{} || !n.now().After(n.replacedAt), true
	}
	p.leaving = p.leaving || c.Method == simcri.StopPodSandbox
}

// Outsider: somebody else than the agent is about to stop or remove what the pod of a sandbox or container has.
func (n *Node) Outsider(id string) {
	for _, p := range n.pods { // order-free: one has it
		if p.containers[id] == nil && p.sandboxes[id] == nil {
			continue
		}
		for _, c := range p.containers { // order-free: all of them
			c.asked, c.doubtful = n.now(), true
		}
		for _, l := range p.names { // order-free: all of them
			l.made, l.ends, l.backoffs, l.doubtful = false, 0, backoffs{free: l.free}, true
		}
	}
}

// Done: a call about the machine took effect.
func (n *Node) Done(c machine.Call) {
	if c.Pod == "" {
		return
	}
	p := n.pods[types.UID(c.Pod)]
	if p == nil {
		return
	}
	n.sometimes(func(r *rare) bool { return r.done != nil && r.done(n, p, &c) })
	for i := range rules {
		if f := rules[i].done; f != nil {
			if what := f(n, p, &c); what != "" {
				n.violated(&rules[i], p, what)
			}
		}
	}
}

// Told: the agent has taken in what a source wants to run.
func (n *Node) Told(source podspec.Origin, pods []*v1.Pod) {
	before := n.sources[source]
	now := make(map[types.UID]*v1.Pod, len(pods))
	for _, p := range pods {
		now[p.UID] = p
	}
	n.sources[source] = now
	for uid := range before {
		if now[uid] == nil {
			p := n.pods[uid]
			n.judge(p)
			n.endsIn(p, podspec.Grace(p.spec))
			if source == podspec.API && n.awaited(p) {
				n.endsIn(p, leastGrace)
			}
		}
	}
	for _, of := range pods {
		p := n.pod(observed.PodRef{UID: of.UID, Namespace: of.Namespace, Name: of.Name})
		p.resized(of)
		p.spec = of
		for _, c := range p.containers { // order-free: all of them
			c.otherImage = c.otherImage || c.image != p.image(c.name)
		}
		n.judge(p)
		switch grace := podspec.DeletionGrace(of); {
		case of.DeletionTimestamp == nil && !podspec.Finished(of):
			n.hurries(p)
		case of.DeletionTimestamp == nil:
		case grace <= 0:
			p.forced = true
			n.endsIn(p, leastGrace)
		default:
			n.endsIn(p, grace-p.deletedFor(n.now()))
		}
	}
}

// judge says whether the agent has been told that a pod is to run.
func (n *Node) judge(p *Pod) {
	wanted := false
	for _, of := range n.sources {
		if of := of[p.Ref.UID]; of != nil {
			wanted = of.DeletionTimestamp == nil
			break
		}
	}
	if p.wanted && !wanted {
		p.dropped, p.everDropped = n.now(), true
	} else if wanted && !p.wanted {
		p.since = n.now()
	}
	p.wanted = wanted
}

// Began: another agent runs, which has been told nothing.
func (n *Node) Began() {
	clear(n.sources)
	n.began = n.now()
	n.agents++
	n.Troubled("", 0)
	for _, p := range n.pods { // order-free: all of them
		p.givenUp, p.adopted, p.leaving = time.Time{}, p.ready > 0 && p.wanted, false
		for _, c := range p.containers { // order-free: all of them
			n.sometimes(func(r *rare) bool { return r.began != nil && r.began(p, c) })
			c.mayStart()
		}
		if p.wanted {
			// What runs goes on, and nothing is made for it before the agent is told of it.
			p.wanted, p.dropped, p.everDropped = false, n.now(), true
		}
	}
}

// Shown: the API has another version of a pod, which is gone with it if gone is true.
func (n *Node) Shown(of *v1.Pod, gone bool) {
	p := n.pod(observed.PodRef{UID: of.UID, Namespace: of.Namespace, Name: of.Name})
	for i := range rules {
		if f := rules[i].shown; f != nil {
			if what := f(n, p, of, gone); what != "" {
				n.violated(&rules[i], p, what)
			}
		}
	}
	n.sometimes(func(r *rare) bool { return r.shown != nil && r.shown(n, p, of, gone) })
	if p.over.IsZero() && (gone || podspec.Finished(of)) {
		p.over = n.now()
	}
	if p.shown = of; gone {
		p.shown = nil
	}
}

// Settled: nothing is asked of the node, and nothing has gone wrong for so long that all
// must be well.
func (n *Node) Settled() {
	for i := range rules {
		if f := rules[i].rested; f != nil {
			if what := f(n); what != "" {
				n.violated(&rules[i], nil, what)
			}
		}
		if f := rules[i].settled; f != nil {
			for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
				if what := f(n, n.pods[uid]); what != "" {
					n.violated(&rules[i], n.pods[uid], what)
				}
			}
		}
	}
}

// Forget drops the pods of which nothing is left, for worlds that live long.
func (n *Node) Forget() {
	maps.DeleteFunc(n.pods, func(_ types.UID, p *Pod) bool {
		return !p.wanted && p.shown == nil && len(p.sandboxes) == 0 && len(p.containers) == 0
	})
}
