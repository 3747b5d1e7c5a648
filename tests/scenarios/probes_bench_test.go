package scenarios

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/tests/check"
)

// city is many machines with their agents and static pods, all in one world.
type city struct {
	tb    testing.TB
	world *sim.World
}

// newCity starts nodes with so many pods each, all with this readiness probe.
func newCity(tb testing.TB, nodes, podsEach int, p *v1.Probe) *city {
	tb.Helper()
	w := check.Value(sim.New(sim.Config{Seed: 1, Start: epoch, Bare: true}))(tb)
	files := map[string]string{}
	for i := range podsEach {
		s := aPod(fmt.Sprintf("p%d", i)).readiness(p)
		files[s.Name+".yaml"] = s.yaml()
	}
	for range nodes {
		n := check.Value(w.AddNode(sim.NodeSpec{
			Bandwidth: 1 << 30, Allocatable: roomy, Manifests: true, Standalone: true, Stopped: true,
			Configure: func(c *agent.Config) { c.Sources.PathPeriod = time.Hour },
		}))(tb)
		for file, text := range files {
			n.WriteManifest(file, []byte(text))
		}
		n.StartAgent()
	}
	return &city{tb: tb, world: w}
}

// ready counts the pods that are.
func (c *city) ready() (n int) {
	for _, node := range c.world.Nodes() {
		ref, _ := kernel.Lookup[podset.Message](c.world.System(), node.Name()+"/podset")
		ref.Tell(podset.Query{Reply: func(i podset.Inventory) {
			for _, p := range i.Pods {
				if s := p.Report.Status; s != nil && podstatus.Ready(s) {
					n++
				}
			}
		}})
	}
	c.world.Clock().Settle()
	return n
}

func (c *city) asked() (n uint64) {
	for _, node := range c.world.Nodes() {
		for _, m := range []simcri.Method{simcri.ProbeHTTP, simcri.ProbeTCP, simcri.ProbeGRPC, simcri.ExecSync} {
			n += node.Runtime().Calls(m)
		}
	}
	return n
}

// processTime is the time of all CPUs that this process has used: others may be
// busy on this machine.
func processTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	check.Fatal(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkProbes lets settled nodes run for simulated seconds (the b.N of it),
// with a probe of each pod every ten seconds, and without, for comparison.
// TROUPE_CITY=5000x30 adds a city of that size.
func BenchmarkProbes(b *testing.B) {
	sizes := [][2]int{{10, 30}, {100, 30}}
	if s := os.Getenv("TROUPE_CITY"); s != "" {
		var size [2]int
		for i, part := range strings.SplitN(s, "x", 2) {
			n := check.Value(strconv.Atoi(part))(b)
			size[i] = n
		}
		sizes = [][2]int{size}
	}
	for _, size := range sizes {
		for _, c := range []struct {
			name  string
			probe *v1.Probe
		}{{"none", nil}, {"http", httpProbe("/ready")}, {"exec", execProbe("check")}} {
			name := fmt.Sprintf("%dx%d/%s", size[0], size[1], c.name)
			var here *city
			b.Run(name, func(b *testing.B) {
				if here == nil {
					here = newCity(b, size[0], size[1], c.probe)
					here.world.Clock().Advance(90 * time.Second)
					if n := here.ready(); n != size[0]*size[1] {
						b.Fatalf("%d of %d pods are ready", n, size[0]*size[1])
					}
					runtime.GC()
				}
				before, used := here.asked(), processTime(b)
				b.ReportAllocs()
				b.ResetTimer()
				here.world.Clock().Advance(time.Duration(b.N) * time.Second)
				b.StopTimer()
				used = processTime(b) - used
				b.ReportMetric(float64(b.N)/used.Seconds(), "sim-s/cpu-s")
				if n := here.asked() - before; n > 0 {
					b.ReportMetric(float64(used.Nanoseconds())/float64(n), "cpu-ns/probe")
				}
			})
		}
	}
}
