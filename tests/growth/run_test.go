package growth

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// cost is what each message has cost a handler in a run, in their order.
type cost []time.Duration

func (c cost) all() time.Duration {
	var sum time.Duration
	for _, took := range c {
		sum += took
	}
	return sum
}

// most is that of the dearest message.
func (c cost) most() time.Duration { return slices.Max(append(cost{0}, c...)) }

// costs are by handler: the actor and the type of the message.
type costs map[string]cost

var roomy = v1.ResourceList{
	v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"),
	v1.ResourcePods: resource.MustParse("500"), v1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
}

// run has a node bring up a pod with n of a shape, and take it down.
func run(t *testing.T, s *Shape, n int) costs {
	t.Helper()
	out := costs{}
	var begun time.Duration
	registry := simcri.NewRegistry()
	registry.Put(PrivateImage, simcri.RegistryImage{Credential: &port.ImageAuth{Username: "u", Password: "none"}})
	w := check.Value(sim.New(sim.Config{
		Seed: 1, Bare: true, Services: true, Registry: registry,
		Hooks: sim.Hooks{Around: func(_, actor string, m any, handled bool) {
			if !handled {
				begun = linear.CPU()
				return
			}
			took := linear.CPU() - begun
			if len(actor) == len("00000000-0000-0000-0000-000000000000") {
				actor = "pod"
			}
			name := actor + " " + reflect.TypeOf(m).String()
			out[name] = append(out[name], took)
		}},
	}))(t)
	node := check.Value(w.AddNode(sim.NodeSpec{
		Name: "n", Allocatable: roomy, Cgroups: true, Files: true, PullRecords: true,
		CSI: map[string]machine.CSIDriver{Driver: {Usage: &csi.Usage{}}}, Starts: 64,
	}))(t)
	w.Advance(5 * time.Second)
	p := Base("greedy")
	p.Spec.NodeName = node.Name()
	for _, o := range s.Make(p, n) {
		check.Value(w.API().Create(o))(t)
	}
	clear(out)
	check.Value(w.API().Create(p))(t)
	key := port.APIKey{Kind: port.PodKind, Namespace: p.Namespace, Name: p.Name}
	patience := 10 * time.Second
	if s.ofContainers() {
		patience = 5 * time.Minute
	}
	w.RunUntil(patience, func() bool {
		o, err := w.API().Get(key)
		return err == nil && o.(*v1.Pod).Status.Phase == v1.PodRunning && ready(o.(*v1.Pod))
	})
	w.Advance(5 * time.Second)
	check.Fatal(t, w.API().Delete(port.APIDelete{Key: key}))
	w.Advance(10 * time.Second)
	node.KillAgent()
	check.Equal(t, w.System().Dropped(), 0, "messages that a full mailbox dropped")
	return out
}

func ready(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// least are the least costs of two runs of the same, message by message: what something else adds, as a host that takes the
// processor away from a virtual machine, it does not add to the same message of each run. a is nil before the first run.
func least(a, b costs) costs {
	if a == nil {
		return b
	}
	out := costs{}
	for name, x := range a {
		y := b[name]
		if len(x) != len(y) {
			panic(fmt.Sprintf("%s had %d messages in one run and %d in another of the same seed", name, len(x), len(y)))
		}
		out[name] = make(cost, len(x))
		for i := range x {
			out[name][i] = min(x[i], y[i])
		}
	}
	return out
}

// floor is the cost below which a handler is not looked at.
const floor = 3 * time.Millisecond

// floor is that of all messages of a handler. Of a pod with many containers there are thousands, and each finds memory
// that is cold.
func (s *Shape) floor() time.Duration {
	if s.ofContainers() {
		return 8 * floor
	}
	return floor
}

// faults are the handlers whose cost grows faster than what there is of a shape.
func faults(s *Shape, little, much costs) (out []string) {
	grew := func(a, b time.Duration) float64 { return float64(b) / float64(max(a, floor/16)) }
	for _, name := range sortedKeys(much) {
		a, b := little[name], much[name]
		all, most := grew(a.all(), b.all()), grew(a.most(), b.most())
		if b.all() > s.floor() && all > linear.Bar && !each(name) || b.most() > floor && most > linear.Bar {
			out = append(out, fmt.Sprintf("%s: %s: %d messages took %v, the dearest %v, with four times as much %d took %v "+
				"(%.1f ×), the dearest %v (%.1f ×)", s.Name, name, len(a), a.all(), a.most(), len(b), b.all(), all, b.most(), most))
		}
	}
	return out
}
