package podplan

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

// drawPod makes a pod of up to three init containers and two main ones.
func drawPod(t *rapid.T) *v1.Pod {
	pod := basePod()
	grace := rapid.SampledFrom([]int64{0, 1, 5, 30}).Draw(t, "grace")
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.RestartPolicy = rapid.SampledFrom([]v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}).Draw(t, "policy")
	pod.Spec.Containers = nil
	for _, name := range []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "mains")] {
		pod.Spec.Containers = append(pod.Spec.Containers, drawContainer(t, name))
	}
	for _, name := range []string{"i", "j", "k"}[:rapid.IntRange(0, 3).Draw(t, "inits")] {
		c := drawContainer(t, name)
		if rapid.Bool().Draw(t, "sidecar") {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
			if rapid.Bool().Draw(t, "startup") {
				c.StartupProbe = &v1.Probe{}
			}
		} else {
			c.Lifecycle = nil
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

func drawContainer(t *rapid.T, name string) v1.Container {
	c := v1.Container{Name: name, Image: "img", ImagePullPolicy: rapid.SampledFrom([]v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent}).Draw(t, "pull")}
	hook := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}
	switch rapid.IntRange(0, 3).Draw(t, "hooks") {
	case 1:
		c.Lifecycle = &v1.Lifecycle{PreStop: hook}
	case 2:
		c.Lifecycle = &v1.Lifecycle{PostStart: hook}
	case 3:
		c.Lifecycle = &v1.Lifecycle{PostStart: hook, PreStop: hook}
	}
	if rapid.IntRange(0, 3).Draw(t, "podIP") == 0 {
		c.Env = []v1.EnvVar{{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
	}
	return c
}

// trouble is one thing that happens by chance.
func (w *world) trouble(t *rapid.T) {
	pickCall := func(f func(*call) bool) *call {
		var cs []*call
		for _, c := range w.calls {
			if f(c) {
				cs = append(cs, c)
			}
		}
		if len(cs) == 0 {
			return nil
		}
		return cs[rapid.IntRange(0, len(cs)-1).Draw(t, "call")]
	}
	pickCan := func(f func(*can) bool) *can {
		var ks []*can
		for _, k := range w.cans {
			if f(k) {
				ks = append(ks, k)
			}
		}
		if len(ks) == 0 {
			return nil
		}
		return ks[rapid.IntRange(0, len(ks)-1).Draw(t, "can")]
	}
	hint := func(id string) {
		if rapid.IntRange(0, 3).Draw(t, "hinted") > 0 {
			w.hint(id)
		}
	}
	switch what := rapid.IntRange(0, 31).Draw(t, "what"); what {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		if c := pickCall(func(c *call) bool { return !c.applied && !w.hangs(c) }); c != nil {
			w.apply(c, rapid.IntRange(0, 7).Draw(t, "fails") == 0)
		}
	case 8, 9, 10, 11, 12, 13, 14:
		if c := pickCall(func(c *call) bool { return c.applied && w.answered(c) }); c != nil {
			w.deliver(c)
		}
	case 15:
		if c := pickCall(func(c *call) bool { return !c.zombie }); c != nil && rapid.Bool().Draw(t, "really") {
			w.expire(c)
		}
	case 16, 17:
		if k := pickCan((*can).lives); k != nil {
			w.exit(k, rapid.SampledFrom([]int32{0, 1, 137}).Draw(t, "code"))
			hint(k.ID)
		}
	case 18:
		for _, b := range w.boxes {
			if b.live {
				w.logf("sandbox %s dies", b.id)
				b.live = false
				for _, k := range w.cans {
					if k.SandboxID == b.id && k.lives() && rapid.IntRange(0, 3).Draw(t, "with it") > 0 {
						w.exit(k, 137)
						hint(k.ID)
					}
				}
				hint(b.id)
			}
		}
	case 19:
		if rapid.Bool().Draw(t, "really") {
			w.restart(rapid.Bool().Draw(t, "inherit"))
		}
	case 20:
		if rapid.Bool().Draw(t, "really") {
			w.changeImage(w.pod.Spec.Containers[0].Name)
		}
	case 21:
		if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
			w.delete(rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second, 30 * time.Second}).Draw(t, "grace"))
		}
	case 22, 23:
		w.now = w.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, time.Minute, 11 * time.Minute}).Draw(t, "jump"))
		w.tick()
	case 24:
		w.mem.in.Relisted(w.view(), w.now, w.now)
	case 25, 26:
		for _, e := range byKey(w.mem.in.Images) {
			name, i := e.Key, e.Value
			if i.State == imagepull.Pending || i.State == imagepull.Failed {
				i.State, i.Ref = imagepull.Ready, "sha256:1"
				if rapid.IntRange(0, 3).Draw(t, "no image") == 0 {
					i.State, i.Reason = imagepull.Failed, "ErrImagePull"
				}
				w.mem.in.Images.Set(name, i)
			}
		}
	case 27, 28:
		w.answerVolumes(rapid.IntRange(0, 3).Draw(t, "no volumes") == 0)
		w.answerCgroup(rapid.IntRange(0, 3).Draw(t, "no cgroup") == 0)
		w.answerClaims(rapid.IntRange(0, 3).Draw(t, "no claims") == 0)
		w.writeNotes()
	case 29:
		w.answerProbes(rapid.Bool().Draw(t, "alive"))
	case 30:
		if k := pickCan(func(k *can) bool { return k.lives() && w.mem.in.Container(k.ID) != nil }); k != nil && rapid.Bool().Draw(t, "really") {
			h := w.mem.in.Health[k.ID]
			h.Liveness = probe.Failure
			if rapid.Bool().Draw(t, "own grace") {
				one := int64(1)
				h.Grace = &one
			}
			w.mem.in.Health[k.ID] = h
			w.logf("%s fails its liveness probe", k.ID)
		}
	case 31:
		// The garbage collector takes an old incarnation, or a runtime loses one. It
		// leaves the newest dead one of each name: if a made one is removed, it is
		// what the restart count is known from.
		if k := pickCan(w.collectable); k != nil {
			w.remove(k)
			hint(k.ID)
		} else if k := pickCan(func(k *can) bool { return k.lives() && !k.signaled }); k != nil && rapid.IntRange(0, 3).Draw(t, "really") == 0 {
			k.State = observed.ContainerUnknown
			w.logf("%s is lost by the runtime", k.ID)
			hint(k.ID)
		}
	}
}

// collectable says whether a dead container of the same name, and one that is
// newer still, would be left.
func (w *world) collectable(k *can) bool {
	dead, newer := false, 0
	for _, o := range w.cans {
		if o.Name == k.Name && o.Attempt > k.Attempt {
			dead = dead || o.State == observed.ContainerExited
			newer++
		}
	}
	return k.State == observed.ContainerExited && dead && newer > 1
}

// pullImages lets all images be there that are asked for.
func (w *world) pullImages() (any bool) {
	for _, e := range byKey(w.mem.in.Images) {
		if name, i := e.Key, e.Value; i.State != imagepull.Ready {
			i.State, i.Ref = imagepull.Ready, "sha256:1"
			w.mem.in.Images.Set(name, i)
			any = true
		}
	}
	return any
}

func (w *world) answerVolumes(fails bool) {
	v := &w.mem.in.Volumes
	switch {
	case v.State != volumeplan.Pending && v.State != volumeplan.Failed:
	case fails:
		v.State = volumeplan.Failed
	case v.Going:
		*v = volumeplan.Volumes{Unmounted: true}
	default:
		*v = volumeplan.Volumes{State: volumeplan.Up}
	}
}

func (w *world) answerCgroup(fails bool) {
	c := &w.mem.in.Cgroup
	switch {
	case c.State != podcgroup.Pending && c.State != podcgroup.Failed:
	case fails:
		c.State = podcgroup.Failed
	case c.Going:
		*c = podcgroup.Cgroup{Own: true, Removed: true}
	case w.making:
		c.State = podcgroup.Up
	default:
		c.State = podcgroup.Known
	}
}

func (w *world) answerClaims(fails bool) {
	p := w.mem.in.Claims
	switch {
	case fails || !p.Is(claims.Pending) && !p.Is(claims.Going):
	case p.Is(claims.Going):
		w.mem.in.Claims = &claims.Pod{State: claims.Released}
	case w.preparing:
		w.mem.in.Claims = &claims.Pod{State: claims.Ready}
	default:
		w.mem.in.Claims = &claims.Pod{State: claims.Known}
	}
}

func (w *world) answerProbes(well bool) {
	for _, id := range keys(w.mem.in.Health) {
		h := w.mem.in.Health[id]
		if h.Startup == probe.Unknown {
			h.Startup = probe.Success
			if k := w.can(id); !well || k == nil || !k.lives() {
				h.Startup = probe.Failure
			}
			w.mem.in.Health[id] = h
		}
	}
}

// calm lets everything work, until the pod is where it is to be.
func (w *world) calm() {
	for round := 0; round < 300; round++ {
		w.settleSidecars()
		w.plan()
		if w.atGoal() && len(w.calls) == 0 && (w.down || w.steady()) {
			return
		}
		moved := false
		for _, c := range slices.Clone(w.calls) {
			if !c.applied && !w.hangs(c) {
				w.apply(c, false)
				moved = true
			}
			if c.applied && w.answered(c) {
				w.deliver(c)
				moved = true
			}
			w.settleSidecars()
			w.plan()
		}
		for _, k := range w.cans {
			_, kind := podspec.Find(&w.pod.Spec, k.Name)
			if k.lives() && (k.signaled && round%2 == 0 || kind == podspec.Init && k.StartedAt.Before(w.now)) {
				w.exit(k, 0)
				moved = true
			}
		}
		moved = w.pullImages() || moved
		moved = w.writeNotes() || moved
		if v := w.mem.in.Volumes; v.State == volumeplan.Pending || v.State == volumeplan.Failed {
			w.answerVolumes(false)
			moved = true
		}
		if c := w.mem.in.Cgroup; c.State == podcgroup.Pending || c.State == podcgroup.Failed {
			w.answerCgroup(false)
			moved = true
		}
		if p := w.mem.in.Claims; p.Is(claims.Pending) || p.Is(claims.Going) {
			w.answerClaims(false)
			moved = true
		}
		w.answerProbes(true)
		if !moved { // a relist is rarer than answers are
			w.mem.in.Relisted(w.view(), w.now, w.now)
		}
		w.settleSidecars()
		w.plan()
		if moved || w.down {
			continue
		}
		// Nothing happens by itself any more: the next is the plan's own timer.
		next := w.last.Wake
		for _, k := range w.cans {
			if k.signaled && k.lives() && (next.IsZero() || k.killAt.Before(next)) {
				next = k.killAt
			}
			if _, kind := podspec.Find(&w.pod.Spec, k.Name); kind == podspec.Init && k.lives() && next.IsZero() {
				next = w.now.Add(time.Second)
			}
		}
		if len(w.last.Actions) > 0 {
			continue
		}
		if next.IsZero() && !w.atGoal() {
			w.fail("nothing happens, and no timer is set: %+v", w.mem.in)
		}
		if next.After(w.now) {
			w.now = next
			w.tick()
		}
	}
	w.fail("the pod does not get where it is to be: %+v\n%+v", w.mem.in, w.last)
}

// steady says whether the plan has nothing more to do.
func (w *world) steady() bool {
	w.mem.in.Now = w.now
	out := Plan(w.mem.in)
	return len(out.Actions) == 0 && out.Outcome == GoOn
}

func TestPlanOnARuntime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawPod(t), t.Fatalf)
		w.own = rapid.Bool().Draw(t, "cgroups")
		w.hanging = rapid.IntRange(0, 3).Draw(t, "preStop hangs") == 0
		w.mem.in.Cgroup.Own = w.own
		w.claims = rapid.IntRange(0, 2).Draw(t, "claims") == 0
		w.mem.in.UsesClaims = w.claims
		w.plan()
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			w.trouble(t)
			w.settleSidecars()
			w.plan()
		}
		w.calm()
		if w.mem.in.Life == podlife.Syncing && rapid.Bool().Draw(t, "delete") {
			w.delete(30 * time.Second)
			w.calm()
		}
	})
}

// writeNotes lets what is to be written down be on the disk.
func (w *world) writeNotes() (any bool) {
	for name, n := range w.mem.in.RestartNotes {
		any = any || !n.Written
		n.Written = true
		w.mem.in.RestartNotes[name] = n
	}
	return any
}
