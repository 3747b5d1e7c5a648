package timeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// Config bounds the memory of a Recorder.
type Config struct {
	// Node is the name of the node's topmost actor.
	Node string
	// Entries is how many a pod has, Bytes what all pods together take, roughly.
	Entries, Bytes int
	// Ended is how many pods are kept that have ended, Pods how many in all.
	Ended, Pods int
}

// Default are the bounds of a node: 100 pods in full take 2 MiB.
func Default(node string) Config {
	return Config{Node: node, Entries: 96, Bytes: 6 << 20, Ended: 100, Pods: 2000}
}

// Validate says what is wrong.
func (c Config) Validate() error {
	if c.Node == "" {
		return errors.New("timeline: Node is required")
	}
	if c.Entries < leastEntries || c.Bytes <= 0 || c.Ended < 0 || c.Pods < 1 {
		return fmt.Errorf("timeline: %+v: Entries must be at least %d, Bytes and Pods positive, Ended not negative", c,
			leastEntries)
	}
	return nil
}

const (
	leastEntries = firstKept + 2*dropAtOnce
	// flyingLimit bounds the running calls that are tracked.
	flyingLimit = 16384
)

// Recorder is the kernel's Tracer, and receives events for users. All methods are safe for
// concurrent use, and wait only for each other.
type Recorder struct {
	c    Config
	pods string // the path of all pods' actors, with a / behind it

	mu        sync.Mutex
	timelines map[types.UID]*podTimeline
	// ended are the timelines of ended pods, in that order.
	ended []*podTimeline
	// images has the pods that wait for an image. flying are the running calls, by ID, with their
	// timelines.
	images map[string][]*podTimeline
	flying map[kernel.EffectID][]*podTimeline
	// limit is how many entries a timeline may have now, bytes what all take.
	limit, bytes int
	letters      letters
}

// New makes an empty recorder.
func New(c Config) (*Recorder, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Recorder{
		c: c, pods: c.Node + "/pods/", limit: c.Entries,
		timelines: map[types.UID]*podTimeline{}, images: map[string][]*podTimeline{},
		flying: map[kernel.EffectID][]*podTimeline{},
	}, nil
}

var _ kernel.Tracer = (*Recorder)(nil)

// uidOf is the pod whose actor has this place in the tree, empty if it is none.
func (r *Recorder) uidOf(path string) types.UID {
	if len(path) <= len(r.pods) || path[:len(r.pods)] != r.pods || strings.IndexByte(path[len(r.pods):], '/') >= 0 {
		return ""
	}
	return types.UID(path[len(r.pods):])
}

// Effect implements kernel.Tracer.
func (r *Recorder) Effect(at time.Time, path string, phase kernel.EffectPhase, e kernel.EffectInfo) {
	if e.Standing {
		return
	}
	now := at.UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	if phase == kernel.EffectQueued {
		r.begin(now, path, &e)
		return
	}
	for _, s := range r.flying[e.ID] {
		if i := s.call(e.ID); i >= 0 {
			c := &s.entries[i]
			s.touched = max(s.touched, now)
			c.phase = phase
			switch phase {
			case kernel.EffectStarted:
				c.waited, c.waitedFor = now-c.at, e.WaitedFor
			case kernel.EffectExpired:
				c.took, c.bad = now-c.at-c.waited, true
			default:
				c.took = now - c.at - c.waited
			}
		}
	}
	if phase == kernel.EffectLate || phase == kernel.EffectDropped {
		delete(r.flying, e.ID)
	}
}

// begin notes a call in the timelines that it is about.
func (r *Recorder) begin(now int64, path string, e *kernel.EffectInfo) {
	var of []*podTimeline
	n := entry{at: now, id: e.ID, kind: Call, phase: e.Phase, what: e.Kind, object: shorten(e.Object)}
	if uid := r.uidOf(path); uid != "" {
		of = []*podTimeline{r.podTimeline(uid)}
	} else {
		n.by = path[strings.LastIndexByte(path, '/')+1:]
		if e.For != "" {
			of = []*podTimeline{r.podTimeline(types.UID(e.For))}
		} else {
			of = slices.Clone(r.images[e.Object])
		}
	}
	if len(of) == 0 {
		return
	}
	if n.by == probing {
		which, _, _ := strings.Cut(e.Lane, "/") // which of the three it is
		n.text = strings.ToLower(which)
	}
	if len(r.flying) >= flyingLimit {
		clear(r.flying) // how those ended is not told
	}
	r.flying[e.ID] = of
	for _, s := range of {
		r.add(s, n)
	}
}

// Deliver implements kernel.Tracer.
func (r *Recorder) Deliver(at time.Time, path, name string, msg any) {
	now := at.UnixNano()
	if o, is := msg.(kernel.Outcome); is {
		id, err := o.Outcome()
		r.mu.Lock()
		r.outcome(id, err)
		r.mu.Unlock()
		return
	}
	uid := r.uidOf(path)
	if uid == "" {
		r.overheard(now, msg)
		return
	}
	text, bad := describe(msg)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.podTimeline(uid)
	r.learn(s, msg)
	r.add(s, entry{at: now, kind: Message, what: name, text: shorten(text), bad: bad})
}

// outcome completes the entries of a call that has ended.
func (r *Recorder) outcome(id kernel.EffectID, err error) {
	of, is := r.flying[id]
	if !is {
		return // late, or of before this agent's memory
	}
	for _, s := range of {
		i := s.call(id)
		if i < 0 {
			continue
		}
		before := s.bytes
		if err != nil {
			s.entries[i].bad = true
			s.say(i, shorten(joined(s.entries[i].text, err.Error())))
		}
		if s.entries[i].over() {
			s.settle(i)
		}
		r.bytes += s.bytes - before
	}
	// One that expired may be late yet.
	if len(of) > 0 {
		if i := of[0].call(id); i < 0 || of[0].entries[i].phase != kernel.EffectExpired {
			delete(r.flying, id)
		}
	}
}

// Crash implements kernel.Tracer.
func (r *Recorder) Crash(at time.Time, path string, report *kernel.CrashReport) {
	uid := r.uidOf(path)
	if uid == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("%s: %v", report.Reason, report.Decision)
	if report.RetryAfter > 0 {
		text += fmt.Sprintf(", next try in %v", report.RetryAfter.Round(time.Millisecond))
	}
	r.add(r.podTimeline(uid),
		entry{at: at.UnixNano(), kind: Crash, what: "panic", object: report.Message, text: shorten(text), bad: true})
}

// DeadLetter implements kernel.Tracer.
func (r *Recorder) DeadLetter(at time.Time, path, name string) {
	n := Letter{At: at, From: sender(), To: path, Type: name}
	r.mu.Lock()
	r.letters.add(n)
	r.mu.Unlock()
}

// Record implements port.Recorder.
func (r *Recorder) Record(e port.Event) {
	if e.Pod == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.podTimeline(e.Pod.UID)
	s.namespace, s.name = e.Pod.Namespace, e.Pod.Name
	r.add(s, entry{at: e.At.UnixNano(), kind: Event, what: e.Reason, object: e.Container,
		text: shorten(e.Message), bad: e.Warning})
}

// Events is a port.Recorder that records in this one and then in the next.
func (r *Recorder) Events(next port.Recorder) port.Recorder { return tee{r, next} }

type tee struct {
	recorder *Recorder
	next     port.Recorder
}

// Record implements port.Recorder.
func (t tee) Record(e port.Event) {
	t.recorder.Record(e)
	t.next.Record(e)
}

// podTimeline is that of a pod, begun if there is none.
func (r *Recorder) podTimeline(uid types.UID) *podTimeline {
	s := r.timelines[uid]
	if s == nil {
		if len(r.timelines) >= r.c.Pods {
			r.forget(r.oldest())
		}
		s = &podTimeline{uid: uid}
		r.timelines[uid] = s
	}
	return s
}

// add appends to a timeline, and makes room.
func (r *Recorder) add(s *podTimeline, e entry) {
	before := s.bytes
	s.add(e, r.limit)
	r.bytes += s.bytes - before
	for r.bytes > r.c.Bytes {
		switch {
		case len(r.ended) > 0:
			r.forget(r.ended[0])
		case r.limit > leastEntries:
			r.narrow()
		case len(r.timelines) > 1:
			r.forget(r.oldest())
		default:
			return
		}
	}
}

// narrow leaves every timeline fewer entries.
func (r *Recorder) narrow() {
	r.limit = max(leastEntries, r.limit*3/4)
	for _, s := range r.timelines { // order-free: each for itself
		before := s.bytes
		s.shrink(r.limit)
		r.bytes += s.bytes - before
	}
}

// oldest is the timeline that has gone on least lately: there is one.
func (r *Recorder) oldest() *podTimeline {
	var o *podTimeline
	for _, s := range r.timelines { // order-free: a minimum
		if o == nil || s.touched < o.touched || s.touched == o.touched && s.uid < o.uid {
			o = s
		}
	}
	return o
}

func (r *Recorder) forget(s *podTimeline) {
	delete(r.timelines, s.uid)
	r.bytes -= s.bytes
	r.ended = slices.DeleteFunc(r.ended, func(o *podTimeline) bool { return o == s })
	r.unwait(s)
	for id, of := range r.flying { // order-free: a removal
		if slices.Contains(of, s) {
			r.flying[id] = slices.DeleteFunc(slices.Clone(of), func(o *podTimeline) bool { return o == s })
		}
	}
	if r.bytes < r.c.Bytes/2 {
		r.limit = min(r.c.Entries, r.limit*2)
	}
}

// end marks the timeline of a pod as ended: nothing of the pod is left.
func (r *Recorder) end(uid types.UID, now int64) {
	s := r.timelines[uid]
	if s == nil || s.ended != 0 {
		return
	}
	s.ended = now
	r.unwait(s)
	if r.ended = append(r.ended, s); len(r.ended) > r.c.Ended {
		r.forget(r.ended[0])
	}
}

// wait notes that a pod waits for an image.
func (r *Recorder) wait(s *podTimeline, image string) {
	if of := r.images[image]; !slices.Contains(of, s) {
		r.images[image] = append(of, s)
	}
}

// unwait notes that it waits for no image any more.
func (r *Recorder) unwait(s *podTimeline) {
	for image := range r.images { // order-free: a removal
		r.unwaitFor(s, image)
	}
}

func (r *Recorder) unwaitFor(s *podTimeline, image string) {
	of := slices.DeleteFunc(slices.Clone(r.images[image]), func(o *podTimeline) bool { return o == s })
	if len(of) == 0 {
		delete(r.images, image)
		return
	}
	r.images[image] = of
}

// Letters are the newest dead letters, oldest first.
func (r *Recorder) Letters() []Letter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.letters.kept)
}

// UnknownError means that a pod has no timeline, AmbiguousError that several pods have its name.
type (
	UnknownError   struct{ Pod string }
	AmbiguousError struct {
		Pod  string
		Pods []string // namespace/name, in order
	}
)

func (e *UnknownError) Error() string {
	return fmt.Sprintf("pod %q not found on this node: see `troupe pods`; only the most recently terminated pods are kept",
		e.Pod)
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("pod %q is ambiguous: give one of %s", e.Pod, strings.Join(e.Pods, ", "))
}

// Story finds a pod by namespace/name, name or UID. Of pods that had the same
// name one after the other it is the newest. The error is *UnknownError or
// *AmbiguousError.
func (r *Recorder) Story(pod string) (View, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.timelines[types.UID(pod)]; s != nil && pod != "" {
		return s.view(), nil
	}
	namespace, name, full := strings.Cut(pod, "/")
	if !full {
		namespace, name = "", pod
	}
	var found []*podTimeline
	for _, s := range r.timelines { // order-free: sorted below
		if s.name != "" && s.name == name && (!full || s.namespace == namespace) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return View{}, &UnknownError{pod}
	}
	slices.SortFunc(found, func(a, b *podTimeline) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(b.begun(), a.begun()), cmp.Compare(a.uid, b.uid))
	})
	var names []string
	for _, s := range found {
		names = append(names, s.namespace+"/"+s.name)
	}
	if names = slices.Compact(names); len(names) > 1 {
		return View{}, &AmbiguousError{pod, names}
	}
	return found[0].view(), nil
}

// Listed is a pod that has a timeline.
type Listed struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	UID       types.UID  `json:"uid"`
	Ended     *time.Time `json:"ended,omitempty"`
}

// List are the pods that have ended and are remembered, the last one first.
func (r *Recorder) List() []Listed {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Listed, 0, len(r.ended))
	for i := len(r.ended) - 1; i >= 0; i-- {
		s := r.ended[i]
		at := time.Unix(0, s.ended)
		out = append(out, Listed{s.namespace, s.name, s.uid, &at})
	}
	return out
}

// begun is when the first entry came.
func (s *podTimeline) begun() int64 {
	if len(s.entries) == 0 {
		return s.touched
	}
	return s.entries[0].at
}
