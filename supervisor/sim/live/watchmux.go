package live

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// watchMux makes the watches of all nodes of the process: of their pods and of their own objects. For
// a thousand nodes that would be two thousand open requests; here the watches that start at about
// the same time share one request.
//
//	node ──Watch──► gathering ──a moment later──► stream ──► one watch of all nodes' objects,
//	                    ▲                           │        told apart by the node's name
//	                    └── too many streams ───────┘
//
// The first report of a watch is no older than the call, as port.API requires, because the
// request starts after all calls that share it. When streams are merged, only the new request
// reports from its start on, so that no object goes back in time.
type watchMux struct {
	api   port.API
	ctx   context.Context
	close context.CancelFunc

	mu        sync.Mutex
	gathering map[port.APIKind][]*follower
	streams   []*stream
	// running counts streams that were not closed yet.
	running sync.WaitGroup
}

const (
	// gatherFor is how long a watch waits for others like it.
	gatherFor = 50 * time.Millisecond
	// few is how many are worth a request each, which tells of nothing else.
	few = 3
	// manyStreams is how many requests of one kind there may be.
	manyStreams = 12
)

// follower is one watch of a node.
type follower struct {
	sel  port.Selection
	node string

	// mu makes the changes come one at a time.
	mu     sync.Mutex
	change func(port.APIChange)
	// stream is the one that counts, nil between two.
	stream *stream
	ended  bool
}

// stream is one request that does not end.
type stream struct {
	kind port.APIKind
	stop context.CancelFunc
	// followers by node; guarded by the watchMux's mu.
	followers map[string][]*follower
}

func newWatchMux(api port.API) *watchMux {
	h := &watchMux{api: api, gathering: map[port.APIKind][]*follower{}}
	h.ctx, h.close = context.WithCancel(context.Background())
	return h
}

// Close ends all streams and waits until they have ended. A watcher ends
// its own watches before.
func (h *watchMux) Close() {
	h.mu.Lock()
	h.close()
	h.mu.Unlock()
	h.running.Wait()
}

// watch is port.API's Watch for what node watches of itself.
func (h *watchMux) watch(
	ctx context.Context, node string, sel port.Selection, change func(port.APIChange), done func(error),
) {
	f := &follower{sel: sel, node: node, change: change}
	h.mu.Lock()
	first := len(h.gathering[sel.Kind]) == 0
	h.gathering[sel.Kind] = append(h.gathering[sel.Kind], f)
	h.mu.Unlock()
	if first {
		time.AfterFunc(gatherFor, func() { h.gathered(sel.Kind) })
	}
	context.AfterFunc(ctx, func() {
		h.leave(f)
		done(&port.Error{Kind: port.Canceled, Verb: "watch", Object: sel.String(), Detail: "the caller gave up"})
	})
}

// gathered opens the streams of those that have waited.
func (h *watchMux) gathered(kind port.APIKind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	batch := h.gathering[kind]
	delete(h.gathering, kind)
	var same []*stream
	for _, s := range h.streams {
		if s.kind == kind {
			same = append(same, s)
		}
	}
	if len(same) >= manyStreams {
		for _, s := range same {
			batch = append(batch, h.detachLocked(s)...)
		}
	}
	if len(batch) > few {
		h.openLocked(allNodes(kind), batch)
		return
	}
	for _, f := range batch {
		h.openLocked(f.sel, []*follower{f})
	}
}

// allNodes selects what any node might watch of itself.
func allNodes(kind port.APIKind) port.Selection {
	if kind == port.PodKind {
		return port.Selection{Kind: kind, Field: "spec.nodeName!="}
	}
	return port.Selection{Kind: kind}
}

// detachLocked takes the followers off a stream, which ends.
func (h *watchMux) detachLocked(s *stream) (all []*follower) {
	for _, name := range slices.Sorted(maps.Keys(s.followers)) {
		for _, f := range s.followers[name] {
			f.attach(nil)
			all = append(all, f)
		}
	}
	h.endLocked(s)
	return all
}

func (h *watchMux) endLocked(s *stream) {
	s.followers = nil
	s.stop()
	h.streams = slices.DeleteFunc(h.streams, func(o *stream) bool { return o == s })
}

func (h *watchMux) openLocked(sel port.Selection, batch []*follower) {
	if h.ctx.Err() != nil {
		return
	}
	s := &stream{kind: sel.Kind, followers: map[string][]*follower{}}
	for _, f := range batch {
		if f.attach(s) {
			s.followers[f.node] = append(s.followers[f.node], f)
		}
	}
	if len(s.followers) == 0 {
		return
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(h.ctx)
	h.streams = append(h.streams, s)
	h.running.Add(1)
	h.api.Watch(ctx, sel, func(c port.APIChange) { h.told(s, c) }, func(error) { h.running.Done() })
}

// attach makes s the stream that counts; false if the watch has ended.
func (f *follower) attach(s *stream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stream = s
	return !f.ended
}

func (f *follower) tell(s *stream, c port.APIChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stream == s && !f.ended {
		f.change(c)
	}
}

// leave ends a watch.
func (h *watchMux) leave(f *follower) {
	f.mu.Lock()
	f.ended = true
	s := f.stream
	f.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	is := func(o *follower) bool { return o == f }
	h.gathering[f.sel.Kind] = slices.DeleteFunc(h.gathering[f.sel.Kind], is)
	if s == nil || s.followers == nil {
		return
	}
	if rest := slices.DeleteFunc(s.followers[f.node], is); len(rest) > 0 {
		s.followers[f.node] = rest
		return
	}
	if delete(s.followers, f.node); len(s.followers) == 0 {
		h.endLocked(s)
	}
}

// told hands a change to those whom it concerns.
func (h *watchMux) told(s *stream, c port.APIChange) {
	switch c := c.(type) {
	case port.APIReplaced:
		of := map[string][]port.APIObject{}
		for _, o := range c.Objects {
			dropManagedFields(o)
			of[nodeOf(o)] = append(of[nodeOf(o)], o)
		}
		for node, all := range h.followers(s) { // order-free: each is told of its own
			for _, f := range all {
				f.tell(s, port.APIReplaced{Objects: of[node]})
			}
		}
	case port.APISet:
		dropManagedFields(c.Object)
		h.tell(s, nodeOf(c.Object), c)
	case port.APIDeleted:
		h.tell(s, nodeOf(c.Object), c)
	case port.APIBroken:
		for _, all := range h.followers(s) { // order-free: each is told the same
			for _, f := range all {
				f.tell(s, c)
			}
		}
	}
}

func (h *watchMux) tell(s *stream, node string, c port.APIChange) {
	h.mu.Lock()
	all := slices.Clone(s.followers[node])
	h.mu.Unlock()
	for _, f := range all {
		f.tell(s, c)
	}
}

func (h *watchMux) followers(s *stream) map[string][]*follower {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[string][]*follower, len(s.followers))
	for node, all := range s.followers { // order-free: a map again
		out[node] = slices.Clone(all)
	}
	return out
}

// dropManagedFields removes fields that no node reads from an object that is not shared yet: who
// wrote which field is as much as the rest of a pod.
func dropManagedFields(o port.APIObject) { o.SetManagedFields(nil) }

// nodeOf is the node that an object belongs to.
func nodeOf(o port.APIObject) string {
	if p, is := o.(*v1.Pod); is {
		return p.Spec.NodeName
	}
	return o.GetName()
}
