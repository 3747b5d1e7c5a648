package simapi

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// maxBytesPerPod is what a running pod with one container may cost in the
// apiserver: its object with its status, the index, its share of the history and
// of its node's watch. Its actor and its simulated containers are not counted.
const maxBytesPerPod = 4 << 10

func BenchmarkCreatePod(b *testing.B) {
	w := newWorld(b, nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		check.Value(w.Create(aPod(fmt.Sprintf("p%07d", i), "")))(b)
	}
}

func BenchmarkBindPod(b *testing.B) {
	w := newWorld(b, nil)
	watchNodes(b, w, 5000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		name := fmt.Sprintf("p%07d", i)
		w.created(aPod(name, ""))
		b.StartTimer()
		check.Fatal(b, w.Bind("default", name, nodeName(i%5000)))
		if i%100 == 0 {
			w.v.Advance(patient)
		}
	}
}

// BenchmarkStatusPatch is an agent's usual write, from its call to its answer
// and to the watch of the node, beside 5,000 nodes that watch as well.
func BenchmarkStatusPatch(b *testing.B) {
	w := newWorld(b, nil)
	watchNodes(b, w, 5000)
	p := w.created(aPod("p", nodeName(7))).(*v1.Pod)
	w.v.Advance(patient)
	api, ctx := w.Client(nodeName(7)), context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		next := withStatus(p, runningStatus(p, metav1.NewTime(epoch), int32(i)))
		api.Patch(ctx, port.APIPatch{Key: podKey("p"), From: p, To: next, Status: true}, func(o port.APIObject, err error) {
			if err != nil {
				b.Fatal(err)
			}
			p = o.(*v1.Pod)
		})
		w.v.Advance(patient)
	}
}

// BenchmarkStatusPatchFromOld is the slow way: another writer changed
// the status meanwhile.
func BenchmarkStatusPatchFromOld(b *testing.B) {
	w := newWorld(b, nil)
	old := w.created(aPod("p", nodeName(7))).(*v1.Pod)
	check.Value(w.UpdateStatus(withStatus(old, runningStatus(old, metav1.NewTime(epoch), 0))))(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		next := withStatus(old, old.Status)
		next.Status.Message = fmt.Sprint(i)
		check.Value(w.Patch(port.APIPatch{Key: podKey("p"), From: old, To: next, Status: true}))(b)
	}
}

// BenchmarkLeaseRenew is what 5,000 nodes do 500 times a second.
func BenchmarkLeaseRenew(b *testing.B) {
	w := newWorld(b, nil)
	l := w.created(aLease("n"))
	b.ReportAllocs()
	for b.Loop() {
		next := renewed(l, w.v.Now())
		w.Client("n").Update(context.Background(), next, func(o port.APIObject, err error) {
			if err != nil {
				b.Fatal(err)
			}
			l = o
		})
		w.v.Advance(patient)
	}
}

// BenchmarkCluster is a big cluster's share of the apiserver: 5,000 nodes with
// five watches each, 150,000 pods that are created, bound, and patched twice
// through the port; every watch is told. CPU is the process's, since a busy
// machine says nothing with time.
func BenchmarkCluster(b *testing.B) {
	const nodes, podsPerNode = 5000, 30
	for b.Loop() {
		before := heap()
		w := newWorld(b, nil)
		for i := range nodes {
			n := nodeName(i)
			w.created(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
			w.created(aLease(n))
			for _, sel := range []port.Selection{
				{Kind: port.PodKind, Field: "spec.nodeName=" + n}, {Kind: port.NodeKind, Field: "metadata.name=" + n},
				{Kind: port.ServiceKind}, {Kind: port.RuntimeClassKind}, {Kind: port.CSIDriverKind},
			} {
				w.Client(n).Watch(context.Background(), sel, func(port.APIChange) {}, func(error) {})
			}
		}
		w.v.Advance(patient)
		empty := heap()
		began := processCPU(b)
		running := 0
		for i := range nodes * podsPerNode {
			name, node := fmt.Sprintf("p%06d", i), nodeName(i%nodes)
			w.created(aPod(name, ""))
			check.Fatal(b, w.Bind("default", name, node))
			api := w.Client(node)
			report := func(from *v1.Pod, phase v1.PodPhase, done func(port.APIObject, error)) {
				status := runningStatus(from, metav1.NewTime(epoch), 0)
				status.Phase = phase
				api.Patch(context.Background(), port.APIPatch{Key: podKey(name), From: from, To: withStatus(from, status), Status: true}, done)
			}
			report(w.pod(podKey(name)), v1.PodPending, func(o port.APIObject, err error) {
				report(o.(*v1.Pod), v1.PodRunning, func(port.APIObject, error) { running++ })
			})
			if i%1000 == 999 {
				w.v.Advance(patient)
			}
		}
		w.v.Advance(patient)
		check.Fatal(b, check.Is(running, nodes*podsPerNode, "%d pods run", running))
		b.ReportMetric(float64(processCPU(b)-began)/float64(running)/1000, "cpu-µs/pod")
		full := heap()
		b.ReportMetric(float64(full-empty)/float64(running), "heap-B/pod")
		b.ReportMetric(float64(empty-before)/nodes, "heap-B/node")
		b.ReportMetric(float64(full-before)/(1<<20), "heap-MiB")
		runtime.KeepAlive(w)
	}
}

// processCPU is the CPU time of this process, in nanoseconds.
func processCPU(t testing.TB) int64 {
	t.Helper()
	var u syscall.Rusage
	check.Fatal(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkPodMemory reports the heap that one running pod takes.
func BenchmarkPodMemory(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(podMemory(b, 1000, 30), "heap-B/pod")
	}
}

func TestMemoryPerPod(t *testing.T) {
	if per := podMemory(t, 200, 30); per > maxBytesPerPod {
		t.Errorf("a pod takes %.0f bytes, want at most %d", per, maxBytesPerPod)
	}
}

// podMemory creates, binds and runs pods of one template on nodes that watch,
// and gives the bytes for each.
func podMemory(t testing.TB, nodes, podsPerNode int) float64 {
	before := heap()
	w := newWorld(t, nil)
	watchNodes(t, w, nodes)
	w.v.Advance(patient)
	done := 0
	for i := range nodes * podsPerNode {
		name, node := fmt.Sprintf("p%06d", i), nodeName(i%nodes)
		w.created(aPod(name, ""))
		check.Fatal(t, w.Bind("default", name, node))
		p := w.pod(podKey(name))
		to := withStatus(p, runningStatus(p, metav1.NewTime(epoch), 0))
		w.Client(node).Patch(context.Background(), port.APIPatch{Key: podKey(name), From: p, To: to, Status: true}, func(_ port.APIObject, err error) {
			if err != nil {
				t.Error(err)
			}
			done++
		})
		if i%1000 == 999 {
			w.v.Advance(patient)
		}
	}
	w.v.Advance(patient)
	check.Fatal(t, check.Is(done, nodes*podsPerNode, "%d of %d pods run", done, nodes*podsPerNode))
	after := heap()
	runtime.KeepAlive(w)
	return float64(after-before) / float64(nodes*podsPerNode)
}

// heap is how many bytes are alive.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func nodeName(i int) string { return nodeNames[i] }

// nodeNames are shared, as the nodes of a world share theirs.
var nodeNames = func() (names [5000]string) {
	for i := range names {
		names[i] = fmt.Sprintf("node-%04d", i)
	}
	return names
}()

// watchNodes lets nodes watch their pods.
func watchNodes(t testing.TB, w *world, n int) {
	for i := range n {
		w.Client(nodeName(i)).Watch(context.Background(), port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + nodeName(i)},
			func(port.APIChange) {}, func(error) {})
	}
	w.v.Advance(patient)
}
