package volumeplan

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

var (
	t0     = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	policy = backoff.Policy{Base: time.Second, Max: 8 * time.Second}
)

// call is a call of the host that is under way. old: an earlier incarnation of the actor has made it.
type call struct {
	op      Op
	volume  string
	version uint64
	old     bool
}

// tester is a test, or one of a property.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// stateWorld plays the actor, its pod, the host and csi.
type stateWorld struct {
	tester
	p    Pod
	env  Env
	now  time.Time
	next Call
	// calls are under way; asked is what csi was asked for.
	calls map[Call]call
	asked map[string]bool
	// version is that of the content that the pod wants; goes: it wants to be taken down; knows is what it was told.
	version uint64
	goes    bool
	knows   smallmap.Map[string, string]
	told    Volumes
	// mounted is what the host has, released: csi was asked to release all, gone: the pod is unmounted.
	mounted         map[string]bool
	released, gone  bool
	again           time.Time
	mounts, refused int
}

func newStateWorld(t tester) *stateWorld {
	return &stateWorld{
		tester: t, now: t0, env: Env{CSI: true, Taken: func(string) bool { return false }}, calls: map[Call]call{},
		asked: map[string]bool{}, mounted: map[string]bool{}, version: 1,
	}
}

func inZone(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": name}}}
}

// plan has a volume of each kind: the host's, one with content, one that may be in zone a only, one of csi.
func (w *stateWorld) plan() []Mount {
	pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}},
		}}},
	}}}}
	return []Mount{
		{Name: "plain"}, {Name: "content", Version: w.version}, {Name: "placed", Persistent: pv},
		{Name: "csi", CSI: &csi.Spec{}},
	}
}

// want is what the pod sends; after a restart of the actor as well.
func (w *stateWorld) want() {
	if w.gone {
		return
	}
	if w.goes {
		first := w.p.TakeDown(w.env.CSI)
		w.giveUp(first)
		w.released = w.p.Phase == Releasing
		w.drive()
		return
	}
	w.p.Replan(w.plan())
	w.p.Want(&v1.Pod{}, false, w.knows)
	w.drive()
}

// giveUp drops those calls that the kernel has not begun: each second one.
func (w *stateWorld) giveUp(first bool) {
	coming, dropped := map[Call]bool{}, map[Call]bool{}
	for id, c := range w.calls {
		switch {
		case c.op == UnmountPod:
		case first && id%2 == 0:
			dropped[id] = true
			delete(w.calls, id)
		default:
			coming[id] = true
		}
	}
	w.p.GiveUp(coming, dropped)
}

// drive does what the actor does after a message.
func (w *stateWorld) drive() {
	if w.gone {
		return
	}
	w.again = time.Time{}
	later := func(at time.Time) {
		if !at.IsZero() && (w.again.IsZero() || at.Before(w.again)) {
			w.again = at
		}
	}
	op, at := w.p.Next(w.now)
	later(at)
	if op != Nothing {
		w.begin(op, nil)
	}
	for _, a := range w.p.AskCSI(&w.env) {
		w.asked[a.Name] = true
	}
	for i := range w.p.Volumes {
		v := &w.p.Volumes[i]
		op, at, why := w.p.NextOf(v, w.now, &w.env)
		switch op {
		case MountVolume:
			w.begin(op, v)
		case Refuse:
			w.refused++
			_, at = w.p.Fail(v, Cause{Err: why, Text: why.Error()}, w.now, policy)
		case Nothing, PreparePod, UnmountPod:
		}
		later(at)
	}
	if v, news := w.p.Tell(); news {
		w.told, w.knows = v, w.p.Paths()
	}
	w.holds()
}

func (w *stateWorld) begin(op Op, v *Volume) {
	w.next++
	c := call{op: op}
	if v != nil {
		c.volume, c.version = v.Name, v.Version
	}
	for _, other := range w.calls {
		if !other.old && other.volume == c.volume && other.op == op {
			w.Fatalf("two calls at once: %v", c)
		}
		if op == UnmountPod && other.op != UnmountPod {
			w.Fatalf("the pod is unmounted during %v", other)
		}
	}
	if op == MountVolume && w.goes || op == PreparePod && w.goes {
		w.Fatalf("%v begins after the pod began to go down", c)
	}
	if op == MountVolume {
		w.mounts++
	}
	w.p.Begin(v, w.next)
	w.calls[w.next] = c
}

// end ends a call. It may have worked although it fails.
func (w *stateWorld) end(id Call, works bool) {
	c := w.calls[id]
	delete(w.calls, id)
	if works && c.op == MountVolume {
		w.mounted[c.volume] = true
	}
	v := w.p.Named(c.volume)
	switch current := w.p.Ended(v, id); {
	case !current:
	case !works && (!w.p.Down() || c.op == UnmountPod):
		w.p.Fail(v, Cause{Text: "no"}, w.now, policy)
	case !works:
	case c.op == PreparePod:
		w.p.Prepared()
	case c.op == MountVolume:
		w.p.Mounted(v, "/"+v.Name, c.version)
	case c.op == UnmountPod:
		clear(w.mounted)
		w.gone = true
		return
	}
	w.drive()
}

// publish is what csi says of what it was asked for.
func (w *stateWorld) publish(works bool) {
	v := w.p.Named("csi")
	switch {
	case w.gone:
		return
	case w.released && !works:
		w.p.CSIFailed(nil, "no", w.now, policy)
	case w.released:
		w.mounted["csi"] = false
		w.p.Released()
	case w.p.Down() || v == nil || !w.asked["csi"]:
		return
	case works:
		w.mounted["csi"] = true
		w.p.Published(v, "/csi")
	default:
		w.p.CSIFailed(v, "no", w.now, policy)
	}
	w.drive()
}

// crash is a new incarnation of the actor. The calls of the last one go on.
func (w *stateWorld) crash() {
	if w.gone {
		return
	}
	w.p = Pod{}
	for id, c := range w.calls {
		c.old = true
		w.calls[id] = c
	}
	w.want()
}

// holds checks what always holds.
func (w *stateWorld) holds() {
	w.Helper()
	p, left, listed := &w.p, 0, 0
	for i := range p.Volumes {
		v := &p.Volumes[i]
		if !v.State.There() {
			left++
		}
		if v.failure != nil {
			listed++
		}
		if v.State.There() != (v.path > 0) || v.State.Calls() != (v.call != 0) {
			w.Fatalf("%s is %v, with path %d and call %d", v.Name, v.State, v.path, v.call)
		}
		if v.State == VolumeFailed && v.failure == nil || v.State == VolumeWaiting && v.failure != nil {
			w.Fatalf("%s is %v, with failure %v", v.Name, v.State, v.failure)
		}
		if p.Brings() && w.knows.Has(v.Name) && !v.State.There() {
			w.Fatalf("%s was up, and is %v", v.Name, v.State)
		}
		if p.Brings() && v.State == VolumeFailed && w.again.IsZero() && !unknown(p.obstacle(v, &w.env)) {
			w.Fatalf("%s has failed, and is never tried again", v.Name)
		}
		if v.State.There() && !w.mounted[v.Name] && !w.goes {
			w.Fatalf("%s is %v, and is not mounted", v.Name, v.State)
		}
	}
	if p.failure != nil {
		listed++
	}
	for i, f := range p.failures {
		if f.place != i {
			w.Fatalf("failure %d counts as %d", i, f.place)
		}
	}
	if p.left != left || len(p.failures) != listed || p.Brings() && (p.Phase == Complete) != (left == 0) {
		w.Fatalf("%v with %d of %d not there, %d of %d failures", p.Phase, p.left, left, len(p.failures), listed)
	}
}

// pending are the calls under way, oldest first.
func (w *stateWorld) pending() []Call { return slices.Sorted(maps.Keys(w.calls)) }

// settle has all go well until the pod is up, or gone.
func (w *stateWorld) settle() {
	w.Helper()
	w.env.Node = inZone("a")
	for range 40 {
		if w.p.Moved(nil, w.env.Node) {
			w.drive()
		}
		for _, id := range w.pending() {
			if _, goes := w.calls[id]; goes {
				w.end(id, true)
			}
		}
		w.publish(true)
		if w.gone || !w.goes && w.told.State == Up && len(w.calls) == 0 {
			return
		}
		w.now = w.now.Add(policy.Max)
		w.drive()
	}
	w.Fatalf("it does not end: %v, %+v, calls %v, told %+v", w.p.Phase, w.p.Volumes, w.calls, w.told)
}
