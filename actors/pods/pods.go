package pods

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
)

// Deps are what the actor is connected to.
type Deps struct {
	NodeName string
	// Sources are those that must have been seen before anything is cleaned up.
	Sources []podspec.Origin
	Pod     *pod.Deps
	// PodPolicy answers crashes of pod actors; kernel.ForPods if zero.
	PodPolicy kernel.Policy
	// Admit says why a pod may not run here beside the others; nil if it may.
	// node is what the apiserver has of this node, nil as long as nobody told.
	Admit func(p *v1.Pod, others []*v1.Pod, node *v1.Node) *admit.Rejection
	// Cluster is where pods go that the apiserver wants to hear of; nil on a node
	// without one.
	Cluster *Cluster
	// Checkpoints store the resources allocated to pods, and the reasons of stops.
	Checkpoints port.Checkpoints
	// Collect sends a pod to gc for removal.
	Collect func(ref observed.PodRef, abandoned bool)
	// Collecting asks gc which pods it is removing.
	Collecting func(reply func([]observed.PodRef))
	// ForgetImages tells images that a pod is gone.
	ForgetImages func(uid types.UID)
	// Restarted is called when an incarnation after the first begins: sources
	// and pleg have to say again what they said before.
	Restarted func()
	// Started, if set, is told of each pod that this agent has started. It must not
	// block.
	Started func(Started)
	// Wrap may replace the behavior of a pod's actor, for tests with faults.
	Wrap func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message]
}

// Started says that all containers of a pod have been started for the first time.
type Started struct {
	Pod    *v1.Pod
	Status *v1.PodStatus
	// Seen is when this actor first heard of the pod, At when it heard that they are.
	Seen, At time.Time
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &pods{
			deps: deps, wanted: map[podspec.Origin]sources.Update{}, of: map[types.UID]*record{},
			runtime: map[types.UID]observed.RuntimePod{}, stuck: map[types.UID]bool{},
		}
	}
}

type pods struct {
	deps   *Deps
	wanted map[podspec.Origin]sources.Update
	// listed is true once the runtime was listed; runtime is that list, and what
	// was seen since of pods that have no actor.
	listed bool
	// collecting: gc is asked which pods it is removing, which an incarnation before
	// this one had asked it to.
	collecting bool
	runtime    map[types.UID]observed.RuntimePod
	// stuck are pods that are over but for what the runtime can't remove of them. gc
	// goes on trying. Invariant: none has a record.
	stuck map[types.UID]bool
	// ranked are all records, in order of rank; of has them by UID. See put and drop.
	ranked []*record
	of     map[types.UID]*record
	ranks  int64
	// rounds counts the times that what is wanted was looked at.
	rounds uint64
	// missed: messages were dropped, and not everybody has been asked since to
	// repeat. asked: somebody forgot what pods wish. While repeating, round are
	// those who are still to be asked, whole says for which of the two.
	missed, asked    bool
	repeating, whole bool
	round            []types.UID
	// node is this node as the apiserver has it, nil until told; statics is what
	// mirrors was told last.
	node    *v1.Node
	statics Statics
	// given is what is remembered of allocations.
	given given
	// stops is what is remembered of why pods and containers are stopped.
	stops stops
}

// record is one pod.
//
//	waiting ──admitted──► running ──Finished──► finished ──not wanted──► collecting ──Collected──► (gone)
//	 ▲ │                     ▲                      │                        │
//	 │ ├──not admitted, but it runs: to be stopped  │                        │
//	 │ └──not admitted──► rejected ──not wanted──► (gone)                    │
//	 └──stopped because it was not wanted, and wanted again: see comeback.go ┘
type record struct {
	pod    *v1.Pod
	source podspec.Origin
	seen   time.Time // when it was first heard of
	rank   int64
	state  state
	stop   *podlife.Stop
	// deleted is when this actor first knew that the apiserver deletes the pod.
	deleted time.Time
	// unwanted: stop is because no source wanted it. stopWritten: that is written
	// down, or can't be; its actor is told only then. again is who wants it now, nil
	// for nobody.
	unwanted, stopWritten bool
	again                 *want
	// first is Assign.FirstSandbox, next what that would be for another life. before
	// is what there was of its containers in its earlier life. look: that is to be
	// looked up in the runtime. mirror is mirrored as mirrors has it.
	first, next      uint32
	before           *v1.PodStatus
	look             bool
	mirror, mirrored *v1.Pod
	// restarts are, by name, containers that are stopped to be restarted; saved says
	// that they, and stop, are in the checkpoint that is being written.
	restarts map[string]podlife.RestartNote
	saved    bool
	view     *observed.Pod // for the first Assign
	found    bool          // the runtime had something of it when it began
	ref      kernel.Ref[pod.Message]
	report   pod.Report // the last one; no status: none yet
	reject   *admit.Rejection
	crash    *kernel.CrashReport
	// unasked: it ran already when this node was not known yet, and whether it may
	// run here is asked later: see judge.
	unasked bool
	// alloc is nil for a pod that was never resized: see resize.go. saving is what it
	// is to have as soon as the checkpoint has that; nil if it has alloc.
	alloc, saving *podresize.Allocation
	// pending is a resize that it was not given, since is when that began.
	pending *podresize.Pending
	since   time.Time
	// applied is pod with what it was given, alloc, of appliedTo.
	applied, appliedTo *v1.Pod
	// wanted is the last of the rounds in which a source wanted it.
	wanted uint64
}

type state uint8

const (
	waiting state = iota
	running
	finished
	collecting
	rejected
)

func (s state) String() string {
	return [...]string{"Waiting", "Running", "Finished", "Collecting", "Rejected"}[s]
}

// acts says whether the pod has an actor.
func (r *record) acts() bool { return r.state != waiting && r.state != rejected }

// Start implements kernel.Behavior.
func (a *pods) Start(ctx *kernel.Context[Message]) {
	a.load(ctx)
	a.stops.load(ctx, a.deps.Checkpoints, stopsName)
	if ctx.Incarnation() > 1 {
		a.deps.Restarted()
		a.collecting = true
		a.askCollecting(ctx)
	}
}

// Receive implements kernel.Behavior.
func (a *pods) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Wanted:
		a.wanted[m.Source] = m.Update
		a.reconcile(ctx)
	case Renewed:
		a.renew(m.Pod)
	case Listed:
		a.take(m.Snapshot)
		a.reconcile(ctx)
	case Hint:
		if r := a.of[m.Event.Pod.UID]; r != nil {
			r.ref.Tell(pod.RuntimeHint{ID: m.Event.ContainerID, Kind: m.Event.Kind})
		}
	case Seen:
		a.seen(ctx, m.Seen)
	case RuntimeBack:
		for _, r := range a.ranked {
			r.ref.Tell(pod.RuntimeBack{})
		}
	case Asked:
		a.assign(m.UID)
	case Reported:
		if r := a.of[m.UID]; r != nil && r.first == m.FirstSandbox {
			if a.deps.Started != nil && podstatus.Started(r.report.Status, m.Status) {
				a.deps.Started(Started{Pod: r.pod, Status: m.Status, Seen: r.seen, At: ctx.Now()})
			}
			r.report, r.crash = m.Report, nil
			a.show(m.UID, r)
		}
	case Finished:
		if r := a.of[m.UID]; r != nil && r.state == running && r.first == m.FirstSandbox {
			r.state, r.next = finished, m.NextSandbox
			a.show(m.UID, r)
			a.reconcile(ctx)
		}
	case Collected:
		a.collected(ctx, m.UID, m.Stuck)
	case AskAgain:
		a.asked = true
		if !a.repeating {
			a.repeating = true
			a.repeat(ctx)
		}
	case Repeat:
		a.repeat(ctx)
	case Crashed:
		a.crashed(m.Report)
	case NodeSeen:
		a.node = m.Node
		a.judge(ctx)
		a.reconcile(ctx)
	case ShowAgain:
		a.showAll()
	case NoteRestart:
		a.noteRestart(ctx, m.NoteRestart)
	case BeingCollected:
		a.beingCollected(ctx, m.Pods)
	case AskCollecting:
		a.askCollecting(ctx)
	case Abandoned:
		a.abandoned(m.UID)
	case Loaded:
		if m.ID == a.stops.loading {
			a.loadedStops(ctx, m)
		} else {
			a.loaded(ctx, m)
		}
	case Saved:
		if m.ID == a.stops.saving {
			a.savedStopsNow(ctx, m.Err)
		} else {
			a.saved(ctx, m)
		}
	case SaveAgain:
		a.given.retry, a.stops.retry = false, false
		a.save(ctx)
		a.saveStops(ctx)
	case Query:
		m.Reply(a.view(ctx))
	case Find:
		m.Reply(a.find(m.Namespace, m.Name))
	case Living:
		if a.ready() && a.allSeen() {
			m.Reply(a.living())
		} // else nobody knows; gc asks again
	}
}

// Overflowed implements kernel.OverflowHandler: nobody knows what was missed, so
// everybody says it again, a few at a time.
func (a *pods) Overflowed(ctx *kernel.Context[Message]) {
	a.missed = true
	if !a.repeating {
		ctx.Log().Warn().Msg("mailbox overflow: messages were dropped; asking the other actors to resend")
		a.repeating = true
		ctx.After(repeatEvery, Repeat{})
	}
}

const (
	repeatEvery = 50 * time.Millisecond
	repeatBatch = 16
)

// repeat goes on with a round of repetition, or begins the next. Never all at
// once: what they say may be more than fits into the mailbox of whoever asked,
// who would then ask for ever.
func (a *pods) repeat(ctx *kernel.Context[Message]) {
	if len(a.round) == 0 {
		if !a.missed && !a.asked {
			a.repeating = false
			return
		}
		if a.whole = a.missed; a.whole {
			a.deps.Restarted()
		}
		a.missed, a.asked = false, false
		a.round = a.uids()
	}
	n := min(repeatBatch, len(a.round))
	for _, uid := range a.round[:n] {
		if r := a.of[uid]; r != nil {
			a.again(uid, r)
			if a.whole {
				r.ref.Tell(pod.Repeat{})
			}
		}
	}
	a.round = a.round[n:]
	ctx.After(repeatEvery, Repeat{})
}

// again has a pod's wishes repeated that somebody forgot.
func (a *pods) again(uid types.UID, r *record) {
	r.ref.Tell(pod.AskAgain{})
	if r.state == collecting {
		a.collect(uid, r)
	}
}

func (a *pods) collect(uid types.UID, r *record) {
	a.deps.Collect(observed.PodRef{UID: uid, Namespace: r.pod.Namespace, Name: r.pod.Name}, r.abandoned())
}

// living are the pods that are not done with.
func (a *pods) living() map[types.UID]bool {
	living := make(map[types.UID]bool, len(a.of))
	for uid, r := range a.of { // order-free: a set
		if r.state != collecting {
			living[uid] = true
		}
	}
	return living
}

// take hands a full list on. A pod that is not in it has nothing.
func (a *pods) take(s pleg.Snapshot) {
	a.listed = true
	clear(a.runtime)
	there := make(map[types.UID]bool, len(s.Runtime.Pods))
	for _, rp := range s.Runtime.Pods {
		there[rp.Ref.UID] = true
		if r := a.of[rp.Ref.UID]; r != nil && r.acts() {
			r.ref.Tell(pod.RuntimeSeen{View: rp.Pod, Listed: s.Listed})
		} else {
			a.runtime[rp.Ref.UID] = rp
		}
	}
	for _, r := range a.ranked {
		if r.acts() && !there[r.pod.UID] {
			r.ref.Tell(pod.RuntimeSeen{Listed: s.Listed})
		}
	}
	maps.DeleteFunc(a.stuck, func(uid types.UID, _ bool) bool { return !there[uid] }) // order-free: a set
}

// ChildStopped implements kernel.ChildWatcher: a name is free again.
func (a *pods) ChildStopped(ctx *kernel.Context[Message], _ string) { a.reconcile(ctx) }

// put adds a record, which is the youngest.
func (a *pods) put(r *record) {
	delete(a.stuck, r.pod.UID)
	a.ranks++
	r.rank = a.ranks
	a.of[r.pod.UID] = r
	a.ranked = append(a.ranked, r)
}

// drop forgets a record. Whoever goes through ranked goes on with what it was.
func (a *pods) drop(uid types.UID) {
	r := a.of[uid]
	delete(a.of, uid)
	if r != nil && r.alloc != nil {
		a.given.dirty = true // it is written with the next that is
	}
	a.stops.dirty = a.stops.dirty || r != nil && r.remembers() != nil
	left := make([]*record, 0, len(a.ranked)) // a new one: see above
	for _, o := range a.ranked {
		if o != r {
			left = append(left, o)
		}
	}
	a.ranked = left
}

// uids are those of all pods, oldest first.
func (a *pods) uids() []types.UID {
	out := make([]types.UID, len(a.ranked))
	for i, r := range a.ranked {
		out[i] = r.pod.UID
	}
	return out
}

// reconcile makes what runs what is wanted.
func (a *pods) reconcile(ctx *kernel.Context[Message]) {
	if !a.ready() {
		return
	}
	wanted := a.desired()
	a.rounds++
	for _, w := range a.oldestFirst(wanted) {
		r := a.of[w.pod.UID]
		if r == nil {
			r = &record{pod: w.pod, source: w.source, seen: ctx.Now(), wanted: a.rounds}
			if w.source == podspec.API {
				r.stop = r.deletion(ctx.Now())
			}
			a.recall(r)
			a.recallStop(r)
			a.put(r)
			continue
		}
		r.wanted = a.rounds
		if w.source == podspec.API && r.source == podspec.API {
			a.refresh(ctx, r, w.pod)
			a.wantAgain(ctx, r, w)
			continue
		}
		if r.stop != nil {
			a.wantAgain(ctx, r, w)
			continue
		}
		r.source = w.source
		if r.pod != w.pod {
			r.pod = w.pod
			if r.state == rejected {
				r.state, r.reject, r.report = waiting, nil, pod.Report{}
			}
			a.assign(w.pod.UID)
		}
	}
	a.stopUnwanted(ctx)
	a.stopUnknown(ctx, wanted)
	a.resize(ctx)
	ranked := a.ranked
	for _, r := range ranked { // what has to end first
		if r.state == waiting && r.source == podspec.Orphan {
			a.begin(ctx, r)
		}
	}
	for _, r := range ranked {
		if r.state == waiting && r.source != podspec.Orphan {
			a.begin(ctx, r)
		}
	}
	a.resize(ctx)
	a.tellStatics()
	a.forgetUnclaimed()
	a.saveStops(ctx)
}

// oldestFirst puts pods that the runtime has already before others, in the
// order in which they came: what they hold is theirs, whatever they are named.
func (a *pods) oldestFirst(wanted []want) []want {
	if len(a.runtime) == 0 {
		return wanted
	}
	since := func(w want) time.Time {
		var at time.Time
		rp := a.runtime[w.pod.UID]
		for i := range rp.Sandboxes {
			if t := rp.Sandboxes[i].CreatedAt; at.IsZero() || t.Before(at) {
				at = t
			}
		}
		return at
	}
	out := slices.Clone(wanted)
	slices.SortStableFunc(out, func(x, y want) int {
		at, other := since(x), since(y)
		switch {
		case at.IsZero() && other.IsZero():
			return 0
		case at.IsZero():
			return 1
		case other.IsZero():
			return -1
		default:
			return at.Compare(other)
		}
	})
	return out
}

type want struct {
	pod    *v1.Pod
	source podspec.Origin
}

// desired is the union of the sources; of two static pods of one name, that of
// the source that comes first in the alphabet. One of the apiserver waits until
// a static pod of its name has gone: it never takes its place.
func (a *pods) desired() []want {
	names := slices.Sorted(maps.Keys(a.wanted))
	n := 0
	for _, source := range names {
		n += len(a.wanted[source].Pods)
	}
	out := make([]want, 0, n)
	have := map[string]bool{}
	for _, source := range names {
		for _, p := range a.wanted[source].Pods {
			if source != podspec.API {
				full := p.Namespace + "/" + p.Name
				if have[full] {
					continue
				}
				have[full] = true
			}
			out = append(out, want{p, source})
		}
	}
	return out
}

// ready says whether it is known what runs, what was written down before this agent
// and what gc is removing: before, there are no records of pods.
func (a *pods) ready() bool {
	return a.listed && !a.collecting && a.given.loading == 0 && a.stops.loading == 0
}

func (a *pods) allSeen() bool { return len(a.unseen()) == 0 }

func (a *pods) unseen() []string {
	var out []string
	for _, s := range a.deps.Sources {
		if !a.wanted[s].Seen {
			out = append(out, string(s))
		}
	}
	return out
}

// stopUnwanted ends pods whose source does not want them any more.
func (a *pods) stopUnwanted(ctx *kernel.Context[Message]) {
	for _, r := range a.ranked {
		if r.state == finished && a.returns(r) {
			a.comeBack(ctx, r)
			continue
		}
		if r.source != podspec.Orphan && (r.wanted == a.rounds || !a.wanted[r.source].Seen) {
			continue
		}
		uid := r.pod.UID
		r.again = nil // it is not wanted again, after all
		switch r.state {
		case waiting, rejected:
			if r.look {
				a.endAgain(uid, r)
			} else if r.source != podspec.Orphan {
				a.drop(uid)
				a.forget(uid)
			}
		case running:
			if r.source == podspec.API {
				a.force(ctx, uid, r)
			} else if r.stop == nil {
				a.endUnwanted(ctx, r)
			}
		case finished:
			r.state = collecting
			a.collect(uid, r)
		case collecting:
		}
	}
}

// stopUnknown ends what the runtime has of pods that nobody knows. While a
// source is silent they may be its; but of two pods of one name only one may run.
func (a *pods) stopUnknown(ctx *kernel.Context[Message], wanted []want) {
	if len(a.runtime) == 0 {
		return
	}
	want, names := map[types.UID]bool{}, map[string]bool{}
	for _, w := range wanted {
		want[w.pod.UID] = true
		names[w.pod.Namespace+"/"+w.pod.Name] = true
	}
	all := a.allSeen()
	var unknown []types.UID
	for uid, rp := range a.runtime { // order-free: sorted below
		if a.of[uid] == nil && !want[uid] && !a.stuck[uid] && (all || names[rp.Ref.String()]) {
			unknown = append(unknown, uid)
		}
	}
	slices.Sort(unknown)
	for _, uid := range unknown {
		p := reconstruct(a.runtime[uid])
		ctx.Log().Info().Str("pod", p.Namespace+"/"+p.Name).Str("uid", string(uid)).Msg("orphaned pod found in the runtime: no source has it; stopping it")
		r := &record{
			pod: p, source: podspec.Orphan, unwanted: true, stopWritten: true,
			stop: &podlife.Stop{At: ctx.Now(), Grace: podspec.Grace(p), Why: notWanted},
		}
		a.recallStop(r)
		a.put(r)
	}
}

// begin admits a pod and gives it an actor.
func (a *pods) begin(ctx *kernel.Context[Message], r *record) {
	if r.source != podspec.Orphan && !a.admitted(ctx, r) {
		return
	}
	r.view = &observed.Pod{}
	if rp, ok := a.runtime[r.pod.UID]; ok {
		r.view, r.found = &rp.Pod, true
	}
	if r.look {
		r.view = nil
	}
	policy := a.deps.PodPolicy
	if policy == (kernel.Policy{}) {
		policy = kernel.ForPods
	}
	construct := pod.New(r.pod.UID, a.deps.Pod)
	if a.deps.Wrap != nil {
		construct = a.deps.Wrap(r.pod, construct)
	}
	ref, err := kernel.Spawn(ctx, kernel.Spec[pod.Message]{Name: string(r.pod.UID), Kind: "pod", Label: r.name(), New: construct, Policy: policy})
	if err != nil {
		return // the name is taken by one that is still stopping: ChildStopped comes
	}
	delete(a.runtime, r.pod.UID)
	r.ref, r.state = ref, running
	a.assign(r.pod.UID)
}

// admitted says whether a pod may begin now.
func (a *pods) admitted(ctx *kernel.Context[Message], r *record) bool {
	if ends(r) || r.unwanted {
		return true // its actor only takes down what there may be
	}
	if r.source == podspec.API && a.node == nil {
		if !a.runs(r) {
			return false // what it was scheduled by is not known yet
		}
		r.unasked = true
	}
	var others []*v1.Pod
	for _, o := range a.ranked {
		if o == r || o.state == rejected || o.state == collecting {
			continue
		}
		if o.pod.Name == r.pod.Name && o.pod.Namespace == r.pod.Namespace && (o.state != waiting || o.source == podspec.Orphan) {
			return false // its predecessor of the same name has to end first
		}
		if o.state == running {
			others = append(others, o.holds())
		}
	}
	if r.unasked || a.allowed(ctx, r, others) {
		return true
	}
	if _, runs := a.runtime[r.pod.UID]; runs {
		r.expel(ctx.Now())
		return true
	}
	r.state = rejected
	a.rejected(ctx, r)
	return false
}

// assign tells a pod's actor what it is for.
func (a *pods) assign(uid types.UID) {
	r := a.of[uid]
	if r == nil {
		return
	}
	stop := r.stop
	if r.unwanted && !r.stopWritten {
		stop = nil
	}
	r.ref.Tell(pod.Assign{
		Pod: r.allocated(), Origin: r.source, Rank: r.rank, Stop: stop, View: r.view, Status: cmp.Or(r.report.Status, r.before), Resized: r.resized(),
		FirstSandbox: r.first, RestartNotes: r.restarts,
	})
	r.view = nil // true once; a later incarnation has to look
}

// seen hands a list on, or keeps it for a pod that has no actor yet.
func (a *pods) seen(ctx *kernel.Context[Message], m pleg.Seen) {
	if r := a.of[m.Ref.UID]; r != nil && r.acts() {
		r.ref.Tell(pod.RuntimeSeen{View: m.View, Listed: m.Listed})
		return
	}
	if len(m.View.Sandboxes)+len(m.View.Containers) == 0 {
		delete(a.runtime, m.Ref.UID)
		return
	}
	a.runtime[m.Ref.UID] = observed.RuntimePod{Ref: m.Ref, Pod: m.View}
	a.reconcile(ctx)
}

func (a *pods) collected(ctx *kernel.Context[Message], uid types.UID, stuck bool) {
	r := a.of[uid]
	if r == nil || r.state != collecting {
		return
	}
	if stuck {
		a.stuck[uid] = true
	}
	kernel.StopChild(ctx, r.ref)
	delete(a.runtime, uid)
	if a.returns(r) {
		a.comeBack(ctx, r)
	} else {
		a.deps.ForgetImages(uid)
		a.drop(uid)
		a.forget(uid)
	}
	a.reconcile(ctx)
}

func (a *pods) crashed(c *kernel.CrashReport) {
	name := c.Path[strings.LastIndexByte(c.Path, '/')+1:]
	if r := a.of[types.UID(name)]; r != nil {
		r.crash = c
	}
}

func (r *record) name() string { return r.pod.Namespace + "/" + r.pod.Name }

// orphanGrace is how long an orphan may have at the most: the graces that its
// containers were made with are in the runtime, and end it sooner.
const orphanGrace = 24 * time.Hour

// reconstruct makes a pod of what the runtime knows of it: enough to stop it, as an
// orphan.
func reconstruct(rp observed.RuntimePod) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: rp.Ref.UID, Namespace: rp.Ref.Namespace, Name: rp.Ref.Name}}
	seen := map[string]bool{}
	for i := range rp.Containers {
		c := &rp.Containers[i]
		if !seen[c.Name] {
			seen[c.Name] = true
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	grace := int64(orphanGrace / time.Second)
	p.Spec.TerminationGracePeriodSeconds = &grace
	for i := range rp.Sandboxes {
		p.Spec.HostNetwork = p.Spec.HostNetwork || rp.Sandboxes[i].HostNetwork
	}
	return p
}

// problem is what is wrong with a pod's actor, for people.
func (r *record) problem() string {
	if r.crash == nil {
		return ""
	}
	what := "restarted"
	if r.crash.Decision == kernel.Quarantine {
		what = "quarantined"
	}
	return fmt.Sprintf("its actor is %s after %d crashes, next attempt in %v: %s", what, r.crash.Crashes, r.crash.RetryAfter, r.crash.Reason)
}
