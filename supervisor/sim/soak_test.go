package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/tests/check"
)

// churn is a world in which something happens every minute: pods are deleted,
// agents killed, workloads rolled, machines lost for a while and for good.
type churn struct {
	*World
	t        testing.TB
	size     churnSize
	draw     *rand.Rand
	revision int
	minutes  int
	lost     []*Node
}

// churnSize is how many nodes there are, and pods of three workloads.
type churnSize struct {
	nodes, steady, crash, rolled int
	// history is how many changes of a kind the apiserver keeps. That of nodes has to be full within an hour or
	// two: until then the heap grows.
	history int
}

func newChurn(t testing.TB, size churnSize) *churn {
	w := newWorld(t, size.nodes, func(c *Config) { c.API.History = size.history })
	c := &churn{World: w, t: t, size: size, draw: w.Rand("soak")}
	c.deployProbed(t, "steady", size.steady, readiness)
	c.deploy(t, "crash", size.crash, "run-for", "30s..10m", "exit-code", "1")
	c.roll()
	c.Advance(5 * time.Minute)
	return c
}

// roll gives the third workload another image, of four: what was pulled stays on
// the machines' disks.
func (c *churn) roll() {
	c.revision++
	err := c.ControlPlane().Apply(controlplane.Workload{Name: "rolled", Replicas: c.size.rolled, Template: v1.PodTemplateSpec{
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: fmt.Sprintf("registry.test/rolled:v%d", c.revision%4)}}},
	}})
	if err != nil {
		c.t.Fatal(err)
	}
}

// minute lets one pass.
func (c *churn) minute() {
	all := check.Value(simapi.Objects[*v1.Pod](c.API(), simapi.Select{}))(c.t)
	if len(all) > 0 {
		p := all[c.draw.IntN(len(all))]
		check.Fatal(c.t,
			c.API().Delete(port.APIDelete{Key: port.APIKey{Kind: port.PodKind, Namespace: p.Namespace, Name: p.Name}}))
	}
	nodes := c.Nodes()
	n := nodes[c.draw.IntN(len(nodes))]
	c.minutes++
	switch {
	case c.minutes%20 == 0:
		c.roll()
	case c.minutes%60 == 30: // long enough for its pods to be made anew elsewhere
		n.PowerOff()
		c.lost = append(c.lost, n)
	case c.minutes%60 == 50:
		for i, l := range c.lost {
			if i == 0 && c.minutes%120 == 50 {
				l.Remove()
				check.Value(c.AddNode(NodeSpec{}))(c.t)
				continue
			}
			l.PowerOn()
		}
		c.lost = nil
	case c.minutes%7 == 0 && n.On():
		n.RestartAgent()
	}
	c.Advance(time.Minute)
}

// TestSoak lets a cluster with churn live for as long as TROUPE_SOAK says (24h), and fails if its heap grows by
// more than a hundredth after a quarter of that. If it says nothing, a tenth of the cluster lives for eight hours. Agents
// are killed too often there to show what each of them keeps: TestLiving of actors/podset does that for records of pods.
func TestSoak(t *testing.T) {
	length, size, bar := 8*time.Hour, churnSize{nodes: 2, steady: 40, crash: 4, rolled: 10, history: 32}, 0.009
	if s := os.Getenv("TROUPE_SOAK"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil || length < 8*time.Hour {
			t.Fatalf("TROUPE_SOAK is %s, %v: want 8h or more", s, err)
		}
		size, bar = churnSize{nodes: 20, steady: 400, crash: 40, rolled: 100, history: 512}, 0.01
	}
	if testing.Short() {
		t.Skip("takes long")
	}
	c := newChurn(t, size)
	hours := int(length / time.Hour)
	var heap []float64 // the mean of each hour's last looks, in which as much is under way as in any other's
	for hour := range hours {
		sum, looks := 0.0, 0
		for minute := range 60 {
			c.minute()
			if minute%20 == 15 {
				sum += heapInUse()
				looks++
			}
		}
		heap = append(heap, sum/float64(looks))
		m := c.Metrics()
		if m.PodsReady < size.steady || m.Pods > 2*(size.steady+size.crash+size.rolled) {
			t.Errorf("after %d hours: %+v", hour+1, m)
		}
		t.Logf("hour %d: heap %.2f MB, %d pods, %d ready, %d restarts, %d timers", hour+1, heap[hour]/1e6, m.Pods, m.PodsReady, m.Restarts, m.Timers)
	}
	runtime.KeepAlive(c)
	warm, late := mean(heap[hours/4:hours/2]), mean(heap[hours-hours/4:])
	growth := late/warm - 1
	t.Logf("soak: heap %.3f MB after warm-up, %.3f MB at the end: %+.2f %% in %d hours", warm/1e6, late/1e6, 100*growth, hours)
	check.AtMost(t, growth, bar, "the heap grew by %.2f %%", 100*growth)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
