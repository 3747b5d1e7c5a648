package live

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is an API of which only Watch is used; the test tells what it tells.
type watched struct {
	port.API
	mu   sync.Mutex
	open []*opened
	came chan *opened
}

type opened struct {
	sel    port.Selection
	change func(port.APIChange)
	ctx    context.Context
}

func newWatched() *watched { return &watched{came: make(chan *opened, 100)} }

func (w *watched) Watch(ctx context.Context, sel port.Selection, change func(port.APIChange), done func(error)) {
	o := &opened{sel, change, ctx}
	w.mu.Lock()
	w.open = append(w.open, o)
	w.mu.Unlock()
	w.came <- o
	context.AfterFunc(ctx, func() { done(ctx.Err()) })
}

func aPod(node, name, version string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: version},
		Spec:       v1.PodSpec{NodeName: node},
	}
}

// follow begins a watch of a node's pods, and gives what it tells in words.
type followed struct {
	mu   sync.Mutex
	told []string
	stop context.CancelFunc
	done chan struct{}
}

func follow(h *watchMux, node string) *followed {
	f := &followed{done: make(chan struct{})}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	h.watch(ctx, node, podsOf(node), func(c port.APIChange) {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch c := c.(type) {
		case port.APIReplaced:
			text := "all"
			for _, o := range c.Objects {
				text += " " + o.GetName()
			}
			f.told = append(f.told, text)
		case port.APISet:
			f.told = append(f.told, "set "+c.Object.GetName()+" "+c.Object.GetResourceVersion())
		case port.APIDeleted:
			f.told = append(f.told, "gone "+c.Object.GetName())
		case port.APIBroken:
			f.told = append(f.told, "broken")
		}
	}, func(error) { close(f.done) })
	return f
}

func (f *followed) is(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	check.Same(t, f.told, want, "it was told")
}

func (f *followed) end() {
	f.stop()
	<-f.done
}

// Nodes that watch at the same time share a request, and each is told of its own.
func TestHubShares(t *testing.T) {
	api := newWatched()
	h := newWatchMux(api)
	defer h.Close()
	var all []*followed
	for i := range 5 {
		all = append(all, follow(h, fmt.Sprint("n", i)))
	}
	o := <-api.came
	check.Equal(t, o.sel, allNodes(port.PodKind), "it watches %v, want all pods", o.sel)
	o.change(port.APIReplaced{Objects: []port.APIObject{aPod("n1", "a", "1"), aPod("n3", "b", "2"), aPod("n1", "c", "3"), aPod("elsewhere", "x", "4")}})
	o.change(port.APISet{Object: aPod("n3", "b", "5")})
	o.change(port.APIDeleted{Object: aPod("n1", "a", "6")})
	o.change(port.APISet{Object: aPod("elsewhere", "x", "7")})
	all[3].end()
	o.change(port.APISet{Object: aPod("n3", "b", "8")})
	o.change(port.APIBroken{Err: context.Canceled})
	all[0].is(t, "all", "broken")
	all[1].is(t, "all a c", "gone a", "broken")
	all[3].is(t, "all b", "set b 5")
	for i, f := range all {
		if i != 3 {
			f.end()
		}
	}
	<-o.ctx.Done() // nobody needs it any more
}

// One that comes alone, an actor that was restarted, has a request of its own.
func TestHubAlone(t *testing.T) {
	api := newWatched()
	h := newWatchMux(api)
	defer h.Close()
	f := follow(h, "n7")
	defer f.end()
	o := <-api.came
	check.Equal(t, o.sel, podsOf("n7"), "it watches %v, want only its own pods", o.sel)
	o.change(port.APIReplaced{Objects: []port.APIObject{aPod("n7", "a", "1")}})
	f.is(t, "all a")
}

// Too many requests become one. From when that is made until it tells of all, the
// old ones tell nothing any more: what they told then might be newer than the list.
func TestHubPutsTogether(t *testing.T) {
	api := newWatched()
	h := newWatchMux(api)
	defer h.Close()
	var all []*followed
	var old []*opened
	for i := range manyStreams {
		all = append(all, follow(h, fmt.Sprint("n", i)))
		o := <-api.came
		o.change(port.APIReplaced{Objects: []port.APIObject{aPod(fmt.Sprint("n", i), "a", "1")}})
		old = append(old, o)
	}
	all = append(all, follow(h, "new"))
	o := <-api.came
	check.Fatal(t, check.Is(o.sel, allNodes(port.PodKind), "it watches %v, want all pods", o.sel))
	for i, o := range old {
		<-o.ctx.Done()
		o.change(port.APISet{Object: aPod(fmt.Sprint("n", i), "a", "9")})
	}
	all[2].is(t, "all a")
	o.change(port.APIReplaced{Objects: []port.APIObject{aPod("n2", "b", "2"), aPod("new", "c", "3")}})
	all[2].is(t, "all a", "all b")
	all[3].is(t, "all a", "all")
	all[manyStreams].is(t, "all c")
	for _, f := range all {
		f.end()
	}
}

func TestHubEndsWhileItWaits(t *testing.T) {
	api := newWatched()
	h := newWatchMux(api)
	f := follow(h, "n")
	f.end()
	h.gathered(port.PodKind) // as its timer will, or has
	h.Close()
	check.None(t, api.open, "there is a request that nobody waits for")
}

// The agent's first watch goes on with what was begun before it, and misses nothing.
func TestHead(t *testing.T) {
	api := newWatched()
	h := newWatchMux(api)
	defer h.Close()
	a := &nodeAPI{API: api, node: "n", watches: h, limit: &writeLimit{free: 1}, stats: newPodStats(), begun: map[port.APIKind]*head{}}
	k := a.begin(context.Background(), podsOf("n"))
	o := <-api.came
	o.change(port.APIReplaced{Objects: []port.APIObject{aPod("n", "a", "1")}})
	<-k.first
	check.Equal(t, len(k.objects()), 1, "the list has %v", k.objects())
	o.change(port.APISet{Object: aPod("n", "b", "2")})
	ctx, stop := context.WithCancel(context.Background())
	told, done := make(chan port.APIChange, 10), make(chan struct{})
	a.Watch(ctx, podsOf("n"), func(c port.APIChange) { told <- c }, func(error) { close(done) })
	if _, is := (<-told).(port.APIReplaced); !is {
		t.Error("it does not begin with the list")
	}
	if c, is := (<-told).(port.APISet); !is || c.Object.GetName() != "b" {
		t.Error("what came between is missing")
	}
	o.change(port.APIDeleted{Object: aPod("n", "a", "3")})
	if _, is := (<-told).(port.APIDeleted); !is {
		t.Error("it does not go on")
	}
	stop()
	<-done
	<-o.ctx.Done()
}

func TestGate(t *testing.T) {
	g := &writeLimit{free: 2}
	var order []string
	begin := func(name string) func() { return func() { order = append(order, name) } }
	never := func() { t.Error("it was refused") }
	ctx, stop := context.WithCancel(context.Background())
	refused := make(chan struct{})
	g.pass(context.Background(), begin("a"), never)
	g.pass(context.Background(), begin("b"), never)
	g.pass(ctx, begin("c"), func() { close(refused) })
	g.pass(context.Background(), begin("d"), never)
	stop()
	<-refused
	g.leave()
	g.leave()
	g.leave()
	if want := []string{"a", "b", "d"}; !slices.Equal(order, want) || g.free != 2 {
		t.Errorf("began %v with room for %d, want %v and 2", order, g.free, want)
	}
}
