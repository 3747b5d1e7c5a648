package live

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
)

// nodeAPI is the apiserver as one node of the process has it: its watches are the
// watchMux's, its writes pass the writeLimit, and what its pods name of other objects is made
// up. It implements port.API.
type nodeAPI struct {
	port.API
	node    string
	watches *watchMux
	limit   *writeLimit
	stats   *podStats

	mu sync.Mutex
	// writes is how many are under way; idle, if not nil, is closed at none.
	writes int
	idle   chan struct{}
	// pods are those that the agent was told of last.
	pods map[types.UID]*v1.Pod
	// begun are the watches that began before the agent did, by kind; see head.
	begun map[port.APIKind]*head
}

// head is a watch that was begun for an agent before the agent was: what it tells
// first, the runtime has to know before the agent looks at it. The agent's own
// first watch of that kind continues with it: it missed nothing of it, and its list
// is no older than the agent.
type head struct {
	stop context.CancelFunc

	mu     sync.Mutex
	first  chan struct{} // closed once there is a list
	listed bool
	early  []port.APIChange
	change func(port.APIChange) // nil until an agent follows
}

// begin begins the watch of a kind.
func (a *nodeAPI) begin(ctx context.Context, sel port.Selection) *head {
	ctx, stop := context.WithCancel(ctx)
	k := &head{stop: stop, first: make(chan struct{})}
	a.mu.Lock()
	a.begun[sel.Kind] = k
	a.mu.Unlock()
	a.watches.watch(ctx, a.node, sel, k.told, func(error) {})
	return k
}

func (k *head) told(c port.APIChange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.change != nil {
		k.change(c)
		return
	}
	k.early = append(k.early, c)
	if _, list := c.(port.APIReplaced); list && !k.listed {
		k.listed = true
		close(k.first)
	}
}

// objects is what the first list has.
func (k *head) objects() []port.APIObject {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.early {
		if list, is := c.(port.APIReplaced); is {
			return list.Objects
		}
	}
	return nil
}

// follow hands the watch on, from its beginning.
func (k *head) follow(ctx context.Context, change func(port.APIChange), done func(error)) {
	context.AfterFunc(ctx, func() {
		k.stop()
		k.mu.Lock()
		k.change = func(port.APIChange) {}
		k.mu.Unlock()
		done(ctx.Err())
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	for _, c := range k.early {
		change(c)
	}
	k.change, k.early = change, nil
}

// Watch implements port.API.
func (a *nodeAPI) Watch(ctx context.Context, sel port.Selection, change func(port.APIChange), done func(error)) {
	own, shared := a.own(sel)
	if !shared {
		a.API.Watch(ctx, sel, change, done)
		return
	}
	if own.Kind == port.PodKind {
		inner := change
		change = func(c port.APIChange) {
			a.stats.told(a.node, c, time.Now())
			a.told(c)
			inner(c)
		}
	}
	a.mu.Lock()
	k := a.begun[sel.Kind]
	delete(a.begun, sel.Kind)
	a.mu.Unlock()
	if k == nil {
		a.watches.watch(ctx, a.node, sel, change, done)
		return
	}
	go k.follow(ctx, change, done)
}

// own reports whether a selection is what the watchMux shares out.
func (a *nodeAPI) own(sel port.Selection) (port.Selection, bool) {
	for _, s := range [...]port.Selection{podsOf(a.node), objectOf(a.node)} {
		if s == sel {
			return s, true
		}
	}
	return sel, false
}

func podsOf(node string) port.Selection {
	return port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + node}
}

func objectOf(node string) port.Selection {
	return port.Selection{Kind: port.NodeKind, Field: "metadata.name=" + node}
}

// write makes a write, in its turn if it is an ordinary one.
func (a *nodeAPI) write(ctx context.Context, verb string, k port.APIKey, begin func(over func()), failed func(error)) {
	a.mu.Lock()
	a.writes++
	a.mu.Unlock()
	if k.Kind == port.NodeKind || k.Kind == port.LeaseKind || k.Kind == port.EventKind {
		begin(a.written)
		return
	}
	a.limit.pass(ctx, func() {
		begin(func() {
			a.limit.leave()
			a.written()
		})
	}, func() {
		a.written()
		failed(&port.Error{Kind: port.Canceled, Verb: verb, Object: k.String(), Detail: "it was given up before its turn"})
	})
}

// Create implements port.API.
func (a *nodeAPI) Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error)) {
	k := port.APIKeyOf(o)
	a.write(ctx, "create", k, func(over func()) {
		a.API.Create(ctx, o, func(got port.APIObject, err error) {
			a.renewed(k, err)
			over()
			done(got, err)
		})
	}, func(err error) { done(nil, err) })
}

// Update implements port.API.
func (a *nodeAPI) Update(ctx context.Context, o port.APIObject, done func(port.APIObject, error)) {
	k := port.APIKeyOf(o)
	a.write(ctx, "update", k, func(over func()) {
		a.API.Update(ctx, o, func(got port.APIObject, err error) {
			a.renewed(k, err)
			over()
			done(got, err)
		})
	}, func(err error) { done(nil, err) })
}

func (a *nodeAPI) renewed(k port.APIKey, err error) {
	if k.Kind == port.LeaseKind && err == nil {
		a.stats.lease(a.node, time.Now())
	}
}

// Patch implements port.API.
func (a *nodeAPI) Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	a.write(ctx, "patch", p.Key, func(over func()) {
		a.API.Patch(ctx, p, func(got port.APIObject, err error) {
			if err == nil {
				dropManagedFields(got)
			}
			over()
			done(got, err)
		})
	}, func(err error) { done(nil, err) })
}

// Delete implements port.API.
func (a *nodeAPI) Delete(ctx context.Context, d port.APIDelete, done func(error)) {
	a.write(ctx, "delete", d.Key, func(over func()) {
		a.API.Delete(ctx, d, func(err error) {
			over()
			done(err)
		})
	}, done)
}

// told notes what pods there are.
func (a *nodeAPI) told(c port.APIChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch c := c.(type) {
	case port.APIReplaced:
		a.pods = make(map[types.UID]*v1.Pod, len(c.Objects))
		for _, o := range c.Objects {
			a.pods[o.GetUID()] = o.(*v1.Pod)
		}
	case port.APISet:
		a.pods[c.Object.GetUID()] = c.Object.(*v1.Pod)
	case port.APIDeleted:
		delete(a.pods, c.Object.GetUID())
	case port.APIBroken:
	}
}

// Get implements port.API.
func (a *nodeAPI) Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error)) {
	a.mu.Lock()
	o, is := fakeObject(k, slices.Collect(maps.Values(a.pods)))
	a.mu.Unlock()
	if !is {
		a.API.Get(ctx, k, done)
		return
	}
	time.AfterFunc(0, func() { done(o, nil) })
}

// CreateToken implements port.API.
func (a *nodeAPI) CreateToken(
	_ context.Context, _, _ string, spec authenticationv1.TokenRequestSpec,
	done func(authenticationv1.TokenRequestStatus, error),
) {
	status := madeUpToken(spec, time.Now())
	time.AfterFunc(0, func() { done(status, nil) })
}

// written is the end of a write.
func (a *nodeAPI) written() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writes--; a.writes == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
}

// settle waits until no write is under way, but no longer than until ctx ends.
func (a *nodeAPI) settle(ctx context.Context) {
	a.mu.Lock()
	if a.writes == 0 {
		a.mu.Unlock()
		return
	}
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	idle := a.idle
	a.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// drop ends a request without a receiver.
func (a *nodeAPI) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.begun { // order-free: each for itself
		k.stop()
	}
	clear(a.begun)
}
