package kube

import (
	"cmp"
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/actors/port"
)

// compareTimeout is how long the store's version is asked for before a watch is resumed.
const compareTimeout = 10 * time.Second

// followed are the watches of a client, to be begun anew if the apiserver's store was restored from a
// backup. Its versions have gone back then. A watch that is resumed from a later version is accepted, and
// is silent until the store has caught up: hours, in which the node hears of no pod. So before the watch of
// the Node is resumed, the newest version that any watch has seen is compared with the store's. An
// apiserver is started again when its store is restored, so that watch ends.
type followed struct {
	mu      sync.Mutex
	watches map[*watch]struct{}
	// newest is the newest version that was seen, empty for none.
	newest string
}

// saw notes a version. One that can't be compared says nothing.
func (f *followed) saw(version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, err := resourceversion.CompareResourceVersion(version, cmp.Or(f.newest, version)); err == nil && c >= 0 {
		f.newest = version
	}
}

// seen is the newest version that was seen.
func (f *followed) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest
}

// restored: the store's version is older than one that was seen. All watches begin anew.
func (f *followed) restored(version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newest = version
	for w := range f.watches { // order-free: each on its own
		w.beginAnew()
	}
}

func (f *followed) add(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watches == nil {
		f.watches = map[*watch]struct{}{}
	}
	f.watches[w] = struct{}{}
}

func (f *followed) remove(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, w)
}

// beginAnew ends the stream, and makes the next one begin with a list.
func (w *watch) beginAnew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.anew = true
	if w.stream != nil {
		w.stream.Stop()
	}
}

var errRestored = apierrors.NewResourceExpired("the apiserver's store was restored from a backup")

// mayGoOn prepares a request. One that goes on from a version fails with errRestored if the store's has
// gone back, and one for all objects is made to be as new as the store then.
func (w *watch) mayGoOn(ctx context.Context, o *metav1.ListOptions) error {
	w.mu.Lock()
	anew := w.anew
	w.mu.Unlock()
	goesOn := o.Watch && o.SendInitialEvents == nil
	switch {
	case anew && goesOn:
		return errRestored
	case anew:
		o.ResourceVersion = ""
	case goesOn && w.sel.Kind == port.NodeKind:
		return w.compare(ctx)
	}
	return nil
}

// compare asks for the store's version. A list of one object costs the apiserver no more than a renewal of
// the lease.
func (w *watch) compare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	before, list := w.client.followed.seen(), w.kind.list()
	err := w.request(&metav1.ListOptions{FieldSelector: w.sel.Field}).Do(w.observed(ctx)).Into(list)
	if apierrors.IsForbidden(err) {
		return nil // who may watch may not always list
	}
	meta, is := list.(metav1.ListInterface)
	if err != nil || !is {
		return err
	}
	now := meta.GetResourceVersion()
	if c, err := resourceversion.CompareResourceVersion(now, before); err != nil || c >= 0 {
		return nil //nolint:nilerr // versions that can't be compared say nothing
	}
	w.client.config.Log.Warn().Str("version", now).Str("before", before).
		Msg("the apiserver's store was restored from a backup; listing everything again")
	w.client.followed.restored(now)
	return errRestored
}

// begun keeps the stream, if there is one, of a request that was answered. It fails if the stream goes on
// from a version although the watch is to begin anew, which was found out meanwhile.
func (w *watch) begun(o *metav1.ListOptions, stream apiwatch.Interface) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.Watch && o.SendInitialEvents == nil {
		if w.anew {
			return errRestored
		}
	} else {
		w.anew = false
	}
	w.stream = stream
	return nil
}
