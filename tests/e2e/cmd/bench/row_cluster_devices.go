package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const (
	benchDevice v1.ResourceName = "example.com/device"
	// deviceSettings leave all CPUs but the first to pods that want them alone.
	deviceSettings = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"
)

// withDevices makes a pod have a CPU to itself, and two devices.
func withDevices(p *v1.Pod) {
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("64Mi"), benchDevice: resource.MustParse("2"),
	}
}

// withLimits makes a pod have the same limits, of which nothing is its alone.
func withLimits(p *v1.Pod) {
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("64Mi")},
	}
}

// devicePods are the pods that take turns.
var devicePods = []struct {
	name   string
	change func(*v1.Pod)
}{{"without", nil}, {"with the same limits only", withLimits}, {"with", withDevices}}

// clusterDevices measures how much longer a pod takes that has a CPU to itself and two devices than one that has neither,
// in turns. It is what a machine of two CPUs can tell of a pod with many.
func (b *bench) clusterDevices(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	load := loadAverage()
	const turn = 5
	of := map[string][]samples{} // by agent, one for each of devicePods
	for done := 0; done < b.samples; done += turn {
		for _, agent := range c.agents {
			s := check.Must(c.devicesOf(ctx, agent.Name, min(turn, b.samples-done)))
			if of[agent.Name] == nil {
				of[agent.Name] = make([]samples, len(devicePods))
			}
			for i := range s {
				of[agent.Name][i] = append(of[agent.Name][i], s[i]...)
			}
			c.say("  %s", agent.Name)
			for i, p := range devicePods {
				c.say("    %s: %s", p.name, of[agent.Name][i].quantiles())
			}
		}
	}
	r := devicesResult(of)
	r.details = append(r.details, "load average of the machine when the row began: "+load)
	return []result{r}, nil
}

func devicesResult(of map[string][]samples) result {
	const bar = 30 * time.Millisecond
	last := len(devicePods) - 1
	more := func(agent string) time.Duration { return of[agent][last].median() - of[agent][0].median() }
	r := result{
		section: cluster, what: "one pod with an exclusive CPU and 2 devices, created → seen Ready", bar: "without + " + ms(bar),
		floor: fmt.Sprintf("without %s; kubelet %s, without %s (%s)", ms(of[troupeName][0].median()),
			ms(of[kubeletName][last].median()), ms(of[kubeletName][0].median()), plus(more(kubeletName))),
		measured: ms(of[troupeName][last].median()), ratio: plus(more(troupeName)), verdict: verdict(more(troupeName) <= bar),
	}
	for _, agent := range []string{kubeletName, troupeName} {
		for i, p := range devicePods {
			r.details = append(r.details, fmt.Sprintf("%s, %s: %s", agent, p.name, of[agent][i].quantiles()))
		}
		each := make(samples, len(of[agent][0]))
		for i := range each {
			each[i] = of[agent][last][i] - of[agent][0][i]
		}
		r.details = append(r.details, fmt.Sprintf("%s, each pod with them, compared with the one without before it: %s", agent, each.quantiles()))
	}
	return r
}

// devicesOf starts n pods of each kind one after another on a fresh node.
func (c *bed) devicesOf(ctx context.Context, agent string, n int) (all []samples, err error) {
	defer check.Return(&err)
	r := check.Must(c.prepare(c.agent(agent).OwnPlugins()))
	defer r.leave(&err)
	check.OK(r.Configure(r.agent, deviceSettings))
	check.OK(r.Start())
	check.OK(r.awaitReady(ctx))
	plugin := check.Must(r.plugIn(ctx))
	defer plugin.Stop()
	all = make([]samples, len(devicePods))
	for i := range n {
		for kind, p := range devicePods {
			name := fmt.Sprintf("devices-%d-%d", i, kind)
			took := check.Must(r.start(ctx, p.change, name))
			all[kind] = append(all[kind], took...)
			check.Must(r.remove(ctx, name))
			check.OK(r.cleared(ctx))
		}
	}
	if calls := plugin.Calls(); len(calls) != n {
		r.fault("%s: %d pods had devices, and the plugin got %v", agent, n, calls)
	}
	return all, nil
}

// plugIn registers a plugin with four devices that answers at once, and waits until the node shows them.
func (r *joined) plugIn(ctx context.Context) (*plugintest.Plugin, error) {
	const endpoint, devices = "bench.sock", 4
	dir := filepath.Join(r.Root(), "device-plugins")
	plugin := &plugintest.Plugin{Resource: string(benchDevice)}
	plugin.List("a", "b", "c", "d")
	if err := plugin.Serve(filepath.Join(dir, endpoint)); err != nil {
		return nil, err
	}
	err := plugin.Register(ctx, dir, endpoint)
	if err == nil {
		err = lab.Eventually(ctx, podPatience, "node "+r.Node()+" shows its devices", func() error {
			n := check.Must(r.client.CoreV1().Nodes().Get(ctx, r.Node(), metav1.GetOptions{}))
			if shown := n.Status.Allocatable[benchDevice]; shown.Value() != devices {
				return fmt.Errorf("it shows %s of %d", shown.String(), devices)
			}
			return nil
		})
	}
	if err != nil {
		plugin.Stop()
		return nil, err
	}
	return plugin, nil
}
