package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/apiproxy"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/tcpproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// back is how soon after an outage the apiserver must have been told everything.
const back = 5 * time.Second

// outageVariable makes outages longer, as 5m does. From about 50 s on the node controller, if it runs,
// says of the node that nobody hears of it, and of its pods that they are not ready.
const (
	outageVariable = "TROUPE_OUTAGE"
	outageNoticed  = 40 * time.Second
)

func outageLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(outageVariable)
	if text == "" {
		return lab.Size(16*time.Second, 30*time.Second) // a client notices within 16 s that nobody answers
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", outageVariable, err)
	}
	return d
}

// outage is a way for an apiserver to be away. Its functions may be called by any goroutine.
type outage struct {
	begin, end func(context.Context) error
	// everywhere: it is away for the user as well.
	everywhere bool
}

// apiserverAway is an apiserver that is away while containers crash and pods finish: within five
// seconds of its return it knows all of it, and nothing was restarted that should not.
func apiserverAway(t *testing.T, own func(*setup)) {
	b := started(t, "apiserver-away", onServed, own)
	b.outage(t, outage{begin: b.plane.KillAPIServer, end: b.plane.StartAPIServer, everywhere: true})
}

// TestApiserverUnreachable is the same for an apiserver that is there, and that one node can't reach or
// gets no sense out of. What users ask for meanwhile is done when it can.
//
//tier:served
func TestApiserverUnreachable(t *testing.T) {
	t.Parallel()
	plane(t)
	unavailable := func(code int, reason string, after time.Duration) apiproxy.Answer {
		return apiproxy.Status(code, reason, "etcdserver: request timed out", after)
	}
	ways := map[string]func(*testing.T, *setup) outage{
		// Connections are refused.
		"refused": throughNetwork(func(p *tcpproxy.Proxy) error { p.Cut(); return nil }, (*tcpproxy.Proxy).Heal),
		// Packets are swallowed, and connections stay.
		"silent": throughNetwork(func(p *tcpproxy.Proxy) error { p.Hang(); return nil }, (*tcpproxy.Proxy).Heal),
		// The same, and what was in the way has forgotten the connections.
		"forgotten": throughNetwork(func(p *tcpproxy.Proxy) error { p.Hang(); return nil }, func(p *tcpproxy.Proxy) error {
			p.Reset()
			return p.Heal()
		}),
		"errors":  throughProxy(unavailable(http.StatusInternalServerError, "InternalError", 0)),
		"busy":    throughProxy(unavailable(http.StatusTooManyRequests, "TooManyRequests", time.Second)),
		"no-page": throughProxy(apiproxy.Page(http.StatusBadGateway)),
		"a-page":  throughProxy(apiproxy.Page(http.StatusOK)),
		"drips":   throughProxy(apiproxy.Drip(time.Second)),
	}
	if !lab.Full() { // the package apiserver has all of them, without a node
		ways = map[string]func(*testing.T, *setup) outage{"forgotten": ways["forgotten"]}
	}
	for name, make := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o outage
			b := started(t, "away-"+name, onServed, func(s *setup) { o = make(t, s) })
			b.outage(t, o)
		})
	}
}

// throughNetwork puts a proxy into the agent's way that knows nothing of what is said.
func throughNetwork(begin, end func(*tcpproxy.Proxy) error) func(*testing.T, *setup) outage {
	return func(t *testing.T, s *setup) outage {
		t.Helper()
		p := check.Value(tcpproxy.New(plane(t).Address()))(t)
		t.Cleanup(p.Close)
		s.identity.Server = "https://" + p.Address()
		return outage{
			begin: func(context.Context) error { return begin(p) },
			end:   func(context.Context) error { return end(p) },
		}
	}
}

// throughProxy puts a proxy into the agent's way that answers in the apiserver's place.
func throughProxy(answer apiproxy.Answer) func(*testing.T, *setup) outage {
	return func(t *testing.T, s *setup) outage {
		t.Helper()
		p := proxied(t, s)
		return outage{
			begin: func(context.Context) error { (*p).Begin(answer); return nil },
			end: func(context.Context) error {
				t.Logf("it asked %d times meanwhile", (*p).Asked())
				(*p).End()
				return nil
			},
		}
	}
}

// proxied puts a proxy into the agent's way. It is there once the bed is.
func proxied(t *testing.T, s *setup) **apiproxy.Proxy {
	t.Helper()
	var p *apiproxy.Proxy
	t.Cleanup(func() { // after the bed's own
		if p != nil {
			p.Close()
		}
	})
	s.through = func(kubeconfig string) (string, error) {
		var err error
		if p, err = apiproxy.New(kubeconfig); err != nil {
			return "", err
		}
		through := filepath.Join(t.TempDir(), "kubeconfig")
		return through, p.Kubeconfig(kubeconfig, through)
	}
	return &p
}

func (b *bed) outage(t *testing.T, o outage) {
	length := outageLength(t)
	before := b.many(t, 2)
	b.create(t, b.pod("crashes", work("sleep 8s then exit 3")))
	ends := func(steps string) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			work(steps)(s)
			s.RestartPolicy = v1.RestartPolicyNever
		}
	}
	b.create(t, b.pod("finishes", ends("sleep 10s then exit 0")))
	b.create(t, b.pod("fails", ends("sleep 9s then exit 4")))
	b.create(t, b.pod("leaves", nil))
	for _, name := range []string{"crashes", "finishes", "fails", "leaves"} {
		b.awaitPod(t, name, "runs", phase(v1.PodRunning))
	}
	a := b.audit(t)
	check.Fatal(t, o.begin(t.Context()))
	began := time.Now()
	if !o.everywhere {
		b.remove(t, "leaves")
		b.create(t, b.pod("joins", func(s *v1.PodSpec) {
			// It is put there by hand: the scheduler leaves a node alone of which nobody hears.
			s.NodeName, s.NodeSelector = b.name, nil
			s.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		}))
	}
	b.await(t, "the agent has seen all end", func() error {
		view := check.Must(b.Pods(t.Context()))
		for name, want := range map[string]string{"finishes": "Succeeded", "fails": "Failed"} {
			if p, _ := view.Pod(name); p.Phase != want {
				return fmt.Errorf("pod %s is %s", name, p.Phase)
			}
		}
		p, _ := view.Pod("crashes")
		return check.That(p.Restarts != 0, "pod crashes was not restarted")
	})
	if left := length - time.Since(began); left > 0 {
		<-time.After(left)
	}
	truth := b.asTheAgentSees(t)
	if err := o.end(t.Context()); err != nil { // returns when it is ready
		t.Fatal(err)
	}
	returned := time.Now()
	b.awaitPod(t, "finishes", "has finished", phase(v1.PodSucceeded))
	b.awaitPod(t, "fails", "has failed", phase(v1.PodFailed))
	p := b.awaitPod(t, "crashes", "was restarted", func(p *v1.Pod) error {
		if c := p.Status.ContainerStatuses[0]; int(c.RestartCount) < truth["crashes"].Restarts || c.LastTerminationState.Terminated == nil {
			return fmt.Errorf("restarts %d of %d", c.RestartCount, truth["crashes"].Restarts)
		}
		return nil
	})
	for name := range before {
		b.awaitPod(t, name, "is ready", ready)
	}
	b.awaitNode(t, "is ready", func(n *v1.Node) error {
		c := condition(n, v1.NodeReady)
		return check.That(c.Status == v1.ConditionTrue, "it is %s: %s", c.Status, c.Message)
	})
	told := time.Since(returned)
	t.Logf("%s: after an outage of %v all was told within %v", b.name, length, told.Round(time.Millisecond))
	check.AtMost(t, told, back, "all was told within")
	if c := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; c.ExitCode != 3 {
		t.Errorf("the last end of pod crashes is %+v", c)
	}
	if !o.everywhere {
		b.awaitPod(t, "joins", "is ready", ready)
		joined := time.Since(returned)
		b.awaitGone(t, "leaves")
		t.Logf("a pod that was made meanwhile was ready after %v, and one that was deleted meanwhile gone after %v",
			joined.Round(time.Millisecond), time.Since(returned).Round(time.Millisecond))
	}
	for name, id := range before {
		if p := b.get(t, name); running(p)["app"] != id || ready(p) != nil || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s is %s", name, shown(p))
		}
	}
	found, writes := a.result()
	t.Logf("%d versions had another status", writes)
	for _, what := range found {
		if strings.HasPrefix(what, "pod web-") && (length < outageNoticed || strings.Contains(what, "container ")) {
			t.Error(what)
		}
	}
}

// asTheAgentSees are the pods by name, as troupe pods shows them.
func (b *bed) asTheAgentSees(t *testing.T) map[string]node.Pod {
	t.Helper()
	view := check.Value(b.Pods(t.Context()))(t)
	out := map[string]node.Pod{}
	for _, p := range view.Pods {
		out[p.Name] = p
	}
	return out
}
