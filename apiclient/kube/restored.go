package kube

import (
	"cmp"
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
//
// A busy store may have passed that version again before the watch is resumed. Then the lease tells: the node
// writes it all the time, so the store has an older one than was written, and the next renewal conflicts.
type followed struct {
	mu      sync.Mutex
	watches map[*watch]struct{}
	// newest is the newest version that was seen, empty for none.
	newest string
	// lease is the newest one that was read or written, nil for none.
	lease port.APIObject
}

// holds notes the lease that the store holds. It reports whether that is an older version of the one before.
func (f *followed) holds(lease port.APIObject) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.lease
	f.lease = lease
	if before == nil || before.GetUID() != lease.GetUID() {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(lease.GetResourceVersion(), before.GetResourceVersion())
	return err == nil && c < 0
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
	f.newest, f.lease = version, nil
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
	w.client.restored(now, before)
	return errRestored
}

func (c *Client) restored(now, before string) {
	c.config.Log.Warn().Str("version", now).Str("before", before).
		Msg("the apiserver's store was restored from a backup; listing everything again")
	c.followed.restored(now)
}

// held is o, an object that the store holds, and takes note of it if it is the node's lease.
func (c *Client) held(o port.APIObject, err error) (port.APIObject, error) {
	if lease, is := o.(*coordinationv1.Lease); is && err == nil {
		before := c.followed.seen()
		if c.followed.holds(lease) {
			c.restored(lease.ResourceVersion, before)
		}
	}
	return o, err
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
