package scenarios

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

// job ends by itself, and is never run again.
func job(name string) *spec {
	return emptyPod(name).main("app").script("app", "run-for", "400ms").script("app", "exit-code", "0").restarts(v1.RestartPolicyNever)
}

// clusterUp creates pods of the apiserver and a static one.
func clusterUp(w *world) {
	w.run(100 * time.Millisecond)
	w.cluster.create(few()...)
	w.cluster.create(job("d-job"))
	w.add(aPod("e-static"))
}

func clusterIsUp(w *world) bool {
	c := w.cluster
	return c.allReady("a-init", "b-plain", "c-slow", "e-static-"+nodeName) && c.get("d-job") != nil && c.get("d-job").Status.Phase == v1.PodSucceeded
}

func clusterDown(w *world) {
	clusterUp(w)
	w.until(time.Minute, "all is up", func() bool { return clusterIsUp(w) })
	for _, n := range []string{"a-init", "b-plain", "c-slow", "d-job"} {
		w.cluster.delete(n, nil)
	}
	w.drop("e-static")
}

func clusterIsDown(w *world) bool { return w.cluster.nothingLeft() }

// clusterQuiet checks that nobody waits for anything, and that the apiserver is
// told what people are shown here.
func (w *world) clusterQuiet() {
	w.t.Helper()
	w.run(3 * time.Second)
	w.until(time.Minute, "nobody waits for anything", func() bool { // a lease may just be renewed, or a probe kill
		for _, a := range w.system.Snapshot("") {
			if a.Depth > 0 || slices.ContainsFunc(a.Effects, func(e kernel.EffectInfo) bool { return !e.Standing && e.Phase != kernel.EffectExpired }) {
				return false
			}
		}
		return true
	})
	shown := map[string]bool{}
	for _, p := range w.view().Pods {
		shown[p.Name] = true
		o := w.cluster.get(p.Name)
		switch {
		case o == nil:
			w.failf("the apiserver does not have pod %s", p.Name)
		case string(o.Status.Phase) != p.Phase || isReady(o) != p.Ready:
			w.failf("the apiserver has %s as %s, ready %v; people here are shown %s, ready %v", p.Name, o.Status.Phase, isReady(o), p.Phase, p.Ready)
		case !isMirror(o) && o.UID != p.UID:
			w.failf("pod %s here is not the one of the apiserver", p.Name)
		}
		for i := range o.Status.ContainerStatuses {
			if s, v := &o.Status.ContainerStatuses[i], &p.Containers[len(p.Containers)-len(o.Status.ContainerStatuses)+i]; s.RestartCount != v.Restarts || s.ContainerID != v.ID {
				w.failf("container %s of %s: the apiserver has %+v, people here are shown %+v", s.Name, p.Name, s, v)
			}
		}
	}
	for _, o := range w.cluster.pods {
		if !shown[o.Name] {
			w.failf("the apiserver has pod %s, which is not here", o.Name)
		}
	}
	n := w.cluster.node()
	if n == nil || !nodeobject.Ready(&n.Status) {
		w.failf("the node is %+v", n)
	}
	if last := w.cluster.renewed[len(w.cluster.renewed)-1]; w.v.Now().Sub(last) > 11*time.Second {
		w.failf("the lease was renewed %v ago", w.v.Now().Sub(last))
	}
}

// TestClusterKilledAtEveryBoundary kills the agent after each message, once, and
// starts another on the same machine: pods come up, or go, as if nothing had
// been, none is started that has ended or is gone, no container is restarted,
// and no status says less than the one before.
func TestClusterKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*world)
		goal    func(*world) bool
	}{"coming up": {clusterUp, clusterIsUp}, "going down": {clusterDown, clusterIsDown}} {
		t.Run(name, func(t *testing.T) {
			atBoundaries(t, every(9), func(k int) *world {
				late := float64(k%3) / 2
				w, cl := newClusterNode(t, 1, withLateEffects(late), withAPI(func(c *simapi.Config) { c.LateEffect = late }))
				w.watch.restartsExpected = false
				cl.lag = time.Duration(k%5) * 40 * time.Millisecond
				c.prepare(w)
				return w
			}, c.goal, func(_ int, w *world) {
				w.restart()
				w.until(2*time.Minute, name, func() bool { return c.goal(w) })
				w.clusterQuiet()
			})
		})
	}
}

// TestClusterKilledWhileAllRuns: nothing is touched, and nothing is written: no
// pod, no readiness, no time of a condition.
func TestClusterKilledWhileAllRuns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		w, c := newClusterNode(t, seed)
		c.create(many("p", 30, func(n string) *spec { return aPod(n).volume("data") })...)
		w.add(aPod("static"))
		w.until(time.Minute, "all run", func() bool { return c.allReady(append(names("p", 30), "static-"+nodeName)...) })
		w.run(time.Minute)
		w.watch.restartsExpected = false
		writes := func() int { return c.calls["Patch Pod status"] + c.calls["Create Pod"] + c.calls["Delete Pod"] }
		before := writes()
		for range 3 {
			w.restart()
			w.run(2 * time.Minute)
			w.clusterQuiet()
		}
		if n := writes() - before; n > 0 {
			t.Errorf("seed %d: restarts of the agent made %d writes: %s", seed, n, c.dump())
		}
	}
}

// TestClusterActorPanics lets each actor that talks to the apiserver panic once
// on each of its messages, before it is handled and after.
func TestClusterActorPanics(t *testing.T) {
	panicsAnywhere(t, 15, oneClusterNode, func(w *world) {
		clusterUp(w)
		w.until(3*time.Minute, "all is up", func() bool { return clusterIsUp(w) })
		w.cluster.delete("b-plain", nil)
		w.cluster.delete("c-slow", nil)
		w.drop("e-static")
		w.until(3*time.Minute, "three have gone", func() bool {
			return len(w.cluster.pods) == 2 && len(w.rt.Truth().Runtime.Pods) == 2
		})
		w.run(20 * time.Second)
	}, (*world).clusterQuiet,
		"pods", "podset", "status", "apipods", "nodestatus", "mirrors", "sources",
		"pod/a-init", "pod/b-plain", "pod/d-job", "pod/e-static")
}

// TestClusterNodeDeleted: a node that somebody deletes is registered again, its
// lease follows, and its pods never notice.
func TestClusterNodeDeleted(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(aPod("web"))
	w.add(aPod("static"))
	w.until(time.Minute, "all run", func() bool { return c.allReady("web", "static-"+nodeName) })
	w.watch.restartsExpected = false
	old := c.node()
	check.Fatal(t, c.api.Delete(port.APIDelete{Key: port.APIKey{Kind: port.NodeKind, Name: nodeName}}))
	took := w.until(2*time.Second, "registered again", func() bool { n := c.node(); return n != nil && nodeobject.Ready(&n.Status) })
	t.Logf("registered again after %v", took)
	if c.node().UID == old.UID {
		t.Error("it is the old one")
	}
	lease := port.APIKey{Kind: port.LeaseKind, Namespace: v1.NamespaceNodeLease, Name: nodeName}
	check.Fatal(t, c.api.Delete(port.APIDelete{Key: lease})) // as the garbage collector would
	w.run(15 * time.Second)
	o, err := c.api.Get(lease)
	if err != nil || len(o.GetOwnerReferences()) != 1 || o.GetOwnerReferences()[0].UID != c.node().UID {
		t.Errorf("lease %+v, %v", o, err)
	}
	w.clusterQuiet()
}

// TestClusterLease: over an hour with an outage of two minutes in it the lease
// is never late but for that.
func TestClusterLease(t *testing.T) {
	w, c := parallelCluster(t, 1)
	w.run(30 * time.Minute)
	c.api.SetDown(true)
	down := w.v.Now()
	w.run(2 * time.Minute)
	c.api.SetDown(false)
	up := w.v.Now()
	w.run(30 * time.Minute)
	for i := 1; i < len(c.renewed); i++ {
		gap, limit := c.renewed[i].Sub(c.renewed[i-1]), 10500*time.Millisecond
		if c.renewed[i-1].Before(up) && c.renewed[i].After(down) {
			limit = up.Sub(c.renewed[i-1]) + 8*time.Second
		}
		if gap > limit || gap < 9*time.Second && !c.renewed[i].After(down) {
			t.Errorf("renewal %d came %v after the one before", i, gap)
		}
	}
	if n := len(c.nodes); n < 10 || n > 25 {
		t.Errorf("the node was written %d times in an hour", n)
	}
	t.Logf("%d renewals, %d versions of the node", len(c.renewed), len(c.nodes))
}

// TestClusterNodeChanges: what is new of machine and runtime is said, once, and what
// others say in its stead is put right.
func TestClusterNodeChanges(t *testing.T) {
	w, c := parallelCluster(t, 1)
	w.run(time.Minute)
	versions := len(c.nodes)
	m := *w.facts.Get()
	m.Info.KernelVersion = "6.2"
	w.facts.Set(&m)
	w.until(2*time.Minute, "the kernel is shown", func() bool { return c.node().Status.NodeInfo.KernelVersion == "6.2" })
	check.Count(t, len(c.nodes)-versions, 1, "%d writes")
	// Others take this node's word out of its mouth.
	from := c.node()
	to := *from
	to.Status.Conditions = nil
	for _, x := range from.Status.Conditions {
		if x.Type == v1.NodeReady {
			x.Status, x.Reason = v1.ConditionUnknown, "NodeStatusUnknown"
		}
		to.Status.Conditions = append(to.Status.Conditions, x)
	}
	check.Value(
		c.api.Patch(port.APIPatch{Key: port.APIKey{Kind: port.NodeKind, Name: nodeName}, From: from, To: &to, Status: true}))(t)
	took := w.until(2*time.Second, "Ready again", func() bool { n := c.node(); return nodeobject.Ready(&n.Status) })
	t.Logf("Ready again after %v", took)
	w.rt.Kill()
	w.until(time.Minute, "not Ready without a runtime", func() bool { n := c.node(); return !nodeobject.Ready(&n.Status) })
	w.rt.Restart()
	took = w.until(5*time.Second, "Ready with one", func() bool { n := c.node(); return nodeobject.Ready(&n.Status) })
	t.Log(fmt.Sprint("Ready with a runtime after ", took))
}

// TestClusterMirror: a static pod is seen in the apiserver, whatever users do to it there.
func TestClusterMirror(t *testing.T) {
	w, c := parallelCluster(t, 1)
	mirror := "web-" + nodeName
	w.add(aPod("web"))
	w.until(5*time.Second, "the mirror is Ready", func() bool { return c.ready(mirror) })
	w.watch.restartsExpected = false
	first := c.get(mirror)
	for _, grace := range []*int64{nil, new(int64)} {
		uid := c.get(mirror).UID
		c.delete(mirror, grace)
		w.until(5*time.Second, "another one", func() bool { p := c.get(mirror); return p != nil && p.UID != uid && c.ready(mirror) })
	}
	w.clusterQuiet()
	w.add(aPod("web").note("version", "2"))
	w.watch.restartsExpected = true
	w.until(time.Minute, "one of the new manifest", func() bool {
		p := c.get(mirror)
		return p != nil && p.Annotations["kubernetes.io/config.hash"] != first.Annotations["kubernetes.io/config.hash"] && c.ready(mirror)
	})
	w.clusterQuiet()
	w.kill()
	w.manifests.Remove("web.yaml")
	w.watch.unwant("web")
	w.start()
	w.until(time.Minute, "nothing is left", c.nothingLeft)
}

// TestManifestMadeAgain: a static pod whose manifest is removed and written again at once begins again, with another mirror.
// One whose manifest is replaced by the same runs on.
func TestManifestMadeAgain(t *testing.T) {
	t.Parallel()
	w, c := newClusterNode(t, 1)
	mirror, web := "web-"+nodeName, aPod("web")
	w.add(web)
	w.until(5*time.Second, "the mirror is Ready", func() bool { return c.ready(mirror) })
	first, container := c.get(mirror), w.newest("web", "app").ID
	w.add(web)
	w.run(time.Minute)
	if c.get(mirror).UID != first.UID || w.newest("web", "app").ID != container {
		w.failf("the pod began again for a manifest that says the same")
	}
	w.watch.restartsExpected = true
	w.manifests.Remove("web.yaml")
	w.add(web)
	w.until(time.Minute, "another mirror, Ready", func() bool { p := c.get(mirror); return p != nil && p.UID != first.UID && c.ready(mirror) })
	if n := c.get(mirror).Status.ContainerStatuses[0].RestartCount; n != 1 || w.newest("web", "app").ID == container {
		w.failf("its container was restarted %d times", n)
	}
	w.clusterQuiet()
}

// TestClusterStandsStill: what an idle node with 30 pods costs.
func TestClusterStandsStill(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(many("p", 30, aPod)...)
	w.until(time.Minute, "all run", func() bool { return c.allReady(names("p", 30)...) })
	w.run(5 * time.Minute)
	handled := map[string]int{}
	total := 0
	w.around = func(who string, m any, h bool) {
		if h {
			handled[fmt.Sprintf("%s %T", who, m)]++
			total++
		}
	}
	before := map[string]int{}
	for k, v := range c.calls {
		before[k] = v
	}
	w.run(10 * time.Minute)
	for k, v := range c.calls {
		if d := v - before[k]; d > 0 {
			t.Logf("%s: %d", k, d)
		}
	}
	for k, v := range handled {
		t.Logf("%s: %d", k, v)
	}
	check.AtMost(t, total, 10*60*1, "%d messages in ten minutes", total)
}
