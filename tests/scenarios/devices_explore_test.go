package scenarios

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	plugged "github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// gpus is how many GPUs the machine of these tests has, and dongle what it has two of besides.
const (
	gpus                   = 8
	dongle v1.ResourceName = "example.com/dongle"
)

// withDevices is a node with device plugins and CPUs for containers alone, near to each other if that can be.
func withDevices() option {
	return func(s *setting) {
		s.spec.Assign = twoNUMANodes()
		s.spec.Assign.Topology, s.spec.Assign.TopologyOptions.MaxNodes = kubelet.BestEffortTopologyManagerPolicy, 8
		all := sim.SpreadDevices(gpus, 2)
		s.spec.Devices = map[v1.ResourceName]machine.DevicePlugin{
			gpu: {Devices: all, Options: devices.Options{Preferred: true, PreStart: true}, Boot: 20 * time.Second},
			dongle: {Devices: []devices.Device{{ID: "left", Healthy: true}, {ID: "right", Healthy: true}},
				Latency: 300 * time.Millisecond},
		}
	}
}

// has adds devices to what each lasting container asks for.
func (s *spec) has(name v1.ResourceName, n int) *spec {
	for c := range podspec.Lasting(&s.Spec) {
		if c.Resources.Limits == nil {
			c.Resources = v1.ResourceRequirements{Limits: v1.ResourceList{}, Requests: v1.ResourceList{}}
		}
		q := *resource.NewQuantity(int64(n), resource.DecimalSI)
		c.Resources.Limits[name], c.Resources.Requests[name] = q, q
	}
	return s
}

// TestExploreDevices: pods with and without devices and exclusive CPUs come and go, plugins die, are slow and list
// broken devices, the agent is killed after any message, actors crash and calls fail. No device is lost or has two
// owners, none is taken from a container that runs, and all containers have what the state says.
func TestExploreDevices(t *testing.T) {
	t.Parallel()
	steps := 60
	if s := os.Getenv("TROUPE_STEPS"); s != "" { // 450 are about 200 pods
		steps = check.Value(strconv.Atoi(s))(t)
	}
	for _, seed := range seeds(t, 1, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { exploreDevices(t, seed, steps) })
	}
}

func exploreDevices(t *testing.T, seed uint64, steps int) {
	// A call of a killed agent that takes effect after those of the next is not noticed: see docs/decisions/0048.
	h := newHavoc(t, seed, withDevices(), withLateEffects(0))
	plugins := h.node.Machine().Plugins
	type needs struct{ cpus, gpus, dongles int }
	h.until(time.Minute, "the plugins are known", func() bool {
		data := h.checkpoints.Get(devicestate.Name)
		return strings.Contains(string(data), string(gpu)) && strings.Contains(string(data), string(dongle))
	})
	h.trouble, h.panics = float64(seed%3)*0.05, float64(seed%4)*0.001
	stopped := map[v1.ResourceName]time.Time{} // since when
	plugins.Fault = func(c machine.Call) machine.Fault {
		f := h.hostFault(c)
		if !machine.Watches(c.Verb) || f == (machine.Fault{}) {
			return f
		}
		if stopped[v1.ResourceName(c.Name)].IsZero() {
			stopped[v1.ResourceName(c.Name)] = h.v.Now() // nobody listens to the plugin: in the end it registers again
		}
		return machine.Fault{Err: &port.Error{Kind: port.Unavailable, Verb: c.Verb, Detail: "havoc"}} // a watch does not hang
	}
	held := invariants.Held{Fixed: true}
	had, free, n := map[string]needs{}, needs{ownCPUs, gpus, 2}, 0
	for range steps {
		switch names := sorted(had); h.rng.IntN(9) {
		case 0, 1, 2, 3:
			name, is := fmt.Sprint("p", n), needs{h.rng.IntN(4), h.rng.IntN(4), h.rng.IntN(8) / 6}
			if n++; is.cpus > free.cpus || is.gpus > free.gpus || is.dongles > free.dongles {
				continue
			}
			s := aPod(name)
			if is.cpus > 0 {
				s.needs(fmt.Sprint(is.cpus))
			}
			if is.gpus > 0 {
				s.has(gpu, is.gpus)
			}
			if is.dongles > 0 {
				s.has(dongle, is.dongles)
			}
			had[name] = is
			free = needs{free.cpus - is.cpus, free.gpus - is.gpus, free.dongles - is.dongles}
			h.say("add %s with %+v", name, is)
			h.add(s)
		case 4, 5:
			if len(names) == 0 {
				continue
			}
			name := names[h.rng.IntN(len(names))]
			is := had[name]
			free = needs{free.cpus + is.cpus, free.gpus + is.gpus, free.dongles + is.dongles}
			delete(had, name)
			h.say("drop %s", name)
			h.drop(name)
		case 6:
			h.say("kill")
			h.restart()
		case 7:
			name := []v1.ResourceName{gpu, dongle}[h.rng.IntN(2)]
			h.say("stop or start %s", name)
			if stopped[name].IsZero() {
				plugins.Stop(name)
				stopped[name] = h.v.Now()
			} else {
				plugins.Start(name)
				delete(stopped, name)
			}
		case 8:
			id, healthy := fmt.Sprint(h.rng.IntN(gpus)), h.rng.IntN(2) == 0
			h.say("GPU %s is healthy: %t", id, healthy)
			plugins.SetHealth(gpu, id, healthy)
		}
		for range h.rng.IntN(400) {
			h.step(h.v.Now().Add(time.Second))
			h.checkHeld(&held)
			for _, name := range plugins.Names() {
				// A plugin that is gone for long is forgotten. Then its resource counts as one that an operator added.
				if since := stopped[name]; !since.IsZero() && h.v.Now().Sub(since) > plugged.ForgetAfter/2 {
					plugins.Start(name)
					delete(stopped, name)
				}
			}
		}
	}
	for _, name := range slices.Clone(plugins.Names()) {
		for _, d := range plugins.Of(name).Devices {
			plugins.SetHealth(name, d.ID, true)
		}
		plugins.Start(name)
	}
	h.heal()
	h.checkAssigned()
	h.kill()
}

// TestDevicesAfterReboot: after a loss of power the agent is there before the device plugins. Pods wait for them, are
// not refused, and have the devices again that they had.
func TestDevicesAfterReboot(t *testing.T) {
	w, c := parallelCluster(t, 3, withDevices())
	w.watch.restartsExpected = true
	w.until(time.Minute, "the GPUs are shown", func() bool { return c.advertised(gpu) == gpus })
	c.create(aPod("two").asks(gpu, "2"), aPod("three").asks(gpu, "3"), aPod("dongle").asks(dongle, "1"))
	w.until(time.Minute, "all run", func() bool { return c.allReady("two", "three", "dongle") })
	had := w.devices()
	w.node.PowerOff()
	w.run(30 * time.Second)
	w.node.PowerOn()
	w.until(15*time.Second, "what has its plugin is back", func() bool { return w.devices() == "dongle[{example.com/dongle [left]}]" })
	w.until(time.Minute, "all are back with what they had", func() bool { return w.devices() == had && c.allReady("two", "three", "dongle") })
	for _, p := range w.view().Pods {
		check.Equal(t, p.Restarts, 1, "%s has %d restarts", p.Name, p.Restarts)
	}
}

// devices are those of all running containers, by pod.
func (w *world) devices() string {
	var out []string
	for _, p := range w.rt.Truth().Runtime.Pods {
		for _, c := range p.Containers {
			if d := w.rt.Devices(c.ID); d != nil && c.State == observed.ContainerRunning {
				out = append(out, fmt.Sprint(p.Ref.Name, d.PreStart))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
