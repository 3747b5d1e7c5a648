package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// behindProxy is a node whose agent talks to its runtime through a proxy. Its calls time out soon,
// so that late answers come to an agent that has given them up.
func behindProxy(t *testing.T, release lab.Release, change ...func(*Config)) (*bed, *criproxy.Proxy) {
	t.Helper()
	return behindProxyOf(t, release, criproxy.Config{}, change...)
}

// behindProxyOf is behindProxy with more of the proxy's configuration.
func behindProxyOf(
	t *testing.T, release lab.Release, config criproxy.Config, change ...func(*Config),
) (*bed, *criproxy.Proxy) {
	t.Helper()
	soon := func(c *Config) { c.Settings = "runtimeRequestTimeout: 20s\n" }
	b := newBed(t, release, append([]func(*Config){soon}, change...)...)
	config.Socket, config.Target = filepath.Join(filepath.Dir(b.dir), "p.sock"), b.lab.SocketPath()
	proxy := check.Value(criproxy.Start(config))(t)
	t.Cleanup(func() { // before the bed's own
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check.Error(t, errors.Join(b.Stop(ctx), proxy.Close()))
	})
	b.SetEndpoint(proxy.Endpoint())
	b.start(t)
	return b, proxy
}

func inject(t *testing.T, p *criproxy.Proxy, f criproxy.Fault) *criproxy.Rule {
	t.Helper()
	rule := check.Value(p.Inject(f))(t)
	return rule
}

// hangs are the calls that hang, each of another pod: those of a start, and those of an end. Some have a short
// deadline of their own, the others that of runtimeRequestTimeout or none.
var hangs = []struct {
	method        string
	ending, short bool
}{
	{"RunPodSandbox", false, false},
	{"PodSandboxStatus", false, true},
	{"PullImage", false, false},
	{"ImageStatus", false, true},
	{"CreateContainer", false, false},
	{"StartContainer", false, false},
	{"ExecSync", true, true},
	{"StopContainer", true, false},
	{"StopPodSandbox", true, false},
	{"RemovePodSandbox", true, false},
}

func hungPod(method string) string { return "hung-" + strings.ToLower(method) }

// TestHungCalls hangs a call of each of ten pods, each in another RPC, while ten others start
// and stop. Most of these calls do not time out meanwhile: others that waited for one would wait
// for ever. When the calls are answered, nothing is doubled and nothing left.
//
//tier:real
func TestHungCalls(t *testing.T) {
	onNewest(t, func(t *testing.T, release lab.Release) {
		b, proxy := behindProxy(t, release, func(c *Config) { c.Settings = "runtimeRequestTimeout: 30m\n" })
		rules := map[string]*criproxy.Rule{}
		for _, h := range hangs {
			name, image := hungPod(h.method), lab.WorkImage
			fault := criproxy.Fault{Method: h.method, Match: criproxy.OfPod(name), Do: criproxy.Hold}
			if strings.Contains(h.method, "Image") {
				image = b.alias(t, name)
				fault.Match = criproxy.OfImage(image)
			}
			if !h.ending {
				rules[h.method] = inject(t, proxy, fault)
			}
			grace := "2"
			if h.method == "ExecSync" {
				grace = "30" // a hook hangs no longer than that
			}
			b.apply(t, name+".yaml", hungManifest, "$NAME", name, "$IMAGE", image, "$GRACE", grace)
			if h.ending {
				b.awaitRunning(t, name)
				b.awaitLines(t, name, 1)
				rules[h.method] = inject(t, proxy, fault)
				b.remove(t, name+".yaml")
			}
		}
		b.await(t, "every call hangs", func() error {
			for _, h := range hangs {
				if rules[h.method].Waiting() == 0 {
					return fmt.Errorf("%s does not", h.method)
				}
			}
			return nil
		})
		shown := map[string]bool{}
		b.await(t, "the tree has shown each hung call", func() error {
			// Not all at a time: one that timed out is made again only after a while.
			tree := check.Must(b.Tree(t.Context()))
			for _, a := range tree.Actors {
				for _, e := range a.Effects {
					shown[strings.ToLower(e.Kind)] = !e.Since.IsZero()
				}
			}
			for _, h := range hangs {
				if !shown[strings.ToLower(h.method)] {
					return fmt.Errorf("not %s; it has shown %v", h.method, slices.Sorted(maps.Keys(shown)))
				}
			}
			return nil
		})

		calls := map[string]int{}
		for method, rule := range rules {
			calls[method] = len(rule.Hits())
		}
		const others = 10
		for i := range others {
			b.apply(t, fmt.Sprintf("other-%d.yaml", i), restarts(fmt.Sprintf("other-%d", i), "Always", "sleep"))
		}
		for i := range others {
			b.awaitLines(t, fmt.Sprintf("other-%d", i), 1)
		}
		for i := range others {
			b.awaitRunning(t, fmt.Sprintf("other-%d", i))
			b.remove(t, fmt.Sprintf("other-%d.yaml", i))
		}
		b.await(t, "the others are gone", func() error {
			for i := range others {
				check.OK(b.look(t).Of(fmt.Sprintf("other-%d", i)).Empty())
			}
			return nil
		})
		for _, h := range hangs {
			if rules[h.method].Waiting() == 0 {
				t.Errorf("%s did not hang all the time", h.method)
			}
			if n := len(rules[h.method].Hits()); n != calls[h.method] && !h.short {
				t.Errorf("%s was made %d times, then %d times: it did not hang all the time", h.method, calls[h.method], n)
			}
		}

		for _, h := range hangs {
			rules[h.method].Release()
		}
		for _, h := range hangs {
			check.Fatal(t, rules[h.method].Settle(t.Context()))
		}
		for _, h := range hangs {
			if !h.ending {
				b.awaitLines(t, hungPod(h.method), 1)
				b.awaitRunning(t, hungPod(h.method))
			}
		}
		b.noneDoubled(t)
		for _, h := range hangs {
			if n := len(b.lines(hungPod(h.method))); n != 1 {
				t.Errorf("the program of %s was started %d times", hungPod(h.method), n)
			}
			if !h.ending {
				b.remove(t, hungPod(h.method)+".yaml")
			}
		}
		b.awaitNothing(t)
	})
}

const hungManifest = `
apiVersion: v1
kind: Pod
metadata: {name: $NAME}
spec:
  terminationGracePeriodSeconds: $GRACE
  containers:
  - name: main
    image: $IMAGE
    imagePullPolicy: IfNotPresent
    args: [append, /f/$NAME, started, then, sleep]
    lifecycle: {preStop: {exec: {command: [/work, print, bye]}}}
    volumeMounts: [{name: f, mountPath: /f}]
  volumes: [{name: f, hostPath: {path: $FILES}}]
`

// alias serves the work image under a name of its own, which nobody has pulled yet.
func (b *bed) alias(t *testing.T, name string) string {
	t.Helper()
	repository := check.Value(lab.Repository())(t)
	image := check.Value(lab.ProgramImage(t.Context(), repository, "work"))(t)
	ref := "troupe.local/demo/" + name + ":v1"
	check.Fatal(t, b.lab.Registry().Push(t.Context(), ref, image))
	return ref
}

// awaitNothing waits until nothing is left of any pod.
func (b *bed) awaitNothing(t *testing.T) {
	t.Helper()
	b.await(t, "nothing is left of any pod", func() error {
		check.OK(b.look(t).Empty())
		left := Leftovers(b.Daemon, b.lab)
		return check.That(len(left) == 0, "left: %s", strings.Join(left, "; "))
	})
}

// TestLostAnswers loses the answer of each kind of call that changes something: the runtime has
// done it and the agent does not know. It must find out, and neither double nor leak.
//
//tier:all repeats the chaos sweep
func TestLostAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, release lab.Release) {
		b, proxy := behindProxy(t, release)
		methods := []string{"RunPodSandbox", "PullImage", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemovePodSandbox", "RemoveContainer"}
		uids := map[string]string{}
		for _, method := range methods {
			name, image := "lost-"+strings.ToLower(method), lab.WorkImage
			match := criproxy.OfPod(name)
			if method == "PullImage" {
				image = b.alias(t, name)
				match = criproxy.OfImage(image)
			}
			inject(t, proxy, criproxy.Fault{Method: method, Match: match, Do: criproxy.LoseAnswer, Times: 2})
			b.apply(t, name+".yaml", hungManifest, "$NAME", name, "$IMAGE", image, "$GRACE", "2")
		}
		for _, method := range methods {
			name := "lost-" + strings.ToLower(method)
			b.awaitLines(t, name, 1)
			uids[name] = b.awaitRunning(t, name).UID
		}
		b.noneDoubled(t)
		for _, method := range methods {
			name := "lost-" + strings.ToLower(method)
			if n := len(b.lines(name)); n != 1 && method != "StartContainer" {
				t.Errorf("the program of %s was started %d times", name, n)
			}
			b.remove(t, name+".yaml")
		}
		for name, uid := range uids {
			b.awaitGone(t, name, uid)
		}
		b.awaitNothing(t)
	})
}

// TestEventsBreak breaks the stream of events. A container that ends meanwhile is found by a list. Once the agent
// has the stream again, a container's end is seen by its event: lists are refused then.
//
//tier:real
func TestEventsBreak(t *testing.T) {
	t.Parallel()
	var events atomic.Int32
	b, proxy := behindProxyOf(t, lab.Containerd2, criproxy.Config{
		Event: func(*runtimeapi.ContainerEventResponse) criproxy.Fate {
			events.Add(1)
			return criproxy.Fate{}
		},
	})
	for _, name := range []string{"first", "second"} {
		b.apply(t, name+".yaml", restarts(name, "Always", "sleep"))
		b.awaitRunning(t, name)
		b.awaitLines(t, name, 1)
	}
	before := proxy.Calls()["GetContainerEvents"]
	stream := inject(t, proxy, criproxy.Fault{Method: "GetContainerEvents", Do: criproxy.Refuse})
	// Only a new stream can be refused: the runtime's restart ends the one that is there.
	check.Fatal(t, b.lab.Restart(t.Context()))
	b.await(t, "the agent asks for events again", func() error {
		return check.That(len(stream.Hits()) != 0, "it does not")
	})
	events.Store(0)
	b.killOne(t, "first")
	b.awaitLines(t, "first", 2)
	check.Count(t, events.Load(), 0, "%d events came while there was no stream")

	stream.Release()
	b.await(t, "the agent opens the stream again", func() error {
		return check.That(proxy.Calls()["GetContainerEvents"]-len(stream.Hits()) > before, "it does not")
	})
	b.apply(t, "tells.yaml", restarts("tells", "Always", "sleep"))
	tells := b.awaitRunning(t, "tells")
	b.remove(t, "tells.yaml")
	b.awaitGone(t, "tells", tells.UID)
	b.await(t, "events come again", func() error { return check.That(events.Load() != 0, "there are none") })
	lists := inject(t, proxy, criproxy.Fault{Match: isFullList, Do: criproxy.Refuse})
	b.killOne(t, "second")
	b.awaitLines(t, "second", 2)
	lists.Release()
	b.noneDoubled(t)
}

// isFullList matches lists of all pods, not those of one.
func isFullList(c criproxy.Call) bool {
	switch r := c.Request.(type) {
	case *runtimeapi.ListPodSandboxRequest:
		return r.GetFilter() == nil
	case *runtimeapi.StreamPodSandboxesRequest:
		return r.GetFilter() == nil
	}
	return false
}
