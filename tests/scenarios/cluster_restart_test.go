package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// refuseReads has the apiserver refuse what it is asked of nodes but writes, as one does whose cache of
// watches warms up, or that limits who may watch.
func refuseReads(verbs ...simapi.Verb) func(simapi.Call) simapi.Fault {
	return func(call simapi.Call) simapi.Fault {
		for _, v := range verbs {
			if call.Key.Kind == port.NodeKind && call.Verb == v {
				return simapi.Fault{Fail: true, Kind: port.TooManyRequests, Detail: "too many requests"}
			}
		}
		return simapi.Fault{}
	}
}

// renewedIn fails unless the lease was renewed over and over since a time.
func (c *cluster) renewedIn(since time.Time, apart time.Duration) {
	c.w.t.Helper()
	last := since
	for _, at := range append(c.renewed, c.w.v.Now()) {
		if at.Before(since) {
			continue
		}
		if d := at.Sub(last); d > apart {
			c.w.failf("the lease was not renewed for %v", d)
		}
		last = at
	}
}

// TestRestartedWhileWatchesAreRefused: the agent starts again, and for five minutes the apiserver lets
// it neither list nor watch nodes. The lease is renewed as ever, at once after the start. Pods that run
// are looked after: restarted, probed, and their status is written.
func TestRestartedWhileWatchesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused []simapi.Verb
		// known: this node's object can be read, so that new pods start as well.
		known bool
	}{
		"list and watch":         {[]simapi.Verb{simapi.List, simapi.Watch}, true},
		"every read of the node": {[]simapi.Verb{simapi.List, simapi.Watch, simapi.Get}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, cl := newClusterNode(t, 1)
			cl.create(
				aPod("crashes").script("app", "run-for", "3m"),
				aPod("probed").readiness(httpProbe("/")).script("app", "ready-for", "30s").script("app", "unready-for", "30s"),
				aPod("plain"),
			)
			w.until(time.Minute, "all are Ready", func() bool { return cl.allReady("crashes", "probed", "plain") })
			w.run(20 * time.Second)
			w.watch.restartsExpected = true
			ids := cl.get("plain").Status.ContainerStatuses[0].ContainerID
			cl.fault = refuseReads(c.refused...)
			begin := w.v.Now()
			w.restart()
			w.run(time.Second)
			if last := cl.renewed[len(cl.renewed)-1]; last.Before(begin) {
				w.failf("the lease was not renewed within a second")
			}
			cl.create(aPod("fresh"))
			shown := len(cl.shown["probed"])
			w.run(5 * time.Minute)
			cl.renewedIn(begin, 12*time.Second)
			if cl.restarts("crashes", "app") < 1 {
				w.failf("a container that ended was not restarted, or nobody was told")
			}
			if n := len(cl.shown["probed"]) - shown; n < 3 {
				w.failf("the readiness of a pod that is probed was shown to change %d times", n)
			}
			if got := cl.ready("fresh"); got != c.known {
				w.failf("a new pod is Ready: %v", got)
			}
			if n := cl.node(); c.known && !nodeobject.Ready(&n.Status) {
				w.failf("the node is %+v", n.Status.Conditions)
			}
			cl.fault = nil
			w.until(time.Minute, "the new pod is Ready", func() bool { return cl.ready("fresh") })
			if got := cl.get("plain").Status.ContainerStatuses[0]; got.ContainerID != ids || got.RestartCount > 0 {
				w.failf("a pod that ran was started anew: %+v", got)
			}
		})
	}
}
