package apiobjects_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

const (
	life = 10 * time.Minute
	ask  = "token of default/default for 600 s, bound to Pod web u-web"
)

// withToken is a node on which the pod web has asked for a token.
func withToken(t *testing.T, change ...func(d *apiobjects.Deps)) *rig {
	t.Helper()
	r := newRig(t, change...)
	r.life = life
	r.actor.Tell(r.need("web", token("", 600)))
	r.want("the call", 0, "apiserver: "+ask, "web: token unknown")
	return r
}

// TestToken: each token belongs to one pod, and to one audience. It is renewed when a fifth of its life is left.
func TestToken(t *testing.T) {
	r := withToken(t)
	r.calls.Answer(nil, ask)
	r.want("issued", 0, "web: token found t1")
	const vault = "token of default/builder for 3600 s, bound to Pod db u-db, for vault"
	r.actor.Tell(r.need("db", token("vault", 3600), func(p *v1.Pod) { p.Spec.ServiceAccountName = "builder" }))
	r.life = 100 * time.Hour
	r.calls.Answer(nil, vault)
	r.life = life
	r.want("of another pod", 0, "apiserver: "+vault, "db: token unknown", "db: token found t2")
	for _, want := range []string{"t3", "t4"} {
		if got := r.retries(life); got > life*4/5 || got < life*4/5-10*time.Second {
			t.Errorf("renewed after %v, want 10 s before %v at the earliest", got, life*4/5)
		}
		r.calls.Answer(nil, ask)
		r.want("renewed", 0, "apiserver: "+ask, "web: token found "+want)
	}
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.actor.Tell(apiobjects.Forget{UID: "u-db"})
	r.want("nobody needs one", 100*time.Hour)
}

// TestLongToken: a token is renewed after a day, however long its life is.
func TestLongToken(t *testing.T) {
	r := newRig(t)
	r.life = 100 * time.Hour
	r.actor.Tell(r.need("web", token("", 360000)))
	r.want("the call", 0, "apiserver: token of default/default for 360000 s, bound to Pod web u-web", "web: token unknown")
	r.calls.Answer(nil, "token of default/default for 360000 s, bound to Pod web u-web")
	r.Forget()
	if got := r.retries(r.life); got > 24*time.Hour || got < 24*time.Hour-10*time.Second {
		t.Errorf("renewed after %v, want a day, and 10 s before it at the earliest", got)
	}
}

// TestTokenOfAClockAhead: the apiserver's clock is two days ahead. A token of that is not valid once the clock is right, so
// it is not kept for longer than was asked for.
func TestTokenOfAClockAhead(t *testing.T) {
	r := withToken(t)
	r.life = 48*time.Hour + life
	r.calls.Answer(nil, ask)
	r.want("issued", 0, "web: token found t1")
	if got := r.retries(r.life); got > life*4/5 || got < life*4/5-10*time.Second {
		t.Errorf("renewed after %v, want 10 s before %v at the earliest", got, life*4/5)
	}
}

// TestShortToken: a token is not renewed more often than once a minute, however short its life is: the clock of
// the apiserver may be behind.
func TestShortToken(t *testing.T) {
	r := withToken(t)
	r.life = -time.Hour
	for range 3 {
		r.calls.Answer(nil, ask)
		r.Forget()
		r.want("not at once", time.Minute-soon)
		r.want("after a minute", soon, "apiserver: "+ask)
	}
}

// TestTokenRefused: it is asked for again, and after a while the pod is told why there is none.
func TestTokenRefused(t *testing.T) {
	r := withToken(t)
	var asked []time.Duration
	for _, wait := range []time.Duration{base, 2 * base, 4 * base} {
		r.calls.Answer(errAway, ask)
		got := r.retries(2 * wait)
		if got < wait || got > wait+wait/10 {
			t.Errorf("asked again after %v, want %v and up to a tenth more", got, wait)
		}
		asked = append(asked, r.Since())
		r.want("asked again", 0, "apiserver: "+ask)
	}
	if asked[1] >= doubt || asked[2] < doubt {
		t.Fatalf("asked after %v, want two tries before %v", asked, doubt)
	}
	r.calls.Answer(errAway, ask)
	r.want("the doubt is over", 0, "web: token failed, failed to fetch token: connection refused")
	r.want("the next try", 9*base, "apiserver: "+ask)
	r.calls.Answer(nil, ask)
	r.want("issued", 0, "web: token found t1")
	r.retries(life)
	r.want("the renewal", 0, "apiserver: "+ask)
	r.calls.Answer(errAway, ask)
	if got := r.retries(life); got > base+base/10 {
		t.Errorf("asked again after %v: a token that was issued begins the backoff anew", got)
	}
	if n := r.Logged(`"level":"warn"`, `"pod":"default/web"`, "cannot get a service account token"); n != 2 {
		t.Errorf("warned %d times, want once for each time that it began to fail: %s", n, &r.Log)
	}
}

// TestTokenForbiddenAtFirst: the apiserver learns a moment later than the node that the pod is here.
func TestTokenForbiddenAtFirst(t *testing.T) {
	r := withToken(t)
	for _, wait := range []time.Duration{25, 50, 100} {
		r.calls.Answer(refused(port.Forbidden), ask)
		if got := r.retries(time.Second); got != wait*time.Millisecond {
			t.Errorf("asked again after %v, want %v ms", got, int(wait))
		}
		r.want("asked again", 0, "apiserver: "+ask)
	}
	r.calls.Answer(nil, ask)
	r.want("allowed", 0, "web: token found t1")
}

// TestRenewalFails: the old token stays valid until it expires, and the pod is told then.
func TestRenewalFails(t *testing.T) {
	r := withToken(t)
	r.calls.Answer(nil, ask)
	r.want("issued", 0, "web: token found t1")
	issued := r.Now()
	for r.Now().Sub(issued) < life {
		r.retries(life)
		if r.Count("apiserver: "+ask) != 1 || len(r.Lines()) != 1 {
			t.Fatalf("at %v was said %q, want another call", r.Since(), r.Lines())
		}
		r.Forget()
		r.calls.Answer(errAway, ask)
	}
	r.want("it has expired", 0, "web: token failed, failed to fetch token: connection refused")
	check.Count(t, r.Now().Sub(issued)-life, 0, "the pod is told %v after the token has expired")
}

// TestTokenForgotten: the call for a pod that is gone is given up, and its answer is of no use.
func TestTokenForgotten(t *testing.T) {
	r := withToken(t)
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.want("given up", 0, "apiserver: "+ask+": given up")
	r.calls.Answer(nil, ask)
	r.want("late", time.Hour)
}

// TestTokenNeededAgain: nothing that was begun for a pod before it was forgotten counts for it later.
func TestTokenNeededAgain(t *testing.T) {
	r := withToken(t)
	web := r.need("again", token("", 600))
	web.Pod.Name, web.Pod.UID = "web", "u-web"
	again := func() {
		r.actor.Tell(apiobjects.Forget{UID: "u-web"})
		r.actor.Tell(web)
		r.Settle()
	}
	again()
	r.want("one call after another", 0, "apiserver: "+ask+": given up", "again: token unknown")
	r.calls.Answer(nil, ask)
	r.want("the old answer", 0, "apiserver: "+ask)
	r.calls.Answer(nil, ask)
	r.want("the new one", life/2, "again: token found t2")
	again()
	r.calls.Answer(nil, ask)
	r.want("again", 0, "again: token unknown", "apiserver: "+ask, "again: token found t3")
	r.want("the old renewal is off", life/2)
	r.want("the new one is not", life*4/5-life/2, "apiserver: "+ask)
}

// TestTokenAfterRestart: a token that a pod has is kept until this actor has another one.
func TestTokenAfterRestart(t *testing.T) {
	r := newRig(t)
	web := r.need("web", token("", 600))
	r.actor.Tell(web)
	r.calls.Answer(nil, ask)
	r.Forget()
	r.actor.Crash()
	r.actor.Tell(apiobjects.Forget{UID: "stranger"})
	r.want("the crash", time.Second, "pods: repeat")
	web.Known = r.known["web"]
	r.actor.Tell(web)
	r.want("asked again", 0, "apiserver: "+ask)
	r.calls.Answer(nil, ask)
	r.want("the newer one", 0, "web: token found t2")
}
