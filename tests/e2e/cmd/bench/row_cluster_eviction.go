package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

const (
	// noEvictions turns all of it off, for both agents.
	noEvictions = `evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
localStorageCapacityIsolation: false
`
	// filesEach is how many files each pod has in its volume.
	filesEach = 20
)

// clusterEviction measures what it costs to watch over idle pods that have limits of disk: the same pods, with
// an agent that evicts nothing, and with agents that do, in turns.
func (b *bench) clusterEviction(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	type variant struct {
		name, settings string
		agent          member.Agent
		used           []float64
	}
	variants := []*variant{{name: "without evictions", agent: c.agent(troupeName), settings: noEvictions}, {name: "with evictions", agent: c.agent(troupeName)}}
	for _, binary := range b.beside {
		variants = append(variants, &variant{name: filepath.Base(binary) + " with evictions", agent: member.Troupe(binary)})
	}
	r := check.Must(c.join(ctx, c.agent(troupeName)))
	defer r.leave(&err)
	pods := names("limited", b.idle)
	for some := range slices.Chunk(pods, 50) { // a slow machine may not start all of them within the patience
		check.Must(r.start(ctx, limited, some...))
	}
	check.OK(r.fill(pods))
	for range b.rounds {
		for _, v := range variants {
			check.OK(r.Stop(ctx))
			check.OK(r.Configure(v.agent, v.settings))
			check.OK(r.Start())
			check.OK(r.awaitReady(ctx))
			used := check.Must(r.idleFor(ctx, max(r.window, eviction.Blind)))
			v.used = append(v.used, used)
			c.say("  %s: %.2f CPU-s per minute", v.name, used)
		}
	}
	const bar = 0.1
	var details []string
	for _, v := range variants {
		details = append(details, fmt.Sprintf("%s: %.2f CPU-s per minute", v.name, v.used))
	}
	without, with := mean(variants[0].used), mean(variants[1].used)
	check.Must(r.remove(ctx, pods...))
	return []result{{
		section: cluster, what: fmt.Sprintf("%d idle pods with limits of disk and %d files each, the agent's CPU with evictions", b.idle, filesEach),
		bar: "≤ 0.1 CPU-s per minute more than without", floor: fmt.Sprintf("%.2f CPU-s per minute without evictions", without),
		measured: fmt.Sprintf("%.2f CPU-s per minute", with), ratio: fmt.Sprintf("%+.2f", with-without), verdict: verdict(with-without <= bar),
		details: details,
	}}, nil
}

func mean(all []float64) (sum float64) {
	for _, n := range all {
		sum += n / float64(len(all))
	}
	return sum
}

// limited gives a pod a volume and limits of disk.
func limited(p *v1.Pod) {
	volume, layers := resource.MustParse("64Mi"), resource.MustParse("256Mi")
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &volume}}})
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{
		Limits:   v1.ResourceList{v1.ResourceEphemeralStorage: layers},
		Requests: v1.ResourceList{v1.ResourceEphemeralStorage: {}}, // they fit on a small disk too
	}
}

// fill writes files into the volume of each pod.
func (r *joined) fill(pods []string) (err error) {
	defer check.Return(&err)
	dirs := check.Must(filepath.Glob(filepath.Join(r.Root(), "pods/*/volumes/kubernetes.io~empty-dir/scratch")))
	if len(dirs) != len(pods) {
		return fmt.Errorf("%d volumes for %d pods", len(dirs), len(pods))
	}
	for _, dir := range dirs {
		for i := range filesEach {
			check.OK(os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o644))
		}
	}
	return nil
}

// idleFor measures the agent's CPU seconds per minute, when its start is over: new pods are measured often at first.
func (r *joined) idleFor(ctx context.Context, window time.Duration) (_ float64, err error) {
	defer check.Return(&err)
	check.OK(sleep(ctx, time.Minute))
	before := check.Must(r.usage())
	begin := time.Now()
	check.OK(sleep(ctx, window))
	after, err := r.usage()
	return after.since(before).agent.Seconds() / time.Since(begin).Minutes(), err
}
