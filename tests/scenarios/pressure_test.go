package scenarios

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

const mib, gib = 1 << 20, 1 << 30

func withPressure(c machine.Capacity) option {
	return func(s *setting) { s.spec.Pressure = &c }
}

// uses says what the container app of a pod uses.
func (c *cluster) uses(name string, u machine.Use) {
	c.w.node.Machine().Pressure.SetUse("default", name, "app", u)
}

// pressed says whether the node's object shows a condition.
func (c *cluster) pressed(of v1.NodeConditionType) bool {
	n := c.node()
	if n == nil {
		return false
	}
	for i := range n.Status.Conditions {
		if s := &n.Status.Conditions[i]; s.Type == of {
			return s.Status == v1.ConditionTrue
		}
	}
	return false
}

// crowd makes pods that use 50 MiB of memory each.
func (c *cluster) crowd(n int) (names []string) {
	for i := range n {
		name := fmt.Sprintf("p%02d", i)
		names = append(names, name)
		c.uses(name, machine.Use{Memory: machine.Growth{Bytes: 50 * mib}})
		c.create(aPod(name))
	}
	return names
}

// onlyEvicted checks that one pod was evicted, and that the others never restarted.
func (c *cluster) onlyEvicted(victim string, others []string) {
	c.w.t.Helper()
	for _, name := range others {
		if !c.ready(name) || c.restarts(name, "app") != 0 {
			c.w.t.Errorf("%s is ready: %v, and restarted %d times", name, c.ready(name), c.restarts(name, "app"))
		}
	}
	if victim == "" {
		return
	}
	p, disrupted := c.get(victim), false
	for _, s := range p.Status.Conditions {
		disrupted = disrupted || s.Type == v1.DisruptionTarget && s.Status == v1.ConditionTrue
	}
	if p.Status.Phase != v1.PodFailed || p.Status.Reason != eviction.Reason || !disrupted {
		c.w.t.Errorf("%s is %s %s, DisruptionTarget: %v", victim, p.Status.Phase, p.Status.Reason, disrupted)
	}
}

// TestMemoryStorm: a pod takes all memory. It alone is evicted, whether or not the kernel gives notice.
func TestMemoryStorm(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("no notices: %v", silent), func(t *testing.T) {
			w, c := newClusterNode(t, 1, withPressure(machine.Capacity{Memory: 4 * gib, NodeFS: 1000 * gib}))
			m := w.node.Machine().Pressure
			m.NoNotices = silent
			names := c.crowd(20)
			c.create(aPod("hog"))
			w.until(2*time.Minute, "all run", func() bool { return c.allReady(append(names, "hog")...) })
			w.run(20 * time.Second)
			measured := m.Measured
			c.uses("hog", machine.Use{Memory: machine.Growth{Bytes: 50 * mib, Rate: 100 * mib, Max: 8 * gib}})
			w.until(time.Minute, "the hog ends", func() bool { return finished(c.get("hog")) })
			ended := w.v.Now()
			if m.Measured == measured {
				t.Error("no pod was measured")
			}
			w.until(time.Minute, "the pressure is shown", func() bool { return c.pressed(v1.NodeMemoryPressure) })
			c.create(aPod("late"))
			w.until(time.Minute, "a new pod is refused", func() bool { return finished(c.get("late")) })
			if p := c.get("late"); p.Status.Reason != eviction.Reason {
				t.Errorf("the new pod is %s %s", p.Status.Phase, p.Status.Reason)
			}
			w.until(20*time.Minute, "the pressure is over", func() bool { return !c.pressed(v1.NodeMemoryPressure) })
			check.AtLeast(t, w.v.Now().Sub(ended), 5*time.Minute-10*time.Second, "the pressure was over after")
			c.onlyEvicted("hog", names)
			if told := c.eventOf("hog", eviction.Reason); told == nil || told.Annotations["starved_resource"] != "memory" ||
				told.Annotations["offending_containers"] != "app" || told.Annotations["offending_containers_usage"] == "" {
				t.Errorf("its event is %+v", told)
			}
		})
	}
}

// eventOf is the first event of a pod for a reason in the apiserver, nil if there is none.
func (c *cluster) eventOf(name, reason string) *v1.Event {
	c.w.t.Helper()
	list, _ := check.Values(c.api.List(simapi.Select{Kind: port.EventKind, Namespace: "default"}))(c.w.t)
	for _, o := range list {
		if e := o.(*v1.Event); e.InvolvedObject.Name == name && e.Reason == reason {
			return e
		}
	}
	return nil
}

// TestDiskFills: a pod fills the disk. If the removal of images is enough, it goes on; else it is evicted.
func TestDiskFills(t *testing.T) {
	t.Parallel()
	for _, split := range []bool{false, true} {
		for _, enough := range []bool{true, false} {
			t.Run(fmt.Sprintf("split: %v, images are enough: %v", split, enough), func(t *testing.T) {
				fillDisk(t, split, enough, false)
			})
		}
	}
}

// TestEvictedPodFreesDisk: when the pod that filled the disk is evicted, its writable layer goes, and nobody else is
// evicted.
func TestEvictedPodFreesDisk(t *testing.T) {
	fillDisk(t, false, false, true)
}

// TestDiskFillsByLogs: a pod that logs without end is evicted, and its logs go.
func TestDiskFillsByLogs(t *testing.T) {
	w, c := parallelCluster(t, 1, withPressure(machine.Capacity{Memory: 64 * gib, NodeFS: 100 * gib, ImageFS: 100 * gib}))
	names := c.crowd(5)
	c.create(aPod("logger"))
	w.until(time.Minute, "all run", func() bool { return c.allReady(append(names, "logger")...) })
	c.uses("logger", machine.Use{Logs: machine.Growth{Rate: gib, Max: 99 * gib}})
	w.until(3*time.Minute, "the logger ends", func() bool { return finished(c.get("logger")) })
	w.until(time.Minute, "the pressure is shown", func() bool { return c.pressed(v1.NodeDiskPressure) })
	w.until(20*time.Minute, "the pressure is over", func() bool { return !c.pressed(v1.NodeDiskPressure) })
	c.onlyEvicted("logger", names)
}

// TestVolumesOfTheVictimTakeTime: nobody else is evicted while the volumes of an evicted pod are being removed.
func TestVolumesOfTheVictimTakeTime(t *testing.T) {
	w, c := parallelCluster(t, 1, withPressure(machine.Capacity{Memory: 64 * gib, NodeFS: 100 * gib}))
	names := c.crowd(5)
	c.create(aPod("writer"))
	w.until(time.Minute, "all run", func() bool { return c.allReady(append(names, "writer")...) })
	w.node.Machine().Host.Fault = func(call machine.Call) (f machine.Fault) {
		if call.Verb == "UnmountPod" {
			f.WorkLate = 20 * time.Second
		}
		return f
	}
	c.uses("writer", machine.Use{Volumes: machine.Growth{Rate: gib, Max: 99 * gib}})
	w.until(3*time.Minute, "the writer ends", func() bool { return finished(c.get("writer")) })
	w.run(2 * time.Minute)
	c.onlyEvicted("writer", names)
}

// fillDisk lets a pod fill the disk. freed: what it wrote must go with it.
func fillDisk(t *testing.T, split, enough, freed bool) {
	capacity := machine.Capacity{Memory: 64 * gib, NodeFS: 100 * gib}
	if split {
		capacity.ImageFS = 100 * gib
	}
	w, c := newClusterNode(t, 1, withPressure(capacity))
	names := c.crowd(5)
	c.create(aPod("writer"))
	w.until(time.Minute, "all run", func() bool { return c.allReady(append(names, "writer")...) })
	w.rt.MakeImagePresent("registry.test/unused:1", simcri.RegistryImage{SizeBytes: 30 * gib})
	most := uint64(65 * gib)
	if !enough {
		most = 95 * gib
	}
	c.uses("writer", machine.Use{Layer: machine.Growth{Rate: gib, Max: most}})
	unused := func() bool {
		for _, i := range w.rt.Truth().Images {
			if i.SizeBytes == 30*gib {
				return true
			}
		}
		return false
	}
	w.until(2*time.Minute, "the image goes", func() bool { return !unused() })
	if finished(c.get("writer")) {
		t.Error("the pod was evicted before the image went")
	}
	if enough {
		w.run(5 * time.Minute)
		c.onlyEvicted("", append(names, "writer"))
		return
	}
	w.until(3*time.Minute, "the writer ends", func() bool { return finished(c.get("writer")) })
	c.onlyEvicted("writer", names)
	if !freed {
		return
	}
	w.run(time.Minute)
	c.onlyEvicted("writer", names)
}
