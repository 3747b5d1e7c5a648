package apiserver

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/tcpproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// back is how soon after the end of an outage all must have been told.
const back = 5 * time.Second

// TestOutage breaks the way to the apiserver in all the ways there are, while
// things happen, and wants to be told of all of them soon after.
//
//tier:served
func TestOutage(t *testing.T) {
	c := plane(t)
	ctx := t.Context()
	do := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []struct {
		name  string
		begin func(*testing.T, *tcpproxy.Proxy)
		// lasts is from its beginning to its end, during which noticed is expected.
		lasts   time.Duration
		noticed bool
		end     func(*testing.T, *tcpproxy.Proxy)
	}{
		{
			name:  "ConnectionReset",
			begin: func(_ *testing.T, p *tcpproxy.Proxy) { p.Reset() },
			end:   func(*testing.T, *tcpproxy.Proxy) {},
		},
		{
			name:  "Refused",
			begin: func(_ *testing.T, p *tcpproxy.Proxy) { p.Cut() }, lasts: 5 * time.Second, noticed: true,
			end: func(t *testing.T, p *tcpproxy.Proxy) { do(t, p.Heal()) },
		},
		{
			name:  "HangsShortly", // not long enough to be noticed
			begin: func(_ *testing.T, p *tcpproxy.Proxy) { p.Hang() }, lasts: 3 * time.Second,
			end: func(t *testing.T, p *tcpproxy.Proxy) { do(t, p.Heal()) },
		},
		{
			name:  "Hangs", // until the connection is given up, and new ones hang too
			begin: func(_ *testing.T, p *tcpproxy.Proxy) { p.Hang() }, lasts: 20 * time.Second, noticed: true,
			end: func(t *testing.T, p *tcpproxy.Proxy) { do(t, p.Heal()) },
		},
		{
			name:  "HangsAndReturnsAnew", // a firewall that forgot the connections
			begin: func(_ *testing.T, p *tcpproxy.Proxy) { p.Hang() }, lasts: 16 * time.Second, noticed: true,
			end: func(t *testing.T, p *tcpproxy.Proxy) { p.Reset(); do(t, p.Heal()) },
		},
		{
			name:  "APIServerKilled",
			begin: func(t *testing.T, _ *tcpproxy.Proxy) { do(t, c.KillAPIServer(ctx)) }, lasts: 3 * time.Second, noticed: true,
			end: func(t *testing.T, _ *tcpproxy.Proxy) { do(t, c.StartAPIServer(ctx)) },
		},
		{
			name:  "APIServerStopped",
			begin: func(t *testing.T, _ *tcpproxy.Proxy) { do(t, c.StopAPIServer(ctx)) }, lasts: 3 * time.Second, noticed: true,
			end: func(t *testing.T, _ *tcpproxy.Proxy) { do(t, c.StartAPIServer(ctx)) },
		},
		{
			// The resource version that the watch has is gone by its end (410).
			name: "HistoryGone",
			begin: func(t *testing.T, p *tcpproxy.Proxy) {
				p.Cut()
			}, lasts: 2 * time.Second, noticed: true,
			end: func(t *testing.T, p *tcpproxy.Proxy) {
				do(t, c.CompactEtcd(ctx))
				do(t, c.RestartAPIServer(ctx))
				do(t, p.Heal())
			},
		},
	} {
		t.Run(o.name, func(t *testing.T) {
			noLeaks(t)
			a, p := admin(t), proxy(t)
			var log lines
			n := client(t, as(t, lab.Identity{
				User: "system:node:" + nodeName, Groups: []string{"system:nodes"}, Server: "https://" + p.Address(),
			}), zerolog.New(&log))
			made(t, a, node(nodeName))
			kept, gone := made(t, a, pod("kept", nodeName)), made(t, a, pod("gone", nodeName))
			pods := follow(t, n, port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + nodeName})
			pods.until("the first list", time.Minute, isReplaced)
			services := follow(t, n, port.Selection{Kind: port.ServiceKind})
			services.until("the first list", time.Minute, isReplaced)

			began := time.Now()
			// What the apiserver is asked to do before it goes, the client behind the
			// proxy does not hear; where it goes itself, it is done right before.
			if o.name == "APIServerKilled" || o.name == "APIServerStopped" {
				o.begin(t, p)
			} else {
				o.begin(t, p)
				do(t, remove(t, a, gone))
				_, err := patch(t, a, port.APIPatch{From: kept, To: labelled(kept, "during", "outage")})
				do(t, err)
			}
			if o.noticed {
				broken := pods.until("that it is broken", o.lasts, isBroken).(port.APIBroken)
				wantKind(t, "the apiserver is gone", broken.Err, port.Unavailable)
			}
			if left := o.lasts - time.Since(began); left > 0 {
				<-time.After(left)
			}
			o.end(t, p)
			returned := time.Now()
			if o.name == "APIServerKilled" || o.name == "APIServerStopped" {
				do(t, remove(t, a, gone))
				_, err := patch(t, a, port.APIPatch{From: kept, To: labelled(kept, "during", "outage")})
				do(t, err)
			}
			known := map[string]bool{"gone": true}
			pods.until("what happened", back, func(c port.APIChange) bool {
				switch c := c.(type) {
				case port.APIReplaced:
					known["gone"] = false
					for _, o := range c.Objects {
						known[o.GetName()] = true
					}
				case port.APIDeleted:
					known[c.Object.GetName()] = false
				case port.APIBroken:
					t.Logf("%v after: %v", time.Since(returned), c.Err)
				}
				known["changed"] = known["changed"] || shows("kept", "during", "outage")(c)
				return known["changed"] && !known["gone"]
			})
			t.Logf("told of all %v after", time.Since(returned))
			// A write works as soon as that.
			running := kept.DeepCopy()
			running.Status.Phase = v1.PodRunning
			eventually(t, "report on the pod", func() error {
				_, err := patch(t, n, port.APIPatch{From: kept, To: running, Status: true})
				return err
			})
			if took := time.Since(returned); took > back {
				t.Errorf("a report took until %v after the end of the outage", took)
			}
			svc := made(t, a, &v1.Service{ObjectMeta: pod("svc", "").ObjectMeta, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}}})
			services.until("a service", back, shows(svc.Name, "", ""))

			silent, again := log.with("does not answer"), log.with("answers again")
			if o.noticed && (len(silent) != 1 || len(again) != 1) || len(silent) > 1 || len(again) != len(silent) {
				t.Errorf("the log says %q and %q, want one line each", silent, again)
			}
		})
	}
}

// TestManyWatches: a node has a watch for each secret that its pods name. They
// are all back in time, and it is said once.
//
//tier:served
func TestManyWatches(t *testing.T) {
	noLeaks(t)
	p := proxy(t)
	var log lines
	n := client(t, as(t, lab.Identity{User: "test-many", Groups: []string{"system:masters"}, Server: "https://" + p.Address()}), zerolog.New(&log))
	const many = 200
	watches := make([]*told, many)
	for i := range watches {
		watches[i] = follow(t, n, port.Selection{Kind: port.ConfigMapKind, Namespace: "default", Field: "metadata.name=many"})
	}
	for _, w := range watches {
		w.until("the first list", time.Minute, isReplaced)
	}
	// 100 requests fit on one. How many more there are is a matter of moments, but
	// not one for each watch.
	const few = many / 2
	before := p.Accepted()
	check.AtMost(t, before, few, "%d connections, want few", before)
	p.Cut()
	for _, w := range watches {
		w.until("that it is broken", time.Minute, isBroken)
	}
	made(t, admin(t), configMap("many", nil))
	check.Fatal(t, p.Heal())
	healed := time.Now()
	for _, w := range watches {
		w.until("the object", time.Minute, shows("many", "", "")) // how soon, TestOutage says
	}
	t.Logf("%d watches were told within %v", many, time.Since(healed))
	if more := p.Accepted() - before; more > few {
		t.Errorf("%d more connections, want few", more)
	}
	if silent, again := log.with("does not answer"), log.with("answers again"); len(silent) != 1 || len(again) != 1 {
		t.Errorf("the log says %q and %q, want one line each", silent, again)
	}
}
