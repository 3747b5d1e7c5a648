package sim

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// sizes are nodes and pods a node. The largest takes a minute and 2 GB.
var sizes = []struct{ nodes, pods int }{{10, 30}, {100, 30}, {1000, 30}, {5000, 30}}

// of is a benchmark for each size, the largest ones only if asked for.
func of(b *testing.B, run func(b *testing.B, nodes, pods int)) {
	for _, s := range sizes {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", s.nodes, s.nodes*s.pods), func(b *testing.B) {
			if testing.Short() && s.nodes > 100 {
				b.Skip("takes long")
			}
			run(b, s.nodes, s.pods)
		})
	}
}

func heapInUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkPodsToRunning creates all pods at once and waits until they are Ready.
func BenchmarkPodsToRunning(b *testing.B) {
	of(b, func(b *testing.B, nodes, pods int) {
		all := nodes * pods
		for b.Loop() {
			b.StopTimer()
			w := newWorld(b, nodes)
			runtime.GC()
			begin, messages := w.Elapsed(), w.Messages()
			b.StartTimer()
			w.deploy(b, "web", all)
			w.untilReady(b, all)
			b.ReportMetric((w.Elapsed() - begin).Seconds(), "sim-s")
			b.ReportMetric(float64(w.Messages()-messages)/float64(all), "messages/pod")
		}
		b.ReportMetric(float64(all*b.N)/b.Elapsed().Seconds(), "pods/s")
		b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(all*b.N), "us/pod")
	})
}

// BenchmarkMemory reports the heap that a node takes, and that a pod takes, its
// object in the apiserver included.
func BenchmarkMemory(b *testing.B) {
	of(b, func(b *testing.B, nodes, pods int) {
		for b.Loop() {
			empty := heapInUse()
			w := newWorld(b, nodes)
			w.Advance(time.Minute)
			before := heapInUse()
			w.deploy(b, "web", nodes*pods)
			w.untilReady(b, nodes*pods)
			w.Advance(time.Minute)
			after := heapInUse()
			b.ReportMetric((before-empty)/float64(nodes), "B/node")
			b.ReportMetric((after-before)/float64(nodes*pods), "B/pod")
			runtime.KeepAlive(w)
		}
	})
}

// BenchmarkSettled lets time pass in a cluster in which nothing happens.
func BenchmarkSettled(b *testing.B) {
	of(b, func(b *testing.B, nodes, pods int) {
		w := newWorld(b, nodes)
		w.deploy(b, "web", nodes*pods)
		w.untilReady(b, nodes*pods)
		w.Advance(2 * time.Minute)
		began := w.Elapsed()
		for b.Loop() {
			w.Advance(10 * time.Second)
		}
		b.ReportMetric((w.Elapsed()-began).Seconds()/b.Elapsed().Seconds(), "sim-s/s")
	})
}
