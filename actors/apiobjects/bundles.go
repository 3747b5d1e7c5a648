package apiobjects

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// bundles are the ClusterTrustBundles of the cluster, watched while a pod uses one.
type bundles struct {
	stream
	known map[string]*certificatesv1beta1.ClusterTrustBundle
	// uses are what pods use. Invariant: each has a user.
	uses map[podobjects.Ref]*bundleUse
}

// bundleUse is what is known of one Ref.
type bundleUse struct {
	entry podobjects.Entry
	users map[types.UID]bool
}

// check says that the invariant does not hold.
func (b *bundles) check() error {
	for ref, use := range b.uses { // order-free: any of them is told
		if len(use.users) == 0 {
			return fmt.Errorf("bundles: uses: each has a user: %s has none", ref)
		}
	}
	return nil
}

func newBundles() bundles {
	return bundles{
		stream: stream{of: podobjects.TrustBundle, selection: port.Selection{Kind: port.ClusterTrustBundleKind}},
		known:  map[string]*certificatesv1beta1.ClusterTrustBundle{}, uses: map[podobjects.Ref]*bundleUse{},
	}
}

func (a *apiobjects) useBundles(ctx *kernel.Context[Message], uid types.UID, r podobjects.Ref) {
	b := &a.bundles
	u := b.uses[r]
	if u == nil {
		u = &bundleUse{users: map[types.UID]bool{}, entry: a.bundlesOf(r)}
		b.uses[r] = u
	}
	u.users[uid] = true
	if b.watch == 0 && a.deps.TrustBundles {
		a.follow(ctx, &b.stream)
	}
}

func (a *apiobjects) dropBundles(ctx *kernel.Context[Message], uid types.UID, r podobjects.Ref) {
	b := &a.bundles
	delete(b.uses[r].users, uid)
	if len(b.uses[r].users) == 0 {
		delete(b.uses, r)
	}
	if len(b.uses) == 0 {
		b.unfollow(ctx)
		clear(b.known)
	}
}

// bundlesOf is what is known of a Ref.
func (a *apiobjects) bundlesOf(r podobjects.Ref) podobjects.Entry {
	b, e := &a.bundles, podobjects.Entry{Ref: r}
	switch {
	case !a.deps.TrustBundles:
		e.State = podobjects.Failed
		e.Message = "clusterTrustBundle projections need the feature gate ClusterTrustBundleProjection on this node"
		return e
	case b.seen:
	case b.broken != nil:
		e.State, e.Message = podobjects.Failed, unserved("ClusterTrustBundles", b.broken)
		return e
	default:
		return e
	}
	var items []*certificatesv1beta1.ClusterTrustBundle
	meant := r.Bundles()        // its selector is parsed once, and not for each that there is
	for _, o := range b.known { // order-free: sorted below
		if meant(o) {
			items = append(items, o)
		}
	}
	if len(items) == 0 {
		e.State = podobjects.Missing
		return e
	}
	slices.SortFunc(items, func(a, b *certificatesv1beta1.ClusterTrustBundle) int {
		return strings.Compare(a.Name, b.Name)
	})
	e.State, e.Object = podobjects.Found, &podobjects.TrustBundles{Items: items}
	return e
}

// unserved says why the apiserver does not give objects of a kind.
func unserved(what string, err error) string {
	if port.KindOf(err) == port.NotFound {
		return "the apiserver does not serve " + what + " in certificates.k8s.io/v1beta1: " + err.Error()
	}
	return "cannot read " + what + ": " + err.Error()
}

// told applies an event of the watch.
func (b *bundles) told(ctx *kernel.Context[Message], a *apiobjects, change port.APIChange) {
	switch c := change.(type) {
	case port.APIReplaced:
		clear(b.known)
		for _, o := range c.Objects {
			b.known[o.GetName()] = o.(*certificatesv1beta1.ClusterTrustBundle)
		}
	case port.APISet:
		b.known[c.Object.GetName()] = c.Object.(*certificatesv1beta1.ClusterTrustBundle)
	case port.APIDeleted:
		delete(b.known, c.Object.GetName())
	case port.APIBroken:
	}
	changed := map[types.UID]bool{}
	for r, u := range b.uses { // order-free: pods are told in order
		if e := a.bundlesOf(r); !e.Same(u.entry) {
			u.entry = e
			maps.Copy(changed, u.users)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(changed)) {
		a.tell(ctx, a.pods[uid])
	}
}
