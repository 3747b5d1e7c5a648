package scenarios

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// unusedImages are the numbers of the images registry.test/unused-NUMBER:1 that are there, sorted.
func (w *world) unusedImages() (out []int) {
	for _, i := range w.rt.Truth().Images {
		var n int
		if _, err := fmt.Sscanf(i.RepoTags[0], "registry.test/unused-%d:1", &n); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// TestImagePressure: images that nobody uses come one after another. From the high threshold on the oldest go until the
// low one is reached; those in use stay, and nobody is evicted.
func TestImagePressure(t *testing.T) {
	t.Parallel()
	const images, size = 10, 8 * gib
	w, c := newClusterNode(t, 1, withPressure(machine.Capacity{Memory: 64 * gib, NodeFS: 100 * gib}),
		withConfig(func(c *agent.Config) { c.ImageGC = imagecache.GCPolicy{High: 75, Low: 50, MinAge: 2 * time.Minute} }))
	names := c.crowd(5)
	w.until(time.Minute, "all run", func() bool { return c.allReady(names...) })
	for n := range images {
		w.rt.MakeImagePresent(fmt.Sprintf("registry.test/unused-%d:1", n), simcri.RegistryImage{SizeBytes: size})
		w.run(6 * time.Minute) // more than between two looks, so that each is seen at another time
	}
	w.until(20*time.Minute, "images go", func() bool { return len(w.unusedImages()) < images })
	w.run(time.Minute)
	got := w.unusedImages()
	// Sorted numbers below images: if the first is right, so are all.
	if len(got) < 4 || len(got) > 6 || got[0] != images-len(got) {
		t.Errorf("the images %v stay, want the newest that fit into half of the disk", got)
	}
	w.run(30 * time.Minute)
	if again := w.unusedImages(); !slices.Equal(got, again) {
		t.Errorf("below the high threshold %v became %v", got, again)
	}
	c.onlyEvicted("", names)
}

// TestDiskLimits: a pod that writes more than its limit is evicted after a look, whatever it writes to; its neighbour
// with the same limit, that stays below it, is not.
func TestDiskLimits(t *testing.T) {
	t.Parallel()
	limited := func(name string) *spec {
		s := aPod(name).volume("scratch")
		s.Spec.Containers[0].Resources = v1.ResourceRequirements{
			Limits:   v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
			Requests: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("0")},
		}
		return s
	}
	grows := machine.Growth{Rate: 100 * mib, Max: 20 * gib}
	for name, uses := range map[string]machine.Use{
		"logs": {Logs: grows}, "layer": {Layer: grows}, "volumes": {Volumes: grows},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newClusterNode(t, 1, withPressure(machine.Capacity{Memory: 64 * gib, NodeFS: 1000 * gib}))
			c.create(limited("writer"))
			c.create(limited("neighbour"))
			w.until(time.Minute, "all run", func() bool { return c.allReady("writer", "neighbour") })
			c.uses("neighbour", machine.Use{Logs: machine.Growth{Bytes: 900 * mib}})
			c.uses("writer", uses)
			w.run(gib / (100 * mib) * time.Second)
			// A look each ten seconds, and half a second for the end.
			took := w.until(15*time.Second, "the writer ends", func() bool { return finished(c.get("writer")) })
			t.Logf("evicted %v after its limit", took)
			w.run(5 * time.Minute)
			c.onlyEvicted("", []string{"neighbour"})
			// As with a kubelet it is no disruption: the pod is itself to blame.
			if p := c.get("writer"); p.Status.Reason != eviction.Reason {
				t.Errorf("the writer is %s %s", p.Status.Phase, p.Status.Reason)
			}
			if c.pressed(v1.NodeDiskPressure) {
				t.Error("the node shows DiskPressure")
			}
		})
	}
}

// TestSoftThreshold: a shortage that is over within the grace period evicts nobody, one that lasts evicts the hog.
func TestSoftThreshold(t *testing.T) {
	t.Parallel()
	const grace = time.Minute
	w, c := newClusterNode(t, 1, withPressure(machine.Capacity{Memory: 4 * gib, NodeFS: 1000 * gib}),
		withConfig(func(c *agent.Config) {
			c.Eviction.Thresholds = append(slices.Clone(c.Eviction.Thresholds), eviction.Threshold{
				Signal: eviction.MemoryAvailable, Value: eviction.Amount{Quantity: resource.NewQuantity(gib, resource.BinarySI)}, Grace: grace,
			})
			c.Eviction.MaxPodGrace = 10 * time.Second
		}))
	names := c.crowd(5)
	c.create(aPod("hog"))
	w.until(time.Minute, "all run", func() bool { return c.allReady(append(names, "hog")...) })
	much, little := machine.Use{Memory: machine.Growth{Bytes: 3 * gib}}, machine.Use{Memory: machine.Growth{Bytes: 50 * mib}}
	c.uses("hog", much)
	w.until(grace/2, "the pressure is shown", func() bool { return c.pressed(v1.NodeMemoryPressure) })
	c.uses("hog", little)
	w.until(20*time.Minute, "the pressure is over", func() bool { return !c.pressed(v1.NodeMemoryPressure) })
	c.onlyEvicted("", append(names, "hog"))
	c.uses("hog", much)
	begin := w.v.Now()
	w.until(3*time.Minute, "the hog ends", func() bool { return finished(c.get("hog")) })
	if took := w.v.Now().Sub(begin); took < grace {
		t.Errorf("it was evicted after %v, want not before %v", took, grace)
	}
	w.run(time.Minute)
	c.onlyEvicted("hog", names)
}
