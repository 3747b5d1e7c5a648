package simcri

import (
	stdheap "container/heap"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// virtualClock is time that passes only when a test says so.
type virtualClock struct {
	mu     sync.Mutex
	now    time.Time
	seq    uint64
	timers timerHeap
}

type timer struct {
	at    time.Time
	seq   uint64
	f     func()
	index int
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	t.index = -1
	return t
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newVirtualClock() *virtualClock { return &virtualClock{now: epoch} }

func (c *virtualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *virtualClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{at: c.now.Add(max(d, 0)), seq: c.seq, f: f}
	c.seq++
	stdheap.Push(&c.timers, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.index < 0 {
			return false
		}
		stdheap.Remove(&c.timers, t.index)
		return true
	}
}

// step runs the next timer that is due by limit.
func (c *virtualClock) step(limit time.Time) bool {
	c.mu.Lock()
	if len(c.timers) == 0 || c.timers[0].at.After(limit) {
		c.mu.Unlock()
		return false
	}
	t := stdheap.Pop(&c.timers).(*timer)
	if t.at.After(c.now) {
		c.now = t.at
	}
	c.mu.Unlock()
	t.f()
	return true
}

// advance lets d pass.
func (c *virtualClock) advance(d time.Duration) {
	limit := c.Now().Add(d)
	for c.step(limit) {
	}
	c.mu.Lock()
	c.now = limit
	c.mu.Unlock()
}

// virtualContext is a context that ends on the test's own thread.
type virtualContext struct {
	context.Context
	err   error
	done  chan struct{}
	funcs map[int]func()
	n     int
}

func newVirtualContext() *virtualContext {
	return &virtualContext{Context: context.Background(), done: make(chan struct{}), funcs: map[int]func(){}}
}

func (c *virtualContext) Done() <-chan struct{} { return c.done }
func (c *virtualContext) Err() error            { return c.err }
func (c *virtualContext) AfterFunc(f func()) func() bool {
	n := c.n
	c.n++
	c.funcs[n] = f
	return func() bool {
		_, there := c.funcs[n]
		delete(c.funcs, n)
		return there
	}
}

func (c *virtualContext) end(err error) {
	c.err = err
	close(c.done)
	for n := range c.n {
		if f := c.funcs[n]; f != nil {
			delete(c.funcs, n)
			f()
		}
	}
}

// streams gives the random streams of a seed.
func streams(seed uint64) func(string) *rand.Rand {
	return func(name string) *rand.Rand {
		h := fnv.New64a()
		h.Write([]byte(name))
		return rand.New(rand.NewPCG(seed, h.Sum64()))
	}
}

// flat is a table in which every call takes a millisecond.
func flat() *Latencies {
	var l Latencies
	for m := range l {
		l[m] = Constant(time.Millisecond)
	}
	return &l
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// world is a runtime on a virtual clock, and its calls made synchronous.
type world struct {
	t     tester
	clock *virtualClock
	*Runtime
}

func newWorld(t tester, change ...func(*Config)) *world {
	t.Helper()
	clock := newVirtualClock()
	cfg := Config{Clock: clock, Rand: streams(1), Latencies: flat()}
	for _, f := range change {
		f(&cfg)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, clock: clock, Runtime: r}
}

// patience is how long, in virtual time, a call may take that is waited for.
const patience = time.Hour

// answer is what a call gave.
type answer[T any] struct {
	value T
	err   error
	n     int // how often done was called
	at    time.Time
}

// give makes a done callback that fills an answer.
func give[T any](w *world) (*answer[T], func(T, error)) {
	a := new(answer[T])
	return a, func(v T, err error) {
		a.value, a.err, a.at = v, err, w.clock.Now()
		a.n++
	}
}

func giveErr(w *world) (*answer[struct{}], func(error)) {
	a, done := give[struct{}](w)
	return a, func(err error) { done(struct{}{}, err) }
}

// await lets time pass until a is there.
func await[T any](w *world, a *answer[T]) (T, error) {
	w.t.Helper()
	limit := w.clock.Now().Add(patience)
	for a.n == 0 {
		if !w.clock.step(limit) {
			w.t.Fatal("no answer came")
		}
	}
	if a.n != 1 {
		w.t.Fatalf("done was called %d times", a.n)
	}
	return a.value, a.err
}

func (w *world) run(p *v1.Pod, attempt uint32) (string, error) {
	w.t.Helper()
	a, done := give[string](w)
	w.RunPodSandbox(context.Background(), port.RunPodSandbox{Pod: p, Attempt: attempt}, done)
	return await(w, a)
}

func (w *world) stopSandboxSync(id string) error {
	w.t.Helper()
	a, done := giveErr(w)
	w.StopPodSandbox(context.Background(), id, done)
	_, err := await(w, a)
	return err
}

func (w *world) removeSandboxSync(id string) error {
	w.t.Helper()
	a, done := giveErr(w)
	w.RemovePodSandbox(context.Background(), id, done)
	_, err := await(w, a)
	return err
}

func (w *world) sandboxStatus(id string) (observed.Sandbox, error) {
	w.t.Helper()
	a, done := give[observed.Sandbox](w)
	w.PodSandboxStatus(context.Background(), id, done)
	return await(w, a)
}

func creation(p *v1.Pod, sandbox string, attempt uint32) port.CreateContainer {
	return port.CreateContainer{Pod: p, Container: &p.Spec.Containers[0], Attempt: attempt, SandboxID: sandbox,
		SpecHash: "hash", LogDirectory: "/var/log/pods/x"}
}

func (w *world) create(p *v1.Pod, sandbox string, attempt uint32) (string, error) {
	w.t.Helper()
	a, done := give[string](w)
	w.CreateContainer(context.Background(), creation(p, sandbox, attempt), done)
	return await(w, a)
}

func (w *world) startSync(id string) error {
	w.t.Helper()
	a, done := giveErr(w)
	w.StartContainer(context.Background(), id, done)
	_, err := await(w, a)
	return err
}

func (w *world) stop(id string, grace time.Duration) error {
	w.t.Helper()
	a, done := giveErr(w)
	w.StopContainer(context.Background(), id, grace, done)
	_, err := await(w, a)
	return err
}

func (w *world) removeSync(id string) error {
	w.t.Helper()
	a, done := giveErr(w)
	w.RemoveContainer(context.Background(), id, done)
	_, err := await(w, a)
	return err
}

func (w *world) status(id string) (observed.Container, error) {
	w.t.Helper()
	a, done := give[observed.Container](w)
	w.ContainerStatus(context.Background(), id, done)
	return await(w, a)
}

func (w *world) list(uid string) observed.Runtime {
	w.t.Helper()
	a, done := give[observed.Runtime](w)
	w.List(context.Background(), uid, done)
	seen, err := await(w, a)
	if err != nil {
		w.t.Fatal(err)
	}
	return seen
}

func (w *world) execSync(id string, timeout time.Duration, command ...string) (port.ExecResult, error) {
	w.t.Helper()
	a, done := give[port.ExecResult](w)
	w.ExecSync(context.Background(), id, command, timeout, done)
	return await(w, a)
}

func (w *world) pullSync(q port.PullImage) (string, error) {
	w.t.Helper()
	a, done := give[string](w)
	w.PullImage(context.Background(), q, done)
	return await(w, a)
}

const testImage = "registry.test/app:1"

// aPod is a pod with one container; annotations alternate keys and values.
func aPod(name string, annotations ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID("uid-" + name), Annotations: map[string]string{},
	}}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[AnnotationPrefix+annotations[i]] = annotations[i+1]
	}
	p.Spec.Containers = []v1.Container{{Name: "app", Image: testImage}}
	return p
}

// running makes a pod run and gives its sandbox and container.
func (w *world) running(p *v1.Pod) (sandbox, id string) {
	w.t.Helper()
	w.MakeImagePresent(testImage, RegistryImage{SizeBytes: 1 << 20})
	sandbox = must(w.run(p, 0))(w.t)
	id = must(w.create(p, sandbox, 0))(w.t)
	if err := w.startSync(id); err != nil {
		w.t.Fatal(err)
	}
	return sandbox, id
}

func must[T any](v T, err error) func(tester) T {
	return func(t tester) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// wantKind fails the test if err is not of the kind.
func wantKind(t tester, what string, err error, kind port.ErrorKind) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want %v", what, kind)
	} else if got := port.KindOf(err); got != kind {
		t.Errorf("%s: kind %q (%v), want %q", what, got, err, kind)
	}
}
