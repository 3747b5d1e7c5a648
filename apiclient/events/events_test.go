package events

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a recorder with an apiserver, on a virtual clock.
type world struct {
	t       *testing.T
	v       *kernel.Virtual
	api     *simapi.Server
	r       *Recorder
	fault   func(simapi.Call) simapi.Fault
	calls   int
	dropped []error
	also    []port.Event
}

// Record implements port.Recorder.
func (w *world) Record(e port.Event) { w.also = append(w.also, e) }

func newWorld(t *testing.T, change func(*Config)) *world {
	w := &world{t: t, v: kernel.NewVirtual(1, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	w.api = check.Value(
		simapi.New(simapi.Config{Clock: w.v, Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(1, 2)) },
			Fault: func(c simapi.Call) simapi.Fault {
				w.calls++
				if w.fault != nil {
					return w.fault(c)
				}
				return simapi.Fault{}
			}}))(t)
	c := Config{API: w.api.Client("n1"), Clock: w.v, Component: "kubelet", Host: "n1", Deadline: 5 * time.Second, Retry: 2 * time.Second,
		Also: w, Dropped: func(_ port.Event, err error) { w.dropped = append(w.dropped, err) }}
	change(&c)
	w.r = check.Value(New(c))(t)
	return w
}

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name)},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "setup"}}, Containers: []v1.Container{{Name: "app"}},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
		},
	}
}

func (w *world) record(p *v1.Pod, container, reason, message string) {
	w.r.Record(port.Event{Pod: p, Container: container, Reason: reason, Message: message, Warning: reason == "BackOff", At: w.v.Now()})
}

// events are what the apiserver has, in order of their first time and name.
func (w *world) events() []*v1.Event {
	list, _ := check.Values(w.api.List(simapi.Select{Kind: port.EventKind}))(w.t)
	var out []*v1.Event
	for _, o := range list {
		out = append(out, o.(*v1.Event))
	}
	slices.SortFunc(out, func(a, b *v1.Event) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func TestWritten(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	p := pod("web")
	w.record(p, "app", "Pulling", "Pulling image \"a\"")
	w.record(p, "setup", "Pulling", "Pulling image \"b\"")
	w.record(p, "debug", "Created", "Container created")
	w.v.Advance(time.Second)
	w.record(p, "", "BackOff", strings.Repeat("ä", 600))
	w.r.Record(port.Event{Reason: "NoPod"})
	w.v.Advance(time.Second)
	all := w.events()
	w.r.Record(port.Event{Node: "n1", Reason: "NodeReady", At: w.v.Now()})
	w.v.Advance(time.Second)
	list := w.events()
	if e := list[0]; len(list) != 5 || e.Namespace != "default" || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.UID != "n1" || e.InvolvedObject.Namespace != "" {
		t.Errorf("of the node: %+v", e)
	}
	w.r.Record(port.Event{Reason: "Grown", At: w.v.Now(), Of: &v1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data", UID: "u-data"}})
	w.v.Advance(time.Second)
	if e := w.events()[0]; e.Namespace != "shop" || !strings.HasPrefix(e.Name, "data.") || e.InvolvedObject.UID != "u-data" ||
		e.InvolvedObject.Kind != "PersistentVolumeClaim" {
		t.Errorf("of a claim: %+v", e)
	}
	if len(all) != 4 || len(w.also) != 7 {
		t.Fatalf("got %d events, %d beside", len(all), len(w.also))
	}
	e := all[0]
	if e.Namespace != "default" || e.InvolvedObject.UID != "u-web" || e.InvolvedObject.FieldPath != "spec.containers{app}" || e.Type != "Normal" ||
		e.Source.Component != "kubelet" || e.Source.Host != "n1" || e.Count != 1 || !strings.HasPrefix(e.Name, "web.") || e.ReportingInstance != "n1" {
		t.Errorf("got %+v", e)
	}
	if all[1].InvolvedObject.FieldPath != "spec.initContainers{setup}" || all[2].InvolvedObject.FieldPath != "spec.ephemeralContainers{debug}" || all[3].InvolvedObject.FieldPath != "" {
		t.Errorf("field paths %q %q %q", all[1].InvolvedObject.FieldPath, all[2].InvolvedObject.FieldPath, all[3].InvolvedObject.FieldPath)
	}
	if m := all[3].Message; len(m) > 1024 || !strings.HasSuffix(m, "ä...") || all[3].Type != "Warning" {
		t.Errorf("message of %d bytes ends in %q", len(m), m[len(m)-8:])
	}
}

// TestCounted: the same again is counted, the like is put together, and what
// goes on and on is dropped.
func TestCounted(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	for range 5 {
		w.record(pod("web"), "app", "BackOff", "Back-off restarting failed container")
		w.v.Advance(time.Minute)
	}
	if all := w.events(); len(all) != 1 || all[0].Count != 5 || all[0].LastTimestamp.Sub(all[0].FirstTimestamp.Time) != 4*time.Minute {
		t.Fatalf("got %+v", all)
	}
	for i := range 20 {
		w.record(pod("other"), "app", "Unhealthy", fmt.Sprintf("probe %d failed", i))
		w.v.Advance(time.Second)
	}
	n, together := 0, 0
	for _, e := range w.events() {
		if e.InvolvedObject.Name == "other" {
			n++
			if strings.HasPrefix(e.Message, "(combined from similar events)") {
				together = int(e.Count)
			}
		}
	}
	if n != 10 || together < 10 {
		t.Errorf("%d events of the other, %d put together", n, together)
	}
	calls := w.calls
	for range 100 {
		w.record(pod("loud"), "app", "Failed", "the same")
		w.v.Advance(time.Second)
	}
	if n := w.calls - calls; n > 30 {
		t.Errorf("%d calls for 100 events of one pod", n)
	}
}

// TestAway: events wait while the apiserver is away, in order, but not without
// bound; one that was counted and is gone meanwhile is made anew.
func TestAway(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Queue = 8 })
	w.record(pod("web"), "app", "BackOff", "again")
	w.v.Advance(time.Second)
	for _, link := range []simapi.Link{simapi.Refused, simapi.Silent} {
		w.api.SetLink("n1", link)
		for i := range 10 {
			w.record(pod("web"), "app", fmt.Sprint(link, i), "")
		}
		w.v.Advance(5 * time.Minute)
		w.api.SetLink("n1", simapi.Up)
		w.v.Advance(10 * time.Second)
	}
	if n := len(w.dropped); n != 4 || !errors.Is(w.dropped[0], ErrQueueFull) {
		t.Errorf("%d dropped: %v", n, w.dropped)
	}
	all := w.events()
	check.Equal(t, len(all), 17, "%d events", len(all))
	check.Fatal(t, w.api.Delete(port.APIDelete{Key: port.APIKeyOf(all[0])}))
	w.record(pod("web"), "app", "BackOff", "again")
	w.v.Advance(time.Second)
	if all := w.events(); all[0].Reason != "BackOff" || all[0].Count != 2 {
		t.Errorf("got %+v", all[0])
	}
}

// TestShareOfAPod: a pod that has very much to say while the apiserver is away does not take the places of others.
func TestShareOfAPod(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	w.api.SetLink("n1", simapi.Refused)
	for i := range 2 * defaultQueue {
		w.record(pod("greedy"), "app", fmt.Sprint("Started", i), "")
	}
	check.Equal(t, len(w.r.queue.list)+len(w.r.calls), defaultQueue/objectShare+1, "events that wait")
	w.record(pod("greedy"), "app", "BackOff", "")
	check.Equal(t, w.r.queue.list[len(w.r.queue.list)-1].event.Reason, "BackOff", "its warning, in the place of another one of it")
	w.record(pod("web"), "app", "Started", "")
	w.v.Advance(time.Minute)
	w.api.SetLink("n1", simapi.Up)
	w.v.Advance(time.Minute)
	check.Equal(t, slices.ContainsFunc(w.events(), func(e *v1.Event) bool { return e.InvolvedObject.Name == "web" }), true,
		"the event of another pod was written")
}

// TestBusy: while the apiserver is busy warnings are written, after what their pods have
// to say before, and the others wait, but not for ever, and not once it is not.
func TestBusy(t *testing.T) {
	busy := true
	w := newWorld(t, func(c *Config) { c.Wait, c.Busy, c.Patience = Wait, func() bool { return busy }, 10*time.Second })
	reasons := func() (out []string) {
		for _, e := range w.events() {
			out = append(out, e.Reason)
		}
		slices.Sort(out)
		return out
	}
	expect := func(want ...string) {
		t.Helper()
		if got := reasons(); !slices.Equal(got, want) {
			t.Errorf("after %v there are %q, want %q", w.v.Now().Sub(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), got, want)
		}
	}
	w.record(pod("web"), "app", "Pulled", "")
	w.record(pod("bad"), "app", "Pulling", "")
	w.record(pod("bad"), "app", "BackOff", "")
	w.v.Advance(4 * time.Second)
	expect("BackOff", "Pulling")
	w.record(pod("web"), "app", "Started", "")
	w.v.Advance(5 * time.Second)
	expect("BackOff", "Pulling")
	w.v.Advance(2 * time.Second)
	expect("BackOff", "Pulled", "Pulling")
	busy = false
	w.v.Advance(relook + time.Second)
	expect("BackOff", "Pulled", "Pulling", "Started")
	w.record(pod("web"), "app", "Killing", "")
	w.v.Advance(time.Second)
	expect("BackOff", "Killing", "Pulled", "Pulling", "Started")
	busy = true
	w.record(pod("web"), "app", "Created", "")
	w.r.Close()
	w.v.Advance(time.Minute)
	expect("BackOff", "Killing", "Pulled", "Pulling", "Started")
	if len(w.dropped) != 1 || !errors.Is(w.dropped[0], ErrClosed) {
		t.Errorf("dropped %v", w.dropped)
	}
}

// TestRoom: of more than there is room for the warnings are kept, and whoever had to
// go is told of.
func TestRoom(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Busy, c.Patience, c.Queue = func() bool { return true }, 10*time.Second, 2
	})
	w.record(pod("web"), "app", "Pulled", "")
	w.record(pod("web"), "app", "Created", "")
	w.record(pod("web"), "app", "Started", "")
	w.record(pod("web"), "app", "BackOff", "")
	w.v.Advance(time.Minute)
	all := w.events()
	if len(all) != 2 || all[0].Reason != "Created" || all[1].Reason != "BackOff" || len(w.dropped) != 2 {
		t.Errorf("there are %d, dropped %v", len(all), w.dropped)
	}
}

// TestLostReply: an event whose answer was lost is there once.
func TestLostReply(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	lost := false
	w.fault = func(simapi.Call) simapi.Fault {
		f := simapi.Fault{LoseReply: !lost}
		lost = true
		return f
	}
	w.record(pod("web"), "app", "Created", "")
	w.record(pod("web"), "app", "Started", "")
	w.v.Advance(time.Minute)
	if all := w.events(); len(all) != 2 || len(w.dropped) > 0 {
		t.Errorf("got %d, dropped %v", len(all), w.dropped)
	}
}

// TestRefused: what the apiserver will never take is dropped, and the next goes on.
func TestRefused(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	w.fault = func(c simapi.Call) simapi.Fault {
		return simapi.Fault{Fail: strings.HasPrefix(c.Key.Name, "bad"), Kind: port.Forbidden}
	}
	w.record(pod("bad"), "app", "Created", "")
	w.record(pod("web"), "app", "Created", "")
	w.v.Advance(time.Minute)
	if all := w.events(); len(all) != 1 || len(w.dropped) != 1 || port.KindOf(w.dropped[0]) != port.Forbidden {
		t.Errorf("got %d, dropped %v", len(all), w.dropped)
	}
}

// TestTrouble: what the apiserver answers with an internal error is kept while that
// may be about all events, and given up when it is about that one.
func TestTrouble(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	bad := func(c simapi.Call) simapi.Fault {
		return simapi.Fault{Fail: strings.HasPrefix(c.Key.Name, "bad"), Kind: port.Other}
	}
	all := func(simapi.Call) simapi.Fault { return simapi.Fault{Fail: true, Kind: port.Other} }
	w.fault = all
	w.record(pod("bad"), "app", "BackOff", "")
	for i := range 5 {
		w.record(pod("web"), "app", fmt.Sprint("Created", i), "")
	}
	w.v.Advance(5 * time.Minute)
	if n := len(w.dropped); n > 0 || w.calls > 160 {
		t.Fatalf("dropped %v after %d calls", w.dropped, w.calls)
	}
	w.fault = bad
	w.v.Advance(20 * time.Second)
	if all := w.events(); len(all) != 5 || all[0].Count != 1 || len(w.dropped) != 1 {
		t.Fatalf("%d events, dropped %v", len(all), w.dropped)
	}
	// Where there is no other it is given up in the end.
	w.record(pod("bad"), "app", "Started", "")
	w.v.Advance(troubleMost / 2)
	check.Equal(t, len(w.dropped), 1, "dropped %v", w.dropped)
	w.v.Advance(troubleMost)
	check.Equal(t, len(w.dropped), 2, "dropped %v", w.dropped)
	calls := w.calls
	w.v.Advance(time.Hour)
	check.Equal(t, w.calls, calls, "%d calls for nothing", w.calls-calls)
	w.fault = all
	w.record(pod("web"), "app", "Started", "")
	w.v.Advance(time.Second)
	w.r.Close()
	calls = w.calls
	w.v.Advance(time.Hour)
	check.Equal(t, w.calls, calls, "%d calls after the end", w.calls-calls)
}

func TestClosed(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	w.api.SetLink("n1", simapi.Silent)
	for range 3 {
		w.record(pod("web"), "app", "Created", "")
	}
	w.v.Advance(time.Second)
	w.r.Close()
	calls := w.calls
	w.api.SetLink("n1", simapi.Up)
	w.record(pod("web"), "app", "Started", "")
	w.v.Advance(time.Hour)
	if w.calls != calls || len(w.events()) > 0 {
		t.Errorf("%d calls after the end", w.calls-calls)
	}
}

func TestConfig(t *testing.T) {
	good := Config{API: newWorld(t, func(*Config) {}).api.Client("x"), Clock: kernel.WallClock{}, Component: "c", Host: "h", Deadline: 1, Retry: 1}
	check.Error(t, good.Validate())
	for name, change := range map[string]func(*Config){
		"api": func(c *Config) { c.API = nil }, "clock": func(c *Config) { c.Clock = nil }, "who": func(c *Config) { c.Host = "" },
		"deadline": func(c *Config) { c.Deadline = 0 }, "retry": func(c *Config) { c.Retry = -1 }, "queue": func(c *Config) { c.Queue = -1 },
		"calls": func(c *Config) { c.Calls = -1 }, "wait": func(c *Config) { c.Wait = -1 },
		"patience": func(c *Config) { c.Busy, c.Wait = func() bool { return false }, Wait },
	} {
		c := good
		change(&c)
		check.Fails(t, check.Err(New(c)), "%s: no error", name)
	}
}
