package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/served"
)

var shared = lab.Shared{Name: "isolation"}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// held are the calls of the runtime that hang, those of one node in a line: at most one of them keeps a slot of
// each pool. The pod that it is for may go on with another, so that with a visitor three are in use.
var held = [][]string{
	{"PullImage", "StopPodSandbox", "RunPodSandbox"},
	{"ExecSync", "RemovePodSandbox", "CreateContainer"},
	{"ImageStatus", "StopContainer", "StartContainer"},
	{"PodSandboxStatus", "ContainerStatus", "RemoveContainer"},
}

// processors: the agent has twice as many slots.
var processors = lab.NewRequirement("two processors", func() error {
	n := runtime.NumCPU()
	return check.That(n >= 2, "there is %d", n)
})

// visitors is how many pods come and go beside the calls of a node, one after the other.
const visitors = 20

// patience is for what takes a moment, on a busy machine too. Nothing here is a measurement.
const patience = 2 * time.Minute

// TestOthersDoNotWait: one call of the runtime hangs for one pod. Others start and end meanwhile, and none of
// their calls waits for a slot, or for something that is done for another pod.
//
//tier:served
func TestOthersDoNotWait(t *testing.T) {
	for _, methods := range held {
		t.Run(strings.Join(methods, "+"), func(t *testing.T) {
			t.Parallel()
			newBed(t).othersDoNotWait(t, methods)
		})
	}
}

// bed is an agent beside a runtime whose calls can be made to hang.
type bed struct {
	*node.Agent
	runtime *served.Runtime
	proxy   *criproxy.Proxy
	last    string // the visitor that has ended last
}

func newBed(t *testing.T) *bed {
	t.Helper()
	lab.Need(t, lab.Root, lab.GoToolchain, lab.Gcc, processors)
	dir := check.Value(os.MkdirTemp(shared.Dir, ""))(t)
	binary := check.Value(shared.Raced())(t)
	b := &bed{}
	b.runtime = check.Value(served.Start(served.Config{Dir: filepath.Join(dir, "c")}))(t)
	b.proxy = check.Value(criproxy.Start(criproxy.Config{
		Socket: filepath.Join(dir, "proxy.sock"), Target: strings.TrimPrefix(b.runtime.Endpoint(), "unix://"),
	}))(t)
	b.Agent = check.Value(node.New(node.Config{
		Binary: binary, Dir: filepath.Join(dir, "n"), Endpoint: b.proxy.Endpoint(), Env: []string{"GORACE=atexit_sleep_ms=0"},
		Settings: "fileCheckFrequency: 1s\n",
	}))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the agent's log:\n%s", b.LogTail(6000))
		}
		check.Error(t, errors.Join(b.Stop(context.Background()), b.proxy.Close(), b.runtime.Cleanup(context.Background())))
		check.Equal(t, b.Races(), "", "the agent has a data race")
		check.Error(t, errors.Join(b.Discard(), os.RemoveAll(dir)))
	})
	check.Fatal(t, b.Start(t.Context()))
	return b
}

func (b *bed) othersDoNotWait(t *testing.T, methods []string) {
	rules, calls, begun := map[string]*criproxy.Rule{}, 0, time.Now()
	for i, m := range methods {
		rule, n := b.hold(t, m, visitor(i))
		rules[m], calls = rule, calls+n
	}
	hang := func() error {
		for m, r := range rules {
			if r.Waiting() != 1 {
				return fmt.Errorf("%d calls of %s hang", r.Waiting(), m)
			}
		}
		return nil
	}
	for i := len(methods); i < visitors; i++ {
		calls += b.goes(t, visitor(i), b.comes(t, visitor(i)))
	}
	if err := hang(); err != nil {
		t.Errorf("the others were not beside calls that hang: %v", err)
	}
	t.Logf("%d pods came and went within %v, by %d calls", visitors, time.Since(begun).Round(time.Millisecond), calls)
	b.proxy.Release()
	for _, m := range methods {
		if err := b.Remove(strings.ToLower(m) + ".yaml"); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	await(t, "nothing is left of any pod", func() error {
		world, err := node.Look(t.Context(), b.runtime)
		if err == nil {
			err = world.Empty()
		}
		return err
	})
}

func visitor(i int) string { return fmt.Sprint("visitor", i) }

// hold makes one call of a method hang, for a pod of its own. At once a visitor starts or, if it is a call that ends
// something, ends: a call that hangs gives its slot back a moment later. calls are the visitor's.
func (b *bed) hold(t *testing.T, method, visitor string) (rule *criproxy.Rule, calls int) {
	t.Helper()
	name := strings.ToLower(method)
	image := "troupe.local/demo/work:" + name
	match := criproxy.OfPod(name)
	if strings.Contains(method, "Image") {
		match = criproxy.OfImage(image)
	}
	ends := slices.Contains([]string{"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"}, method)
	uid := ""
	if ends {
		b.write(t, name, image)
		b.awaitReady(t, name)
		uid = b.comes(t, visitor)
	}
	rule = check.Value(b.proxy.Inject(criproxy.Fault{Method: method, Match: match, Do: criproxy.Hold, Times: 1}))(t)
	if ends {
		check.Fatal(t, b.Remove(name+".yaml"))
	} else {
		b.write(t, name, image)
	}
	await(t, "a call of "+method+" hangs", func() error { return check.That(rule.Waiting() != 0, "none does") })
	if !ends {
		uid = b.comes(t, visitor)
	}
	return rule, b.goes(t, visitor, uid)
}

// manifest is a pod that has each kind of call: images that are looked up and pulled, containers that end
// and that are stopped, and a command that says whether it is ready.
const manifest = `apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: first, image: "%[2]s", args: [print, first], imagePullPolicy: IfNotPresent}
  containers:
  - name: app
    image: "%[2]s-always"
    args: [sleep]
    imagePullPolicy: Always
    readinessProbe: {exec: {command: [/work, print, ready]}, periodSeconds: 1}
`

func (b *bed) write(t *testing.T, name, image string) {
	t.Helper()
	for _, image := range []string{image, image + "-always"} {
		b.runtime.Push(image, "work")
	}
	check.Fatal(t, b.Write(name+".yaml", fmt.Sprintf(manifest, name, image)))
}

func (b *bed) awaitReady(t *testing.T, name string) (uid string) {
	t.Helper()
	await(t, "pod "+name+" is ready", func() error {
		view := check.Must(b.Pods(t.Context()))
		p, _ := view.Pod(name)
		if !p.Ready {
			return fmt.Errorf("%+v", p)
		}
		uid = p.UID
		return nil
	})
	return uid
}

// comes starts a visitor and returns its UID.
func (b *bed) comes(t *testing.T, name string) (uid string) {
	t.Helper()
	b.write(t, name, lab.WorkImage)
	return b.awaitReady(t, name)
}

// goes ends a visitor, and fails the test if one of its calls waited for others. It returns how many calls there
// were.
func (b *bed) goes(t *testing.T, name, uid string) (calls int) {
	t.Helper()
	// What is left of dead pods is removed when no more come for a while: that of many would need all slots at once.
	await(t, "nothing is left of pod "+b.last, func() error {
		world, err := node.Look(t.Context(), b.runtime)
		if err != nil || b.last == "" {
			return err
		}
		return world.Of(b.last).Empty()
	})
	b.last = name
	check.Fatal(t, b.Remove(name+".yaml"))
	var line admin.Timeline
	await(t, "pod "+name+" has ended", func() (err error) {
		line, err = admin.Client{Socket: admin.SocketIn(b.Root())}.Timeline(t.Context(), uid)
		if err == nil && line.Ended == nil {
			err = errors.New("it goes on")
		}
		return err
	})
	check.AtMost(t, line.Dropped, 0, "the timeline of pod %s lacks %d entries", name, line.Dropped)
	seen := map[string]bool{}
	for _, e := range line.Entries {
		if e.Kind != timeline.Call.String() {
			continue
		}
		calls += int(max(e.Count, 1))
		seen[e.What] = true
		// A pod's own calls wait for each other, and so do writes of the file of all pulls.
		shared := e.By != "" && slices.Contains(slices.Concat(held...), e.What)
		if e.WaitedFor != "" && (e.WaitedFor != kernel.WaitedForLane || shared) {
			t.Errorf("pod %s: %s %s %s waited %v for %s", name, e.By, e.What, e.Object, e.Waited, e.WaitedFor)
		}
	}
	for _, what := range []string{"PullImage", "RunPodSandbox", "CreateContainer", "StartContainer", "StopPodSandbox"} {
		if !seen[what] {
			t.Errorf("the timeline of pod %s has no %s: %v", name, what, seen)
		}
	}
	return calls
}

// await polls until condition holds.
func await(t *testing.T, what string, condition func() error) {
	t.Helper()
	check.Fatal(t, lab.Eventually(t.Context(), patience, what, condition))
}
