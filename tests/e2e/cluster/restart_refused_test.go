package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/apiproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// nodeReads are lists and watches of nodes; with alsoGet every read of one.
func nodeReads(alsoGet bool) func(*http.Request) bool {
	return func(r *http.Request) bool {
		path := r.URL.Path
		return r.Method == http.MethodGet && (path == "/api/v1/nodes" || alsoGet && strings.HasPrefix(path, "/api/v1/nodes/"))
	}
}

// TestRestartWhileWatchesAreRefused kills the agent and starts it again while the apiserver lets nobody
// list or watch nodes, or read one, for longer than a lease is good: the node stays Ready, what ran is
// looked after, and a new pod starts if the node can be read at all.
//
//tier:served
func TestRestartWhileWatchesAreRefused(t *testing.T) {
	t.Parallel()
	plane(t)
	for name, alsoGet := range map[string]bool{"watch": false, "all-reads": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p **apiproxy.Proxy
			b := started(t, "refused-"+name, onServed, func(s *setup) { p = proxied(t, s) })
			before := b.many(t, 2)
			b.create(t, b.pod("crashes", work("sleep 30s then exit 3")))
			b.awaitPod(t, "crashes", "runs", phase(v1.PodRunning))
			crashes := b.get(t, "crashes").Status.ContainerStatuses[0].RestartCount
			a := b.audit(t)
			b.kill(t)
			(*p).BeginFor(nodeReads(alsoGet), apiproxy.Status(http.StatusTooManyRequests, "TooManyRequests", "too many requests, please try again later", time.Second))
			b.start(t)
			began := time.Now()
			b.create(t, b.pod("joins", nil))
			b.staysReady(t, began, time.Minute)
			b.awaitPod(t, "crashes", "was restarted", func(p *v1.Pod) error {
				n := p.Status.ContainerStatuses[0].RestartCount
				return check.That(n > crashes, "restarts: %d", n)
			})
			if !alsoGet {
				b.awaitPod(t, "joins", "is ready", ready)
			}
			(*p).End()
			b.awaitPod(t, "joins", "is ready", ready)
			b.awaitNode(t, "is ready for pods", usable)
			for name, id := range before {
				if p := b.get(t, name); running(p)["app"] != id || ready(p) != nil {
					t.Errorf("pod %s is %s", name, shown(p))
				}
			}
			found, _ := a.result()
			for _, what := range found {
				if !strings.HasPrefix(what, "pod crashes:") && !strings.HasPrefix(what, "pod joins:") {
					t.Error(what)
				}
			}
		})
	}
}

// staysReady looks at the node's lease and at its readiness for so long, from when the agent began.
func (b *bed) staysReady(t *testing.T, began time.Time, length time.Duration) {
	t.Helper()
	var last *coordinationv1.Lease
	renewals := 0
	check.Fatal(t, lab.Eventually(t.Context(), length+patience, "the lease is renewed over and over", func() error {
		l := check.Must(b.admin.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(t.Context(), b.name, metav1.GetOptions{}))
		if last != nil && !l.Spec.RenewTime.Equal(last.Spec.RenewTime) {
			renewals++
			check.AtMost(t, l.Spec.RenewTime.Sub(last.Spec.RenewTime.Time), 40*time.Second, "the lease was not renewed for")
		}
		last = l
		if err := usable(b.node(t)); err != nil {
			t.Errorf("%v after the start: %v", time.Since(began).Round(time.Second), err)
			return nil
		}
		if end := began.Add(length); l.Spec.RenewTime.Time.Before(end) {
			return fmt.Errorf("%d renewals, the last %v before the end", renewals, end.Sub(l.Spec.RenewTime.Time).Round(time.Second))
		}
		return nil
	}))
	t.Logf("the lease was renewed %d times in %v", renewals, length)
}
