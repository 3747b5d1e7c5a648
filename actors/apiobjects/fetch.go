package apiobjects

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// watchKind is the name of the effect.
const watchKind = "Watch"

// watched reports whether an object is watched and not polled. A node may not watch claims and
// their volumes.
func (a *apiobjects) watched(r podobjects.Ref) bool {
	return r.Kind == podobjects.RuntimeClass ||
		a.deps.Detection == Watch && (r.Kind == podobjects.ConfigMap || r.Kind == podobjects.Secret)
}

// keyOf is an object's key in the API.
func keyOf(r podobjects.Ref) port.APIKey {
	k := port.APIKey{Namespace: r.Namespace, Name: r.Name}
	switch r.Kind {
	case podobjects.ConfigMap:
		k.Kind = port.ConfigMapKind
	case podobjects.Secret:
		k.Kind = port.SecretKind
	case podobjects.Claim:
		k.Kind = port.PersistentVolumeClaimKind
	case podobjects.Volume:
		k.Kind = port.PersistentVolumeKind
	case podobjects.RuntimeClass:
		k.Kind = port.RuntimeClassKind
	case podobjects.Token, podobjects.Services, podobjects.TrustBundle, podobjects.SignerBundles, podobjects.Certificate:
		panic(r.Kind.String() + " is no single object of the API")
	}
	return k
}

// fetch starts a watch or a Get, unless one is running or none is needed.
func (a *apiobjects) fetch(ctx *kernel.Context[Message], o *object) {
	if o.call != 0 || o.final() && len(o.fresh) == 0 {
		return
	}
	o.timer.Stop()
	if a.watched(o.ref) && len(o.fresh) == 0 {
		a.watch(ctx, o)
		return
	}
	r, k := o.ref, keyOf(o.ref)
	o.call = portcall.Do(ctx, kernel.Effect[Message]{
		Kind: "Get" + k.Kind.String(), Object: r.Namespace + "/" + r.Name, For: string(o.users[len(o.users)-1]),
		Lane: r.String(), Pool: CallPool, Deadline: a.deps.Deadline,
	}, func(c context.Context, done func(port.APIObject, error)) { a.deps.API.Get(c, k, done) },
		func(id kernel.EffectID, found port.APIObject, err error) Message { return got{id, r, found, err} })
}

func (a *apiobjects) watch(ctx *kernel.Context[Message], o *object) {
	r, k := o.ref, keyOf(o.ref)
	s := port.Selection{Kind: k.Kind, Namespace: r.Namespace, Field: "metadata.name=" + r.Name}
	a.watches++
	o.heard = false
	e := kernel.Effect[Message]{Kind: watchKind + k.Kind.String(), Object: r.Namespace + "/" + r.Name}
	o.call = portcall.Watch(ctx, e, a.watches, a.deps.API, s, func(id kernel.EffectID, change port.APIChange) Message {
		if b, is := change.(port.APIBroken); is {
			return broken{id, r, b.Err}
		}
		return told{id, r, change}
	}, func(id kernel.EffectID, _ error) Message { return ended{id, r} })
	ctx.After(a.deps.Patience, unheard{o.call, r})
}

// broken handles a failed watch. What was found stays known, and the watch retries by itself. If
// the apiserver does not know yet that this node may read the object, it will soon, so it is
// asked again at once.
func (a *apiobjects) broken(ctx *kernel.Context[Message], o *object, err error) {
	o.heard = true
	a.troubled(ctx, o, err)
	if port.KindOf(err) == port.Forbidden && !o.answered() && ctx.Now().Sub(o.since) < a.deps.Doubt {
		o.end(ctx)
		o.failures++
		o.timer.SetIn(ctx, backoff.Retry(soon, o.failures), again{o.ref})
	}
}

// soon is the backoff for what is available in a moment.
var soon = backoff.Policy{Base: 25 * time.Millisecond, Max: time.Second}

// troubled notes that an object could not be read. The pod learns it after Deps.Doubt.
func (a *apiobjects) troubled(ctx *kernel.Context[Message], o *object, err error) {
	first := o.trouble == nil
	o.trouble = err
	if since := ctx.Now().Sub(o.since); since >= a.deps.Doubt {
		a.doubt(ctx, o)
	} else if first {
		ctx.After(a.deps.Doubt-since, doubted{o.ref})
	}
}

// doubt marks an object as failed, and why. Where it is known, only those are told that wait for what there is now.
func (a *apiobjects) doubt(ctx *kernel.Context[Message], o *object) {
	o.doubted = true
	if !o.answered() {
		a.became(ctx, o, failed(o.ref, o.trouble))
	}
	a.tellAll(ctx, slices.Concat(o.fresh, o.late))
}

// answered: it is known whether the apiserver has the object.
func (o *object) answered() bool {
	return o.entry.State == podobjects.Found || o.entry.State == podobjects.Missing
}

// final: what is known can't change. But an object of the same name may follow it.
func (o *object) final() bool { return o.entry.State == podobjects.Found && immutable(o.entry.Object) }

// refresh notes a user that may not be told what is known, as it may be of yesterday: a pod would run with the data of
// a deleted object, and nothing would tell. What earlier users were told changes with the answer.
func (o *object) refresh(ctx *kernel.Context[Message], user types.UID) {
	if len(o.fresh)+len(o.late) == 0 {
		o.since, o.trouble, o.doubted = ctx.Now(), nil, false
	}
	if o.call != 0 {
		o.late = append(o.late, user)
	} else {
		o.fresh = append(o.fresh, user)
	}
}

// seenBy is what a user may know of an object.
func (o *object) seenBy(user types.UID) podobjects.Entry {
	if !slices.Contains(o.fresh, user) && !slices.Contains(o.late, user) {
		return o.entry
	}
	if o.doubted && o.trouble != nil {
		return failed(o.ref, o.trouble)
	}
	return podobjects.Entry{Ref: o.ref}
}

// told applies an event of an object's watch. The first may also say that there is none.
func (a *apiobjects) told(ctx *kernel.Context[Message], m told) {
	o := a.of[m.ref]
	if o == nil || o.call != m.id {
		return
	}
	o.heard, o.trouble, o.failures = true, nil, 0
	switch c := m.change.(type) {
	case port.APIReplaced:
		e := podobjects.Entry{Ref: o.ref, State: podobjects.Missing}
		if len(c.Objects) > 0 {
			e = found(o.ref, c.Objects[0])
		}
		a.became(ctx, o, e)
	case port.APISet:
		a.became(ctx, o, found(o.ref, c.Object))
	case port.APIDeleted:
		a.became(ctx, o, podobjects.Entry{Ref: o.ref, State: podobjects.Missing})
	case port.APIBroken:
		panic("a watch that broke is another message")
	}
	if a.of[m.ref] == o && o.final() {
		o.end(ctx)
	}
}

// ended handles a watch that the port gave up.
func (a *apiobjects) ended(ctx *kernel.Context[Message], m ended) {
	if s := a.stream(m.ref.Kind); s != nil {
		if m.id == s.watch {
			a.follow(ctx, s)
		}
		return
	}
	o := a.of[m.ref]
	if o == nil || o.call != m.id {
		return
	}
	o.call = 0
	o.failures++
	a.later(ctx, o, backoff.Retry(a.deps.Backoff, o.failures))
}

// unheard replaces a watch that has been silent.
func (a *apiobjects) unheard(ctx *kernel.Context[Message], m unheard) {
	if s := a.stream(m.ref.Kind); s != nil {
		if m.id == s.watch && !s.heard {
			a.follow(ctx, s)
		}
		return
	}
	if o := a.of[m.ref]; o != nil && o.call == m.id && !o.heard {
		o.end(ctx)
		a.fetch(ctx, o)
	}
}

// got applies the result of a Get, and schedules the next.
func (a *apiobjects) got(ctx *kernel.Context[Message], m got) {
	o := a.of[m.ref]
	if o == nil || o.call != m.id {
		return
	}
	o.call = 0
	if m.err == nil && settled(m.object) {
		o.failures = 0
	} else {
		o.failures++
	}
	answered := m.err == nil || port.KindOf(m.err) == port.NotFound
	if answered {
		e := podobjects.Entry{Ref: o.ref, State: podobjects.Missing}
		if m.err == nil {
			e = found(o.ref, m.object)
		}
		users := o.fresh
		o.trouble, o.fresh, o.late = nil, o.late, nil
		a.became(ctx, o, e)
		a.tellAll(ctx, users)
	} else {
		o.fresh, o.late = append(o.fresh, o.late...), nil // the next one is begun after all of them
		a.troubled(ctx, o, m.err)
	}
	if o.call != 0 || a.of[o.ref] != o {
		return
	}
	switch {
	case answered && (len(o.fresh) > 0 || a.watched(o.ref)):
		a.fetch(ctx, o)
	case port.KindOf(m.err) == port.Forbidden && !o.answered() && ctx.Now().Sub(o.since) < a.deps.Doubt:
		o.timer.SetIn(ctx, backoff.Retry(soon, o.failures), again{o.ref})
	case o.failures > 0:
		a.later(ctx, o, backoff.Retry(a.deps.Backoff, o.failures))
	case o.ref.Kind == podobjects.ConfigMap, o.ref.Kind == podobjects.Secret:
		if !immutable(m.object) {
			a.later(ctx, o, a.deps.TTL)
		}
	}
}

// settled reports whether pods can use an object: a claim must be bound.
func settled(o port.APIObject) bool {
	claim, ok := o.(*v1.PersistentVolumeClaim)
	return !ok || claim.Spec.VolumeName != "" && claim.Status.Phase == v1.ClaimBound
}

// later reads again after d, with jitter, so that not all objects are read at once.
func (a *apiobjects) later(ctx *kernel.Context[Message], o *object, d time.Duration) {
	o.timer.SetIn(ctx, spread(ctx, d), again{o.ref})
}

// spread adds jitter to a time, up to a tenth.
func spread(ctx *kernel.Context[Message], d time.Duration) time.Duration {
	return d + time.Duration(ctx.Rand().Int64N(int64(d/10)+1))
}

func found(r podobjects.Ref, o port.APIObject) podobjects.Entry {
	return podobjects.Entry{Ref: r, State: podobjects.Found, Object: o}
}

func failed(r podobjects.Ref, err error) podobjects.Entry {
	return podobjects.Entry{Ref: r, State: podobjects.Failed, Message: err.Error()}
}

// immutable reports whether an object can never change again (core/v1 immutable).
func immutable(o any) bool {
	switch o := o.(type) {
	case *v1.ConfigMap:
		return o.Immutable != nil && *o.Immutable
	case *v1.Secret:
		return o.Immutable != nil && *o.Immutable
	default:
		return false
	}
}
