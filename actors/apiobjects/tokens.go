package apiobjects

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// held is a token of a pod.
type held struct {
	entry podobjects.Entry
	// call is the running CreateToken.
	call     kernel.Call
	failures int
	// since is when it was first requested.
	since time.Time
	// due is when it is requested again. got is when the one that it has came, zero without one.
	due, got time.Time
	timer    kernel.Alarm[Message]
}

// end cancels a token's call and timer.
func (t *held) end(ctx *kernel.Context[Message]) {
	t.call.Cancel(ctx)
	t.timer.Stop()
}

// ask requests a token or its renewal. The token is bound to the pod: it becomes invalid when the
// pod is gone (KEP-1205).
func (a *apiobjects) ask(ctx *kernel.Context[Message], k secret, t *held) {
	if t.call.Busy() {
		return
	}
	p, r := a.pods[k.uid].pod, k.ref
	seconds := r.ExpirationSeconds
	spec := authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
	}
	if r.Audience != "" {
		spec.Audiences = []string{r.Audience}
	}
	t.call.Begin(portcall.Do(ctx, kernel.Effect[Message]{
		Kind: "CreateToken", Object: r.Namespace + "/" + r.Name, Lane: "token/" + string(k.uid) + "/" +
			r.String() + "/" + r.Audience,
		For: string(k.uid), Pool: CallPool, Deadline: a.deps.Deadline,
	}, func(c context.Context, done func(authenticationv1.TokenRequestStatus, error)) {
		a.deps.API.CreateToken(c, r.Namespace, r.Name, spec, done)
	}, func(id kernel.EffectID, s authenticationv1.TokenRequestStatus, err error) Message {
		return issued{id, k, s, err}
	}))
}

// issued applies a new token. If the renewal fails, the old one stays valid until it expires.
func (a *apiobjects) issued(ctx *kernel.Context[Message], m issued) {
	t := a.tokens[m.token]
	if t == nil || !t.call.Take(m.id) {
		return
	}
	now := ctx.Now()
	var e podobjects.Entry
	var at time.Duration
	if m.err == nil {
		t.failures = 0
		expires := m.got.ExpirationTimestamp.Time
		e = podobjects.Entry{
			Ref: t.entry.Ref, State: podobjects.Found, Object: &podobjects.IssuedToken{Value: m.got.Token, Expires: expires},
		}
		// Never at once: the two clocks may differ by more than the token's life.
		asked := podspec.Seconds(m.token.ref.ExpirationSeconds)
		at = max(podobjects.RenewAt(now, expires, asked, ctx.Rand().Float64()).Sub(now), time.Minute)
		t.got = now
	} else {
		t.failures++
		at = spread(ctx, backoff.Retry(a.deps.Backoff, t.failures))
		e = t.entry
		doubted := now.Sub(t.since) >= a.deps.Doubt
		if !doubted && port.KindOf(m.err) == port.Forbidden {
			at = backoff.Retry(soon, t.failures)
		}
		if old, ok := e.Object.(*podobjects.IssuedToken); !ok && !doubted {
			// Too early to report an error to pods.
		} else if !ok || !now.Before(old.Expires) {
			e = podobjects.Entry{Ref: t.entry.Ref, State: podobjects.Failed, Message: "failed to fetch token: " + m.err.Error()}
		} else {
			at = min(at, old.Expires.Sub(now))
		}
		log := ctx.Log().Warn
		if t.failures > 1 {
			log = ctx.Log().Debug
		}
		log().Str("pod", a.pods[m.token.uid].pod.Namespace+"/"+a.pods[m.token.uid].pod.Name).Str("serviceAccount",
			m.token.ref.Name).
			Str("error", m.err.Error()).Msg("cannot get a service account token for a pod; retrying")
	}
	t.due = now.Add(at)
	a.await(ctx, m.token, t)
	if !t.entry.Same(e) {
		t.entry = e
		a.tell(ctx, a.pods[m.token.uid])
	}
}

// lookEvery is how often a token's age is looked at.
const lookEvery = time.Minute

// await requests a token again when it is due, by the wall clock or by the monotonic one: its
// expiry is a wall time, which a set clock or the sleep of a machine can bring near at once. Timers
// notice neither. If the clock was set back, the cluster's may have been as well, and the token is not valid yet.
func (a *apiobjects) await(ctx *kernel.Context[Message], k secret, t *held) {
	now := ctx.Now()
	left := min(t.due.Sub(now), t.due.Round(0).Sub(now))
	if left <= 0 || !t.got.IsZero() && podobjects.FromTheFuture(t.got, now) && t.failures == 0 {
		a.ask(ctx, k, t)
		return
	}
	t.timer.SetIn(ctx, min(left, lookEvery), renew{k})
}
