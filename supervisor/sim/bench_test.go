package sim

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
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

// BenchmarkVolumes runs 600 pods of a StatefulSet on 20 nodes for ten minutes, from their creation to their deletion:
// without volumes, and with one of a CSI driver for each. What CSI costs is the difference in
// CPU time.
func BenchmarkVolumes(b *testing.B) {
	const nodes, pods, driver = 20, 600, "disk.example.com"
	for _, volumes := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "with"}[volumes], func(b *testing.B) {
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				w := newWorld(b, 0)
				spec := NodeSpec{}
				if volumes {
					spec.CSI = map[string]machine.CSIDriver{driver: {}}
					check.Fatal(b, w.ControlPlane().ServeStorage(driver, controlplane.StorageDriver{}))
				}
				check.Value(w.AddNodes(nodes, spec))(b)
				w.Advance(5 * time.Second)
				runtime.GC()
				begin, messages, used := w.Elapsed(), w.Messages(), cpuTime(b)
				b.StartTimer()
				check.Fatal(b, w.ControlPlane().Apply(stateful(pods, driver, volumes)))
				w.untilReady(b, pods)
				w.Advance(10*time.Minute - (w.Elapsed() - begin))
				check.Fatal(b, w.ControlPlane().Remove("default", "db"))
				w.until(b, 10*time.Minute, "all pods are gone", func() bool { return w.Pods().Len() == 0 })
				b.ReportMetric(float64(w.Messages()-messages)/float64(pods), "messages/pod")
				cpu += cpuTime(b) - used
			}
			b.ReportMetric(cpu.Seconds()*1e6/float64(pods*b.N), "cpu-us/pod")
		})
	}
}

// cpuTime is what the process has used, whatever else the machine does.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	check.Fatal(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// stateful is a StatefulSet, whose pods have a volume each or none.
func stateful(pods int, driver string, volumes bool) controlplane.Workload {
	c := v1.Container{Name: "db", Image: "registry.test/db:1"}
	s := &controlplane.Stateful{Parallel: true}
	if volumes {
		c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		s.Claims = []v1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: v1.PersistentVolumeClaimSpec{
				StorageClassName: &driver, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
	}
	return controlplane.Workload{
		Name: "db", Replicas: pods, Stateful: s, Template: v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{c}}},
	}
}
