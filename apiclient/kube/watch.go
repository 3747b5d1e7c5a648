package kube

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/internal/patience"
)

// watch is one watch of a client. The reflector calls the apiserver through it (List, Watch) and
// reports to it (Replace, Add, Update, Delete).
//
//	   ┌──────────────── ListAndWatch ends (pause.go) ───────────────┐
//	   ▼                                                             │
//	starting ──first list──► following ──stream ends──► resuming ────┤
//	   │                         ▲                       │   │       │
//	   │                         └────── stream opens ───┘   │       │
//	   │◄── the store was restored from a backup (restored.go)       │
//	   └──── a request fails: APIBroken, once for each reason ───────┘
//
// It begins with a streamed list (KEP-3157), which the apiserver serves from memory and as fresh
// as a read of its store.
type watch struct {
	client *Client
	sel    port.Selection
	kind   kind
	rest   *rest.RESTClient

	// mu serializes the changes: a cancelled list runs on for a moment on a goroutine of the
	// reflector.
	mu     sync.Mutex
	change func(port.APIChange)
	ended  bool
	// broken is the last reported failure, nil while the apiserver answers.
	broken *port.ErrorKind
	// trip is how the last attempt of the running request ended.
	trip error
	// stream is the last one that was opened.
	stream apiwatch.Interface
	// anew: the next request must be for all objects, see followed.
	anew bool
}

// Watch implements port.API.
func (c *Client) Watch(ctx context.Context, sel port.Selection, change func(port.APIChange), done func(error)) {
	w := &watch{client: c, sel: sel, change: change}
	w.kind, _ = c.kind(sel.Kind)
	w.rest = c.watches[restKey{w.kind.group, w.kind.lane}]
	run(c, ctx, call{verb: "watch", object: w.object()}, func(ctx context.Context) (struct{}, error) {
		c.followed.add(w)
		w.follow(ctx)
		c.followed.remove(w)
		w.end()
		return struct{}{}, ctx.Err()
	}, func(_ struct{}, err error) { done(err) })
}

// object names the selection in errors.
func (w *watch) object() string {
	words := []string{w.sel.Kind.String()}
	if w.sel.Namespace != "" {
		words = append(words, "in "+w.sel.Namespace)
	}
	if w.sel.Field != "" {
		words = append(words, "with "+w.sel.Field)
	}
	return strings.Join(words, " ")
}

// follow watches until ctx ends.
func (w *watch) follow(ctx context.Context) {
	// Failures are reported once as APIBroken, and logged once by health. The reflector logs
	// each, at a level for debugging.
	log := klog.Background().V(4)
	ctx = klog.NewContext(ctx, log)
	within := reflectorPause
	reflector := cache.NewReflectorWithOptions(w, w.kind.object(), w, cache.ReflectorOptions{
		Name: w.object(), TypeDescription: w.sel.Kind.String(), Logger: &log,
		Backoff: &within, Clock: endingClock{ctx: ctx},
	})
	for pauses := (patience.Pauses{}); ctx.Err() == nil; {
		began := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if !sleep(ctx, pause(&pauses, w.sel.Kind, err, time.Since(began))) {
			return
		}
	}
}

// ListWithContext is the reflector's list, where the apiserver cannot stream one.
func (w *watch) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.FieldSelector = w.sel.Field
	if o.ResourceVersion == "0" {
		// A list from any apiserver's cache may be older than this agent, and pods that are gone
		// would run again (kubernetes/kubernetes#59848).
		o.ResourceVersion = ""
	}
	list := w.kind.list()
	err := w.mayGoOn(ctx, &o)
	if err == nil {
		err = w.request(&o).Do(w.observed(ctx)).Into(list)
	}
	if err == nil {
		err = w.begun(&o, nil)
	}
	if err != nil {
		w.failed(ctx, err)
		return nil, err
	}
	w.heard()
	return list, nil
}

// WatchWithContext is the reflector's watch.
func (w *watch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	o.FieldSelector, o.Watch = w.sel.Field, true
	if err := w.mayGoOn(ctx, &o); err != nil {
		w.failed(ctx, err)
		return nil, err
	}
	stream, err := w.request(&o).Watch(w.observed(ctx))
	if err == nil {
		// If all attempts got no answer, client-go returns an empty stream and no error.
		if err = w.lastTrip(); err == nil {
			err = w.begun(&o, stream)
		}
		if err == nil {
			w.heard()
			return stream, nil
		}
		stream.Stop()
	}
	if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // from an apiserver that cannot stream lists
		w.failed(ctx, err)
	}
	return nil, err
}

// List and Watch are the reflector's old interface, which it does not call.
func (w *watch) List(o metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(w.client.closing, o)
}

func (w *watch) Watch(o metav1.ListOptions) (apiwatch.Interface, error) {
	return w.WatchWithContext(w.client.closing, o)
}

func (w *watch) request(o *metav1.ListOptions) *rest.Request {
	namespaced := w.kind.namespaced && w.sel.Namespace != ""
	return w.rest.Get().NamespaceIfScoped(w.sel.Namespace,
		namespaced).Resource(w.kind.resource).VersionedParams(o, w.client.params)
}

// observed reports failures of the connection at once, also where client-go retries silently.
func (w *watch) observed(ctx context.Context) context.Context {
	return withTrip(ctx, func(err error) {
		w.mu.Lock()
		w.trip = err
		w.mu.Unlock()
		if err != nil {
			w.failed(ctx, err)
		}
	})
}

func (w *watch) lastTrip() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trip
}

// failed reports a failed request, unless that was reported already.
func (w *watch) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // it ends, or starts over
	}
	translated := w.client.translateError("watch", w.object(), err, nil)
	kind := port.KindOf(translated)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.broken != nil && *w.broken == kind {
		return
	}
	w.broken = &kind
	w.client.health.broke(w, translated)
	w.change(port.APIBroken{Err: translated})
}

// heard records that the apiserver has answered.
func (w *watch) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil && !w.ended {
		w.broken = nil
		w.client.health.heard(w)
	}
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.client.health.ended(w)
}

func (w *watch) tell(c port.APIChange) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.change(c)
	}
	return nil
}

// Add is called for a new object. It and the following implement cache.ReflectorStore.
func (w *watch) Add(o any) error { return w.tell(port.APISet{Object: o.(port.APIObject)}) }

func (w *watch) Update(o any) error { return w.tell(port.APISet{Object: o.(port.APIObject)}) }

func (w *watch) Delete(o any) error { return w.tell(port.APIDeleted{Object: o.(port.APIObject)}) }

// Replace sorts the list: the reflector keeps a streamed one in a map.
func (w *watch) Replace(list []any, version string) error {
	w.client.followed.saw(version)
	objects := make([]port.APIObject, len(list))
	for i, o := range list {
		objects[i] = o.(port.APIObject)
	}
	slices.SortFunc(objects, func(a, b port.APIObject) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return w.tell(port.APIReplaced{Objects: objects})
}

// UpdateResourceVersion is called after each event, bookmarks too.
func (w *watch) UpdateResourceVersion(version string) { w.client.followed.saw(version) }

// Resync is never called: there is no period for it.
func (w *watch) Resync() error { return nil }
