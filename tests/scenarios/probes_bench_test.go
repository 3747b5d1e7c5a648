package scenarios

import (
	"fmt"
	"math/rand/v2"
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
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
)

// city is many machines with their agents in one system on one virtual clock.
type city struct {
	tb     testing.TB
	v      *kernel.Virtual
	system *kernel.System
	nodes  []*world
}

// newCity starts nodes with so many pods each, all with this readiness probe.
func newCity(tb testing.TB, nodes, podsEach int, p *v1.Probe, traced bool) *city {
	c := &city{tb: tb, v: kernel.NewVirtual(1, epoch)}
	config := kernel.Config{Clock: c.v, Seed: 1, History: -1}
	if traced {
		config.Tracer = kernel.NewHashTracer()
	}
	var err error
	if c.system, err = kernel.NewSystem(config); err != nil {
		tb.Fatal(err)
	}
	registry := simcri.NewRegistry()
	files := map[string]string{}
	for i := range podsEach {
		s := aPod(fmt.Sprintf("p%d", i)).readiness(p)
		files[s.Name+".yaml"] = s.yaml()
	}
	for i := range nodes {
		c.add(fmt.Sprintf("n%d", i), registry, files)
	}
	return c
}

func (c *city) add(name string, registry *simcri.Registry, files map[string]string) {
	w := newWorld(c.tb, 1)
	w.v, w.keepEvents = c.v, false
	w.setMachine(w.facts.Get())
	seed := rand.New(rand.NewPCG(1, uint64(len(c.nodes))))
	var err error
	w.rt, err = simcri.New(simcri.Config{
		Clock: c.v, Registry: registry, Bandwidth: 1 << 30,
		Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(seed.Uint64(), seed.Uint64())) },
	})
	if err != nil {
		c.tb.Fatal(err)
	}
	for file, text := range files {
		w.manifests.Write(file, []byte(text))
	}
	config := defaults(name)
	config.ManifestPathPeriod = time.Hour
	config.Ports = node.Ports{
		Runtime: w.rt, Host: w.host, Network: w.rt.Network(), Manifests: w.manifests,
		Checkpoints: w.checkpoints, Events: recorder{w},
	}
	if _, err = agent.Start(c.system, config); err != nil {
		c.tb.Fatal(err)
	}
	c.nodes = append(c.nodes, w)
}

// ready counts the pods that are.
func (c *city) ready() (n int) {
	for i := range c.nodes {
		ref, _ := kernel.Lookup[pods.Message](c.system, fmt.Sprintf("n%d/pods", i))
		ref.Tell(pods.Query{Reply: func(i pods.Inventory) {
			for _, p := range i.Pods {
				if s := p.Report.Status; s != nil && podstatus.Ready(s) {
					n++
				}
			}
		}})
	}
	c.v.Settle()
	return n
}

func (c *city) asked() (n uint64) {
	for _, w := range c.nodes {
		for _, m := range []simcri.Method{simcri.ProbeHTTP, simcri.ProbeTCP, simcri.ProbeGRPC, simcri.ExecSync} {
			n += w.rt.Calls(m)
		}
	}
	return n
}

// processTime is the time of all CPUs that this process has used: others may be
// busy on this machine.
func processTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
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
			n, err := strconv.Atoi(part)
			if err != nil {
				b.Fatal(err)
			}
			size[i] = n
		}
		sizes = [][2]int{size}
	}
	for _, size := range sizes {
		for _, c := range []struct {
			name   string
			probe  *v1.Probe
			traced bool
		}{{"none", nil, false}, {"http", httpProbe("/ready"), false}, {"http-traced", httpProbe("/ready"), true}, {"exec", execProbe("check"), false}} {
			name := fmt.Sprintf("%dx%d/%s", size[0], size[1], c.name)
			var here *city
			b.Run(name, func(b *testing.B) {
				if here == nil {
					here = newCity(b, size[0], size[1], c.probe, c.traced)
					here.v.Advance(90 * time.Second)
					if n := here.ready(); n != size[0]*size[1] {
						b.Fatalf("%d of %d pods are ready", n, size[0]*size[1])
					}
					runtime.GC()
				}
				before, used := here.asked(), processTime(b)
				b.ReportAllocs()
				b.ResetTimer()
				here.v.Advance(time.Duration(b.N) * time.Second)
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
