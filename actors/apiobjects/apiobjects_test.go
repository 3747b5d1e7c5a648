package apiobjects_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestWatch: pods share one watch from the first to the last, and each is told of each change.
func TestWatch(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.need("web"))
	r.want("the first pod", soon, watchBegun, "web: settings unknown")
	r.Tell(listed(made("1")))
	r.want("the list", soon, "web: settings found 1")
	r.actor.Tell(r.need("db"))
	r.want("another pod", soon, "db: settings found 1")
	r.Tell(port.APISet{Object: made("2")}, port.APISet{Object: made("2")})
	r.want("a change, told twice", soon, "db: settings found 2", "web: settings found 2")
	r.Tell(port.APIBroken{Err: errAway})
	r.want("the apiserver is away: it stays known", time.Hour)
	r.actor.Tell(r.need("late"))
	r.want("also for a pod that comes then", soon, "late: settings found 2")
	r.actor.Tell(apiobjects.Forget{UID: "u-late"})
	r.Tell(port.APIDeleted{Object: made("2")})
	r.want("it is gone", soon, "db: settings missing", "web: settings missing")
	r.Tell(port.APIBroken{Err: errAway})
	r.want("that stays known, too", time.Hour)
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.Settle()
	check.Equal(t, r.ended(), 0, "the watch ended with the first pod")
	r.actor.Tell(apiobjects.Forget{UID: "u-db"})
	r.actor.Tell(apiobjects.Forget{UID: "u-db"})
	r.Settle()
	check.Equal(t, r.ended(), 1, "the watch did not end with the last pod")
	r.Tell(listed(made("3")))
	r.want("late", soon)
}

// TestSilentWatch: it is given up for another, and what it says then is late.
func TestSilentWatch(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.need("web"))
	r.want("two watches", patience+soon, watchBegun, watchBegun, "web: settings unknown")
	r.All[0].Change(listed(made("1")))
	r.All[0].Change(port.APIBroken{Err: errAway})
	r.All[0].Ended(errAway)
	r.want("late", 2*base)
	r.Tell(listed(made("2")))
	r.want("the second one", time.Hour, "web: settings found 2")
}

// TestWatchEnds: another one is begun after a wait that doubles, and what the old one says then is late.
func TestWatchEnds(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.need("web"))
	r.Tell(listed(made("1")))
	r.Forget()
	for _, wait := range []time.Duration{base, 2 * base, 4 * base} {
		old := r.Newest()
		old.Ended(errAway)
		if got := r.retries(2 * wait); got < wait || got > wait+wait/10 {
			t.Errorf("the next watch begins after %v, want %v and up to a tenth more", got, wait)
		}
		r.want("another watch", 0, watchBegun)
		old.Change(port.APIDeleted{Object: made("1")})
		old.Ended(errAway)
		r.want("the old one is late", soon)
	}
	r.Tell(listed(made("2")))
	r.want("it stands", time.Hour, "web: settings found 2")
	r.Newest().Ended(errAway)
	if got := r.retries(2 * base); got > base+base/10 {
		t.Errorf("the next watch begins after %v: one that stood begins the backoff anew", got)
	}
}

// TestImmutable: an object that can never change is not watched or read any more, but once for each later pod.
func TestImmutable(t *testing.T) {
	for _, c := range []struct {
		name   string
		object port.APIObject
		watch  string
		get    string
		uses   func(p *v1.Pod)
	}{
		{"a ConfigMap", immutable("1"), watchBegun, getBegun, configMap("settings")},
		{"a Secret", &v1.Secret{ObjectMeta: made("1").ObjectMeta, Immutable: new(true)},
			"watch Secret default/ metadata.name=settings", "get Secret default/settings", volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "settings"}})},
	} {
		r := newRig(t)
		r.actor.Tell(r.need("web", c.uses))
		r.Tell(listed(c.object))
		r.want(c.name, soon, c.watch, "web: settings unknown", "web: settings found 1")
		check.Equal(t, r.ended(), 1, "%s: the watch goes on", c.name)
		r.Tell(port.APIDeleted{Object: c.object})
		r.want("late", time.Hour)
		r.has["settings"] = c.object
		r.actor.Tell(r.need("db", c.uses))
		r.want("another pod", soon, "apiserver: "+c.get, "db: settings unknown")
		r.calls.Answer(nil, c.get)
		r.want("it is the same", time.Hour, "db: settings found 1")
	}
}

// TestImmutableMadeAgain: an object that can never change is deleted, and there is another with its name. A pod that
// comes then is told of that one only, in volumes and environment. It waits while the apiserver does not answer.
func TestImmutableMadeAgain(t *testing.T) {
	const get = "apiserver: " + getBegun
	env := func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "env", EnvFrom: []v1.EnvFromSource{{
			ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}},
		}}})
	}
	for _, uses := range []func(p *v1.Pod){configMap("settings"), env} {
		r := newRig(t)
		r.actor.Tell(r.need("web", uses))
		r.Tell(listed(immutable("1")))
		r.want("the first pod", soon, watchBegun, "web: settings unknown", "web: settings found 1")

		r.has["settings"] = immutable("2")
		r.actor.Tell(r.need("db", uses))
		r.want("another pod", soon, get, "db: settings unknown")
		r.calls.Answer(errAway, getBegun)
		r.want("no answer", base+base/10, get)
		r.has["settings"] = immutable("3")
		r.actor.Tell(r.need("cache", uses))
		r.want("a third pod comes during the read", soon, "cache: settings unknown")
		r.calls.Answer(errAway, getBegun)
		r.want("the pods are told why they wait", doubt, get, "cache: settings failed, connection refused",
			"db: settings failed, connection refused")
		r.actor.Tell(r.need("late", uses))
		r.want("a fourth", soon, "late: settings failed, connection refused")
		r.calls.Answer(nil, getBegun)
		r.want("the newest; the fourth may have come after this read", soon, get, "cache: settings found 3",
			"db: settings found 3", "web: settings found 3")
		r.has["settings"] = made("4")
		r.calls.Answer(nil, getBegun)
		r.want("one that can change is watched", soon, watchBegun, "cache: settings found 4", "db: settings found 4",
			"late: settings found 4", "web: settings found 4")
	}
}

// TestImmutableGone: an object that could never change is not there any more when another pod comes. It is waited for.
func TestImmutableGone(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.need("web"))
	r.Tell(listed(immutable("1")))
	r.actor.Tell(r.need("db"))
	r.Settle()
	r.actor.Tell(r.need("gone"))
	r.actor.Tell(apiobjects.Forget{UID: "u-gone"})
	r.Settle()
	r.Forget()
	r.calls.Answer(refused(port.NotFound), getBegun)
	r.want("it is gone", soon, watchBegun, "db: settings missing", "web: settings missing")
	r.Tell(listed(), port.APISet{Object: immutable("2")})
	r.want("it is made again", time.Hour, "db: settings found 2", "web: settings found 2")
}

// TestCache: what is not watched is read once per TTL, and when another pod comes. A failure is tried again
// sooner, and what was found stays known.
func TestCache(t *testing.T) {
	r := newRig(t, cached)
	const get = "apiserver: " + getBegun
	r.has["settings"] = made("1")
	r.actor.Tell(r.need("web"))
	r.calls.Answer(nil, getBegun)
	r.want("the first pod", 0, get, "web: settings unknown", "web: settings found 1")
	r.has["settings"] = made("2")
	r.want("within the TTL", ttl-soon)
	r.want("after it", ttl/10+soon, get)
	r.calls.Answer(nil, getBegun)
	r.want("another version", 0, "web: settings found 2")
	r.has["settings"] = made("3")
	r.actor.Tell(r.need("db"))
	r.calls.Answer(nil, getBegun)
	r.want("another pod", soon, get, "db: settings unknown", "db: settings found 3", "web: settings found 3")
	r.want("the TTL", ttl+ttl/10, get)
	for _, wait := range []time.Duration{base, 2 * base, 4 * base} {
		r.calls.Answer(errAway, getBegun)
		if got := r.retries(2 * wait); got < wait || got > wait+wait/10 {
			t.Errorf("it is read again after %v, want %v and up to a tenth more", got, wait)
		}
		r.want("the next try", 0, get)
	}
	r.calls.Answer(nil, getBegun)
	r.want("nothing new: the next read comes after the TTL", ttl-soon)
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.actor.Tell(apiobjects.Forget{UID: "u-db"})
	r.want("nobody needs it", time.Hour)
}

// TestOneReadAtATime: a pod that comes while an object is read waits for that answer.
func TestOneReadAtATime(t *testing.T) {
	r := newRig(t, cached)
	r.has["settings"] = made("1")
	r.actor.Tell(r.need("web"))
	r.actor.Tell(r.need("db"))
	r.want("one call", time.Second, "apiserver: "+getBegun, "web: settings unknown", "db: settings unknown")
	r.calls.Answer(nil, getBegun)
	r.want("one answer", time.Second, "web: settings found 1", "db: settings found 1")
}

// TestCacheOfMissing: what is not there is looked for again soon.
func TestCacheOfMissing(t *testing.T) {
	r := newRig(t, cached)
	r.actor.Tell(r.need("web"))
	r.calls.Answer(refused(port.NotFound), getBegun)
	r.want("it is not there", 0, "apiserver: "+getBegun, "web: settings unknown", "web: settings missing")
	r.want("again", base+base/10, "apiserver: "+getBegun)
	r.has["settings"] = immutable("1")
	r.calls.Answer(nil, getBegun)
	r.want("it is there, and can never change", time.Hour, "web: settings found 1")
	r.actor.Tell(r.need("db"))
	r.want("another pod", soon, "apiserver: "+getBegun, "db: settings unknown")
	r.calls.Answer(nil, getBegun)
	r.want("it is still the same", time.Hour, "db: settings found 1")
}

// TestNoAnswer: a call that is not answered is given up, and the pod is told. The late answer is of no use.
func TestNoAnswer(t *testing.T) {
	r := newRig(t, cached)
	r.has["settings"] = made("1")
	r.actor.Tell(r.need("web"))
	r.want("the call", deadline-soon, "apiserver: "+getBegun, "web: settings unknown")
	r.want("the deadline", 2*soon, "apiserver: "+getBegun+": given up",
		"web: settings failed, GetConfigMap default/settings: deadline exceeded: no answer within 1m0s")
	r.calls.Answer(nil, getBegun)
	r.want("late", soon)
	r.want("it is tried again", base+base/10, "apiserver: "+getBegun)
	r.calls.Answer(nil, getBegun)
	r.want("it is answered", 0, "web: settings found 1")
}

// TestDoubt: a pod is told why an object cannot be had, after a while.
func TestDoubt(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.need("web"))
	r.want("the watch", soon, watchBegun, "web: settings unknown")
	r.Tell(port.APIBroken{Err: errAway})
	r.want("not yet", doubt-2*soon)
	r.want("now", 2*soon, "web: settings failed, connection refused")
	r.Tell(listed(made("1")))
	r.want("it is there", soon, "web: settings found 1")
}

// TestForbiddenAtFirst: the apiserver learns a moment later than the node what the node may read. It is asked
// again at once, as long as that can be the reason.
func TestForbiddenAtFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *apiobjects.Deps)
		begun  string
		refuse func(r *rig)
		after  []string
	}{
		"a watch": {
			func(*apiobjects.Deps) {}, watchBegun, func(r *rig) { r.Tell(port.APIBroken{Err: refused(port.Forbidden)}) }, nil,
		},
		"a read": {
			cached, "apiserver: " + getBegun, func(r *rig) { r.calls.Answer(refused(port.Forbidden), getBegun) }, []string{"apiserver: " + getBegun},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.change)
			r.actor.Tell(r.need("web"))
			r.want("the first", 0, c.begun, "web: settings unknown")
			for _, wait := range []time.Duration{25, 50, 100, 200, 400, 800, 1000, 1000, 1000} {
				c.refuse(r)
				if got := r.retries(2 * time.Second); got != wait*time.Millisecond {
					t.Errorf("the next try comes after %v, want %v ms", got, int(wait))
				}
				r.want("the next try", 0, c.begun)
			}
			c.refuse(r)
			r.want("the last one that is soon", doubt-r.Since(), "web: settings failed, Get: forbidden: no")
			r.want("a second after the refusal", time.Second, c.begun)
			c.refuse(r)
			r.want("then the backoff", 66*time.Second, c.after...)
		})
	}
}

// TestOverflow: what was missed is asked for once, after a pause, and everything begins anew.
func TestOverflow(t *testing.T) {
	r := newRig(t, withServices)
	web := r.need("web")
	r.actor.Tell(web)
	r.want("the watches", soon, watchBegun, "watch Service", "web: settings unknown; services unknown")
	for range 5 { // the mailbox has room for four
		r.actor.Tell(apiobjects.Forget{UID: "stranger"})
	}
	r.want("the overflow", time.Second, "pods: repeat")
	check.Equal(t, r.ended(), 2, "%d watches ended, want both", r.ended())
	r.actor.Tell(web)
	r.want("the pod repeats", soon, watchBegun, "watch Service", "web: settings unknown; services unknown")
}

// TestActorRestart: the calls of the predecessor end, the pods ask again, and what they know stays known while
// it has not been read.
func TestActorRestart(t *testing.T) {
	r := newRig(t)
	r.has["data"] = bound("data", "pv")
	web := r.need("web", configMap("settings"), claim("data"))
	r.actor.Tell(web)
	r.Tell(listed(made("1")))
	r.Forget()
	r.actor.Crash()
	r.actor.Tell(apiobjects.Forget{UID: "stranger"})
	r.want("the crash", time.Second, "apiserver: "+getData+": given up", "pods: repeat")
	check.Equal(t, r.ended(), 1, "the watch of the predecessor goes on")
	web.Known = r.known["web"]
	r.actor.Tell(web)
	r.want("the pod repeats", soon, watchBegun)
	r.All[0].Change(listed(made("2")))
	r.want("the predecessor's watch is late", soon)
	r.Tell(port.APIBroken{Err: errAway})
	r.calls.Answer(nil, getData) // is the predecessor's, and keeps the lane until now
	r.calls.Answer(errAway, getData)
	r.want("it fails, and what was found stays known", doubt-base,
		"apiserver: "+getData, "apiserver: "+getData)
	r.calls.Answer(errAway, getData)
	r.want("what was not known has failed", 2*base, "web: settings found 1; data failed, connection refused")
	r.Tell(port.APIDeleted{Object: made("1")})
	r.want("it is read", 0, "web: settings missing; data failed, connection refused")
}
