package volumeplan

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
)

// within brings a pod into a phase, and its volume, "a", into a state.
func within(phase Phase, state VolumeState) *Pod {
	p := &Pod{}
	p.Replan([]Mount{{Name: "a"}})
	p.Want(&v1.Pod{}, false, nil)
	p.Prepared()
	v := &p.Volumes[0]
	switch state {
	case VolumeWaiting:
	case VolumeFailed:
		p.Fail(v, Cause{Text: "no"}, t0, policy)
	case VolumeMounting:
		p.Begin(v, 1)
	case VolumeAtCSI:
		v.CSI = &csi.Spec{}
		p.AskCSI(&Env{CSI: true})
	case VolumeRewriting:
		p.stands(v, "/a")
		p.Begin(v, 1)
	case VolumeUp:
		p.stands(v, "/a")
	}
	switch phase {
	case Preparing:
		p.Phase = Preparing
	case Bringing, Complete:
	case Releasing:
		p.TakeDown(true)
	case Unmounting:
		p.TakeDown(false)
	}
	return p
}

// TestStates: what becomes of a volume in each state with each event.
func TestStates(t *testing.T) {
	events := []struct {
		name  string
		event func(*Pod, *Volume)
		want  string // in the order of the states
	}{
		{"worked", func(p *Pod, v *Volume) {
			if p.Ended(v, 1) {
				p.Mounted(v, "/a", 0)
			}
		}, "waiting failed up at CSI up up"},
		{"failed", func(p *Pod, v *Volume) {
			if p.Ended(v, 1) {
				p.Fail(v, Cause{Text: "no"}, t0, policy)
			}
		}, "waiting failed failed at CSI up up"},
		{"late", func(p *Pod, v *Volume) { p.Ended(v, 2) }, "waiting failed mounting at CSI up rewriting"},
		{"csi has published", func(p *Pod, v *Volume) { p.Published(v, "/a") }, "up up rewriting up up rewriting"},
		{"csi has failed", func(p *Pod, v *Volume) { p.CSIFailed(v, "no", t0, policy) },
			"at CSI at CSI mounting at CSI up rewriting"},
		{"the pod knows it", func(p *Pod, _ *Volume) {
			p.Want(&v1.Pod{}, false, smallmap.Map[string, string]{{Key: "a", Value: "/a"}})
		},
			"up up rewriting up up rewriting"},
		{"files are walked", func(p *Pod, v *Volume) { p.Walked(v, csi.Walk{Reports: 1}) },
			"waiting waiting mounting at CSI up rewriting"},
		{"goes down", func(p *Pod, _ *Volume) { p.TakeDown(false) }, "waiting waiting mounting at CSI up rewriting"},
		{"given up", func(p *Pod, _ *Volume) {
			p.TakeDown(false)
			p.GiveUp(nil, map[Call]bool{1: true})
		}, "waiting waiting waiting at CSI up up"},
	}
	for _, e := range events {
		var got []string
		for s := VolumeWaiting; s <= VolumeRewriting; s++ {
			p := within(Bringing, s)
			e.event(p, &p.Volumes[0])
			got = append(got, p.Volumes[0].State.String())
		}
		check.Equal(t, strings.Join(got, " "), e.want, "%s", e.name)
	}
}

// TestNext: which call for the pod as a whole begins in each phase.
func TestNext(t *testing.T) {
	want := map[Phase]Op{Preparing: PreparePod, Unmounting: UnmountPod}
	for phase := Preparing; phase <= Unmounting; phase++ {
		p := within(phase, VolumeUp)
		op, again := p.Next(t0)
		check.Equal(t, op, want[phase], "%v", phase)
		check.Equal(t, again.IsZero(), true, "%v: again", phase)
		if op == Nothing {
			continue
		}
		p.Begin(nil, 7)
		op, _ = p.Next(t0)
		check.Equal(t, op, Nothing, "%v: once", phase)
		check.Equal(t, p.Ended(nil, 8), false, "late")
		check.Equal(t, p.Ended(nil, 7), true, "in time")
		p.Fail(nil, Cause{Text: "no"}, t0, policy)
		op, again = p.Next(t0)
		check.Equal(t, op, Nothing, "%v: after a failure", phase)
		op, _ = p.Next(again)
		check.Equal(t, op, want[phase], "%v: in its time", phase)
	}
	p := within(Unmounting, VolumeUp)
	p.GiveUp(map[Call]bool{3: true}, nil)
	op, _ := p.Next(t0)
	check.Equal(t, op, Nothing, "a mount is coming")
	p.Ended(nil, 3)
	op, _ = p.Next(t0)
	check.Equal(t, op, UnmountPod, "it has come")
}

// TestNextOf: what begins for a volume, by what is known of it.
func TestNextOf(t *testing.T) {
	bad := errors.New("bad")
	for _, c := range []struct {
		name   string
		phase  Phase
		state  VolumeState
		change func(*Pod, *Volume, *Env)
		want   Op
	}{
		{"at first", Bringing, VolumeWaiting, nil, MountVolume},
		{"before the pod's directories", Preparing, VolumeWaiting, nil, Nothing},
		{"while it goes down", Releasing, VolumeWaiting, nil, Nothing},
		{"while it is unmounted", Unmounting, VolumeWaiting, nil, Nothing},
		{"during a mount", Bringing, VolumeMounting, nil, Nothing},
		{"after a failure", Bringing, VolumeFailed, nil, Nothing},
		{"it is there", Complete, VolumeUp, nil, Nothing},
		{"new content", Complete, VolumeUp, func(_ *Pod, v *Volume, _ *Env) { v.Version = 2 }, MountVolume},
		{"newer content while it is written", Complete, VolumeRewriting, func(_ *Pod, v *Volume, _ *Env) { v.Version = 2 }, Nothing},
		{"its object is gone", Complete, VolumeUp, func(_ *Pod, v *Volume, _ *Env) { v.Err = bad }, Refuse},
		{"its claim is gone", Complete, VolumeUp, func(_ *Pod, v *Volume, _ *Env) { v.Err, v.Claimed = bad, true }, Nothing},
		{"its secret is gone", Complete, VolumeUp, func(_ *Pod, v *Volume, _ *Env) { v.Err, v.Server = bad, "x" }, Nothing},
		{"refused", Bringing, VolumeWaiting, func(_ *Pod, v *Volume, _ *Env) { v.Err = bad }, Refuse},
		{"refused at csi", Bringing, VolumeAtCSI, func(_ *Pod, v *Volume, _ *Env) { v.Err = bad }, Refuse},
		{"at csi", Bringing, VolumeAtCSI, nil, Nothing},
		{"of csi, without it", Bringing, VolumeAtCSI, func(_ *Pod, _ *Volume, e *Env) { e.CSI = false }, MountVolume},
		{"no Node yet", Bringing, VolumeWaiting, func(_ *Pod, v *Volume, _ *Env) { v.Mount = placed() }, Nothing},
		{"elsewhere", Bringing, VolumeWaiting, func(_ *Pod, v *Volume, e *Env) { v.Mount, e.Node = placed(), inZone("b") }, Refuse},
		{"here", Bringing, VolumeWaiting, func(_ *Pod, v *Volume, e *Env) { v.Mount, e.Node = placed(), inZone("a") }, MountVolume},
		{"it ran here", Bringing, VolumeWaiting, func(p *Pod, v *Volume, _ *Env) { v.Mount, p.Later = placed(), true }, MountVolume},
		{"another has it", Bringing, VolumeWaiting, func(_ *Pod, v *Volume, _ *Env) { v.Mount = alone() }, Refuse},
	} {
		p, env := within(c.phase, c.state), &Env{CSI: true, Taken: func(string) bool { return true }}
		v := &p.Volumes[0]
		if c.change != nil {
			c.change(p, v, env)
		}
		op, again, why := p.NextOf(v, t0, env)
		check.Equal(t, op, c.want, "%s", c.name)
		check.Equal(t, why != nil, op == Refuse, "%s: why", c.name)
		check.Equal(t, again.IsZero(), c.state != VolumeFailed, "%s: again", c.name)
		if c.state == VolumeFailed {
			op, _, _ = p.NextOf(v, again, env)
			check.Equal(t, op, MountVolume, "%s, in its time", c.name)
		}
	}
}

func placed() Mount { return newStateWorld(nil).plan()[2] }

func alone() Mount {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	pv.Spec.Local = &v1.LocalVolumeSource{}
	return Mount{Name: "a", Persistent: pv}
}

// TestAnyHistory: whatever happens, in whatever order, what [world.holds] and [world.begin] check holds, and once nothing
// fails any more, the pod is up, or gone.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newStateWorld(r)
		w.want()
		r.Repeat(map[string]func(*rapid.T){
			"a call ends": func(r *rapid.T) {
				if ids := w.pending(); len(ids) > 0 {
					w.end(rapid.SampledFrom(ids).Draw(r, "which"), rapid.Bool().Draw(r, "works"))
				}
			},
			"csi speaks":    func(r *rapid.T) { w.publish(rapid.Bool().Draw(r, "works")) },
			"csi restarts":  func(*rapid.T) { clear(w.asked); w.p.AskAgain(); w.drive() },
			"actor crashes": func(*rapid.T) { w.crash() },
			"new content":   func(*rapid.T) { w.version++; w.want() },
			"asked again":   func(*rapid.T) { w.want() },
			"labels": func(r *rapid.T) {
				before := w.env.Node
				w.env.Node = inZone(rapid.SampledFrom([]string{"a", "b"}).Draw(r, "zone"))
				w.p.Moved(before, w.env.Node)
				w.drive()
			},
			"time": func(r *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(r, "s")) * time.Second)
				w.drive()
			},
			"goes": func(r *rapid.T) {
				if rapid.IntRange(0, 9).Draw(r, "one in ten") == 0 {
					w.goes = true
					w.want()
				}
			},
		})
		w.settle()
	})
}

// TestCrashes: the actor restarts after each step of a life, once and twice. The pod comes up, stays up, and goes.
func TestCrashes(t *testing.T) {
	life := func(crashAt ...int) (steps int) {
		w := newStateWorld(t)
		w.env.Node = inZone("a")
		w.want()
		did := func() {
			for _, at := range crashAt {
				if at == steps {
					w.crash()
				}
			}
			steps++
		}
		run := func() {
			did()
			for range 30 {
				ids := w.pending()
				if len(ids) == 0 {
					break
				}
				w.end(ids[0], steps%3 != 0)
				did()
				w.publish(steps%2 == 0)
				did()
				w.now = w.now.Add(policy.Max)
				w.drive()
			}
			w.settle()
			did()
			w.settle()
		}
		run()
		w.version++
		w.want()
		run()
		check.Equal(t, w.told.State, Up, "crash at %v", crashAt)
		w.goes = true
		w.want()
		run()
		check.Equal(t, w.gone, true, "crash at %v: gone", crashAt)
		return steps
	}
	n := life()
	for i := range n {
		life(i)
		life(i, i+2)
	}
}

// TestBackoff: each volume that fails is tried again after twice the time, while the others go on.
func TestBackoff(t *testing.T) {
	w := newStateWorld(t)
	w.env.Node = inZone("a")
	w.want()
	w.end(1, true)
	w.publish(true)
	for _, id := range w.pending() {
		w.end(id, w.calls[id].volume != "plain")
	}
	for _, wait := range []time.Duration{1, 2, 4, 8, 8} {
		before := w.mounts
		check.Equal(t, w.again, w.now.Add(wait*time.Second), "when it is tried again")
		w.now = w.again.Add(-1)
		w.drive()
		check.Equal(t, w.mounts, before, "not before")
		w.now = w.now.Add(1)
		w.drive()
		check.Equal(t, w.mounts, before+1, "then")
		w.end(w.pending()[0], false)
	}
	w.settle()
	check.Equal(t, w.refused, 0, "refused")
}

// TestForgotten: what a pod does not use any more is forgotten, and what it uses stays where it is.
func TestForgotten(t *testing.T) {
	var p Pod
	p.Replan([]Mount{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	p.Want(&v1.Pod{}, false, smallmap.Map[string, string]{{Key: "c", Value: "/c"}, {Key: "b", Value: "/b"}})
	p.Prepared()
	before := p.Paths()
	p.Fail(p.Named("a"), Cause{Text: "no"}, t0, policy)
	p.Replan([]Mount{{Name: "c"}, {Name: "d"}})
	check.Equal(t, len(p.failures), 0, "failures")
	check.Same(t, p.Paths(), smallmap.Map[string, string]{{Key: "c", Value: "/c"}}, "paths")
	check.Same(t, before, smallmap.Map[string, string]{{Key: "c", Value: "/c"}, {Key: "b", Value: "/b"}}, "those that were told")
	check.Equal(t, p.paths[p.Named("c").path-1].Value, "/c", "path of c")
	check.Equal(t, p.left, 1, "left")
	p.Published(p.Named("d"), "/d")
	check.Equal(t, p.Phase, Complete, "phase")
}

// TestBeginTwice: two calls at once are impossible.
func TestBeginTwice(t *testing.T) {
	defer func() { check.Equal(t, recover() != nil, true, "panics") }()
	p := within(Bringing, VolumeMounting)
	p.Begin(&p.Volumes[0], 2)
}

// TestSmall: 150,000 simulated pods count, and most have one or two volumes that are up.
func TestSmall(t *testing.T) {
	check.Equal(t, unsafe.Sizeof(Pod{}) <= 176, true, "a pod has %d bytes, at most 176", unsafe.Sizeof(Pod{}))
	check.Equal(t, unsafe.Sizeof(Volume{}) <= 224, true, "a volume has %d bytes, at most 224", unsafe.Sizeof(Volume{}))
	if p := within(Complete, VolumeUp); cap(p.Volumes) != 1 || p.at != nil || p.coming != nil || p.failures != nil {
		t.Errorf("a pod at rest: %+v", p)
	}
}
