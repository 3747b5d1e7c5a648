package simcri

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// maxBytesPerPod is what a running pod with one container may cost inside of
// the runtime, its share of the fixed cost of a node with 30 pods included. The
// pod's own object is not counted.
const maxBytesPerPod = 1536

// BenchmarkPodMemory reports the heap that one running pod takes.
func BenchmarkPodMemory(b *testing.B) {
	const nodes, podsPerNode = 200, 30
	for b.Loop() {
		per := podMemory(b, nodes, podsPerNode)
		b.ReportMetric(per, "heap-B/pod")
	}
}

func TestMemoryPerPod(t *testing.T) {
	if per := podMemory(t, 50, 30); per > maxBytesPerPod {
		t.Errorf("a pod takes %.0f bytes, want at most %d", per, maxBytesPerPod)
	}
}

func podMemory(t testing.TB, nodes, podsPerNode int) float64 {
	pods := make([]*v1.Pod, nodes*podsPerNode)
	for i := range pods {
		pods[i] = aPod(fmt.Sprintf("p%06d", i))
	}
	registry := NewRegistry()
	clock := kernel.NewVirtual(1, epoch)
	before := heap()
	worlds := make([]*Runtime, nodes)
	for n := range worlds {
		r := check.Value(New(Config{Clock: clock, Rand: streams(uint64(n)), Registry: registry}))(t)
		worlds[n] = r
		ctx := context.Background()
		running := 0
		for _, p := range pods[n*podsPerNode : (n+1)*podsPerNode] {
			r.PullImage(ctx, port.PullImage{Image: testImage, Pod: p}, func(ref string, err error) {
				r.RunPodSandbox(ctx, port.RunPodSandbox{Pod: p}, func(id string, err error) {
					r.CreateContainer(ctx, creation(p, id, 0), func(id string, err error) {
						r.StartContainer(ctx, id, func(err error) {
							if err != nil {
								t.Error(err)
							}
							running++
						})
					})
				})
			})
		}
		clock.Advance(patience)
		check.Fatal(t, check.Is(running, podsPerNode, "%d of %d pods run", running, podsPerNode))
	}
	after := heap()
	runtime.KeepAlive(worlds)
	runtime.KeepAlive(pods)
	return float64(after-before) / float64(len(pods))
}

// heap is how many bytes are alive.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
