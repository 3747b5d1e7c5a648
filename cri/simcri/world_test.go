package simcri

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *world) ending() actortest.Ending { return actortest.NewEnding(w.clock) }

// step runs the next timer that is due by limit.
func (w *world) step(limit time.Time) bool {
	asked := 0
	return w.clock.RunUntil(limit, func() bool { asked++; return asked > 1 })
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
	clock *kernel.Virtual
	*Runtime
}

func newWorld(t tester, change ...func(*Config)) *world {
	t.Helper()
	clock := kernel.NewVirtual(1, epoch)
	cfg := Config{Clock: clock, Rand: streams(1), Latencies: flat()}
	for _, f := range change {
		f(&cfg)
	}
	r := check.Value(New(cfg))(t)
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
		if !w.step(limit) {
			w.t.Fatal("no answer came")
		}
	}
	check.Fatal(w.t, check.Is(a.n, 1, "done was called %d times", a.n))
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
	return check.Value(await(w, a))(w.t)
}

func (w *world) execSync(id string, timeout time.Duration, command ...string) (port.ExecResult, error) {
	w.t.Helper()
	a, done := give[port.ExecResult](w)
	w.ExecSync(context.Background(), id, port.Words(command...), timeout, done)
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
	sandbox = check.Value(w.run(p, 0))(w.t)
	id = check.Value(w.create(p, sandbox, 0))(w.t)
	check.Fatal(w.t, w.startSync(id))
	return sandbox, id
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
