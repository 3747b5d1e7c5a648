package csi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
)

var (
	t0  = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	key = Key{"d.example.com", "v1"}
)

func specOf(pod string) *Spec {
	return &Spec{Key: key, Target: Target{types.UID(pod), "pv"}, Access: v1.ReadWriteOnce}
}

func ready() Env {
	return Env{
		Registered: true, Driver: &Driver{Attach: true, Persistent: true}, Reported: true, Attached: true,
		Backoff: backoff.Policy{Base: time.Second, Max: time.Second},
	}
}

// do makes all steps that there are, and returns them.
func do(t *testing.T, v *Volume, env Env, outcome func(Step) Outcome) string {
	t.Helper()
	var out []string
	for range 20 {
		s, is, _ := v.Next(t0, env)
		if !is {
			return strings.Join(out, " ")
		}
		text := s.Op.String()
		if s.Target != (Target{}) {
			text += ":" + string(s.Target.Pod)
		}
		v.Begin(s)
		o := outcome(s)
		v.End(o, t0)
		if o != Worked {
			v.Fail(s, "no", t0)
			text += "!"
		} else if s.Op == Attachment {
			v.Attached = true
		}
		out = append(out, text)
	}
	t.Fatalf("it never ends: %s", out)
	return ""
}

func works(Step) Outcome { return Worked }

func failing(op Op, o Outcome) func(Step) Outcome {
	return func(s Step) Outcome {
		if s.Op == op {
			return o
		}
		return Worked
	}
}

func TestUpAndDown(t *testing.T) {
	v := NewVolume(key, false)
	a, b := specOf("a"), specOf("b")
	v.Use(a.Target, a)
	for _, c := range []struct {
		change func(*Env)
		want   string
	}{
		{func(e *Env) { e.Registered = false }, "driver name d.example.com not found in the list of registered CSI drivers"},
		{func(e *Env) { e.Driver = nil }, "the CSIDriver objects of the apiserver are not known yet"},
		{func(e *Env) { e.Reported = false }, "status.volumesInUse of the Node does not name it yet"},
		{func(e *Env) { e.Attached = false }, "it is not attached to this node (status.volumesAttached, VolumeAttachment of CSI driver d.example.com)"},
		{func(e *Env) { e.Driver = &Driver{Inline: true} }, "CSI driver d.example.com does not support persistent volumes: volumeLifecycleModes of its CSIDriver has no Persistent"},
	} {
		e := ready()
		c.change(&e)
		if got := do(t, v, e, works); got != "" || v.Waits(a.Target, e) != c.want {
			t.Errorf("did %q, waits for %q, want %q", got, v.Waits(a.Target, e), c.want)
		}
	}
	want := func(did, want string) {
		t.Helper()
		if did != want {
			t.Errorf("did %q, want %q", did, want)
		}
	}
	want(do(t, v, ready(), works), "GetVolumeAttachment NodeStageVolume NodePublishVolume:a")
	v.Use(b.Target, b)
	want(do(t, v, ready(), works), "NodePublishVolume:b")
	v.Release(a.Target)
	want(do(t, v, ready(), works), "NodeUnpublishVolume:a")
	if !v.InUse() || v.Over() {
		t.Error("it is over while a pod has it")
	}
	v.Release(b.Target)
	gone := ready()
	gone.Registered = false
	want(do(t, v, gone, works), "")
	if got := v.Waits(b.Target, gone); !strings.Contains(got, "can't be unpublished: CSI driver d.example.com is not registered") {
		t.Error(got)
	}
	want(do(t, v, ready(), works), "NodeUnpublishVolume:b NodeUnstageVolume")
	if v.InUse() || !v.Over() {
		t.Error("it is not over")
	}
}

// What may have worked is undone, and what has finally failed is not.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		op     Op
		o      Outcome
		up     string
		down   string
		remain bool
	}{
		{StageVolume, Refused, "NodeStageVolume!", "", false},
		{StageVolume, Unsure, "NodeStageVolume!", "NodeUnstageVolume", false},
		{PublishVolume, Refused, "NodeStageVolume NodePublishVolume:a!", "NodeUnstageVolume", false},
		{PublishVolume, Unsure, "NodeStageVolume NodePublishVolume:a!", "NodeUnpublishVolume:a NodeUnstageVolume", false},
		{UnpublishVolume, Refused, "NodeStageVolume NodePublishVolume:a", "NodeUnpublishVolume:a!", true},
		{UnstageVolume, Refused, "NodeStageVolume NodePublishVolume:a", "NodeUnpublishVolume:a NodeUnstageVolume!", true},
	} {
		v, s, e := NewVolume(key, false), specOf("a"), ready()
		e.Driver = &Driver{Persistent: true}
		v.Use(s.Target, s)
		up := do(t, v, e, failing(c.op, c.o))
		v.Release(s.Target)
		v.Retry()
		down := do(t, v, e, failing(c.op, c.o))
		if up != c.up || down != c.down || v.Over() == c.remain {
			t.Errorf("%v %v: %q, then %q, over: %v", c.op, c.o, up, down, v.Over())
		}
	}
}

// TestStagedAgain: that a volume could not be unstaged does not hold it up once it was staged for another pod.
func TestStagedAgain(t *testing.T) {
	v, a, b := NewVolume(key, false), specOf("a"), specOf("b")
	v.Use(a.Target, a)
	do(t, v, ready(), works)
	v.Release(a.Target)
	if got := do(t, v, ready(), failing(UnstageVolume, Refused)); got != "NodeUnpublishVolume:a NodeUnstageVolume!" {
		t.Error(got)
	}
	v.Use(b.Target, b)
	do(t, v, ready(), works)
	v.Release(b.Target)
	if got := do(t, v, ready(), works); got != "NodeUnpublishVolume:b NodeUnstageVolume" {
		t.Error(got)
	}
}

// A volume for one pod only is refused to a second one, until the first has gone.
func TestReadWriteOncePod(t *testing.T) {
	v, a, b := NewVolume(key, false), specOf("a"), specOf("b")
	a.Access, b.Access = v1.ReadWriteOncePod, v1.ReadWriteOncePod
	v.Use(a.Target, a)
	v.Use(b.Target, b)
	if got := do(t, v, ready(), works); got != "GetVolumeAttachment NodeStageVolume NodePublishVolume:a" {
		t.Error(got)
	}
	if got := v.Waits(b.Target, ready()); !strings.Contains(got, "ReadWriteOncePod access mode and is already in use by another pod") {
		t.Error(got)
	}
	v.Release(a.Target)
	if got := do(t, v, ready(), works); got != "NodeUnpublishVolume:a NodePublishVolume:b" {
		t.Error(got)
	}
}

func TestRepublish(t *testing.T) {
	v, s, e := NewVolume(key, true), specOf("a"), ready()
	s.Inline = true
	e.Driver, e.Republish = &Driver{Attach: true, Inline: true, Republish: true}, time.Minute
	v.Use(s.Target, s)
	if got := do(t, v, e, works); got != "NodePublishVolume:a" {
		t.Error(got)
	}
	if _, is, again := v.Next(t0.Add(time.Second), e); is || !again.Equal(t0.Add(time.Minute)) {
		t.Error(is, again)
	}
	step, is, _ := v.Next(t0.Add(time.Minute), e)
	if !is || step.Op != PublishVolume {
		t.Fatal(step, is)
	}
	v.Begin(step)
	v.End(Unsure, t0.Add(time.Minute))
	if v.Targets[s.Target].State != Done {
		t.Error("the pod has lost its volume because it was not published again")
	}
	e.Driver = DriverOf(nil)
	if got := (&Spec{Key: key, Inline: true}).refused(e.Driver); got != `inline volumes need a CSIDriver object: "d.example.com" does not exist` {
		t.Error(got)
	}
}

// What was published for a claim that is bound anew stays until the pod goes.
func TestKeep(t *testing.T) {
	for _, c := range []struct {
		op   Op
		o    Outcome
		kept string
		down string
	}{
		{Attachment, Worked, "", "NodeUnpublishVolume:a NodeUnstageVolume"},
		{PublishVolume, Unsure, "", "NodeUnpublishVolume:a NodeUnstageVolume"},
		{PublishVolume, Refused, "NodeUnstageVolume", ""}, // it was never there
		{StageVolume, Refused, "", ""},
	} {
		v, s := NewVolume(key, false), specOf("a")
		v.Use(s.Target, s)
		do(t, v, ready(), failing(c.op, c.o))
		v.Keep(s.Target)
		v.Retry()
		if got := do(t, v, ready(), works); got != c.kept {
			t.Errorf("%v %v: did %q, want %q", c.op, c.o, got, c.kept)
		}
		v.Release(s.Target)
		if got := do(t, v, ready(), works); got != c.down || !v.Over() {
			t.Errorf("%v %v: did %q, want %q", c.op, c.o, got, c.down)
		}
	}
}

// A size that comes during an expansion is not lost, and what is read-only is not expanded.
func TestGrow(t *testing.T) {
	v, s, e := NewVolume(key, false), specOf("a"), ready()
	v.Use(s.Target, s)
	do(t, v, e, works)
	v.Expand(10)
	begin := func(want int64) Step {
		t.Helper()
		step, is, _ := v.Next(t0, e)
		if !is || step.Op != ExpandVolume {
			t.Fatalf("got %v %v", step, is)
		}
		v.Begin(step)
		if how, _ := v.Expanding(); how.Size != want {
			t.Errorf("expanded to %d, want %d", how.Size, want)
		}
		return step
	}
	begin(10)
	v.Expand(20)
	v.End(Worked, t0)
	begin(20)
	v.Expand(20)
	v.End(Unsure, t0)
	begin(20)
	v.End(Worked, t0)
	v.Expand(20)
	if step, is, _ := v.Next(t0, e); is {
		t.Errorf("it has its size, but %v", step)
	}
	readOnly := specOf("a")
	readOnly.ReadOnly, readOnly.Size = true, 30
	v.Use(readOnly.Target, readOnly)
	v.Expand(40)
	if step, is, _ := v.Next(t0, e); is {
		t.Errorf("it is read-only, but %v", step)
	}
}

// TestGrowAtBegin: a volume that is too small for a pod that begins is expanded where it is published for that pod, which
// waits until that was tried. It has then begun: it does not wait again.
func TestGrowAtBegin(t *testing.T) {
	for _, o := range []Outcome{Worked, Refused, Unsure} {
		v, a, b, e := NewVolume(key, false), specOf("a"), specOf("b"), ready()
		a.Block, a.Size = true, 10
		v.Use(a.Target, a)
		begun := false
		expand := func(s Step) Outcome {
			if s.Op != ExpandVolume {
				return Worked
			}
			how, _ := v.Expanding()
			if how.Pod != "a" || !how.Block || v.Ready(a.Target) != begun {
				t.Errorf("expanded with %+v; the pod may begin: %v", how, v.Ready(a.Target))
			}
			if got := v.Waits(a.Target, e); !begun && got != "CSI driver d.example.com has not answered NodeExpandVolume of volume v1" {
				t.Errorf("it waits: %q", got)
			}
			return o
		}
		failed := map[bool]string{true: "!"}[o != Worked]
		if got := do(t, v, e, expand); got != "GetVolumeAttachment NodeStageVolume NodePublishVolume:a NodeExpandVolume"+failed || !v.Ready(a.Target) {
			t.Errorf("%v: did %q, it may begin: %v", o, got, v.Ready(a.Target))
		}
		begun = true
		v.Expand(20)
		v.Retry()
		v.Use(b.Target, b)
		if got := do(t, v, e, expand); got != "NodeExpandVolume"+failed+" NodePublishVolume:b" || !v.Ready(b.Target) {
			t.Errorf("%v: did %q for another pod, it may begin: %v", o, got, v.Ready(b.Target))
		}
	}
}

// TestGrowReadOnly: a volume is not expanded where it is read-only, and a pod that has it so does not wait.
func TestGrowReadOnly(t *testing.T) {
	v, a, b, e := NewVolume(key, false), specOf("a"), specOf("b"), ready()
	a.ReadOnly, b.Size = true, 10
	v.Use(a.Target, a)
	v.Use(b.Target, b)
	did := do(t, v, e, func(s Step) Outcome {
		switch s {
		case Step{PublishVolume, b.Target}:
			if !v.Ready(a.Target) {
				t.Error("the pod that only reads waits")
			}
		case Step{Op: ExpandVolume}:
			if how, _ := v.Expanding(); how.Pod != "b" {
				t.Errorf("it is expanded for pod %s", how.Pod)
			}
		}
		return Worked
	})
	if did != "GetVolumeAttachment NodeStageVolume NodePublishVolume:a NodePublishVolume:b NodeExpandVolume" {
		t.Error(did)
	}
}

// world is what the driver has done, whatever it answered: the truth beside what the agent knows.
type world struct {
	staged    string // how, empty for not
	as        string // how the agent that runs has had it staged last; what an earlier one did is not known to it
	published map[Target]bool
}

// TestInvariants draws histories of pods, answers and crashes.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{published: map[Target]bool{}}
		// notes are what is on disk: written before a call, removed after the last.
		noted, stagedNoted := map[Target]bool{}, false
		v := NewVolume(key, false)
		specs := map[Target]*Spec{}
		env, now := ready(), t0
		crash := func() { // kill -9, and a new agent, whose pods ask again
			v, w.as = NewVolume(key, false), ""
			if stagedNoted {
				v.FoundStaged(Found{Key: key})
			}
			for target := range noted {
				v.FoundPublished(Found{Key: key, Target: target})
			}
			for target, s := range specs {
				v.Use(target, s)
			}
			for target := range noted {
				if specs[target] == nil {
					v.Release(target)
				}
			}
		}
		pods := []string{"a", "b", "c"}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Minute)
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				s := specOf(rapid.SampledFrom(pods).Draw(t, "pod"))
				s.FSType = rapid.SampledFrom([]string{"ext4", "xfs"}).Draw(t, "type")
				specs[s.Target] = s
				v.Use(s.Target, s)
			case 1:
				target := specOf(rapid.SampledFrom(pods).Draw(t, "pod")).Target
				delete(specs, target)
				v.Release(target)
			case 2:
				env.Registered = !env.Registered
			case 3:
				crash()
			case 4:
				target := specOf(rapid.SampledFrom(pods).Draw(t, "pod")).Target
				p := v.Targets[target]
				stays := p != nil && p.State != None && p.Want != Released
				delete(specs, target)
				v.Keep(target)
				if p := v.Targets[target]; stays != (p != nil && p.Want == Kept) {
					t.Fatalf("a volume that was published stays: %v, got %+v", stays, p)
				}
			default:
				step, is, _ := v.Next(now, env)
				if !is {
					continue
				}
				stage := v.Begin(step)
				worked := rapid.Bool().Draw(t, "worked")
				act(t, &w, step, stage, worked, noted, &stagedNoted)
				if rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
					crash()
					continue
				}
				o := Worked
				switch {
				case worked && rapid.Bool().Draw(t, "lost"):
					o = Unsure
				case !worked:
					o = rapid.SampledFrom([]Outcome{Refused, Unsure}).Draw(t, "how")
				}
				before := v.before
				v.End(o, now)
				if o == Refused && before == None {
					// the notes are removed where nothing was before
					switch step.Op {
					case StageVolume:
						stagedNoted = false
					case PublishVolume:
						delete(noted, step.Target)
					}
				}
				if step.Op == Attachment && o == Worked {
					v.Attached = true
				}
			}
		}
		// At the end the driver is there and works, and all pods go: nothing may be left.
		env.Registered = true
		for target := range v.Targets {
			v.Release(target)
		}
		v.Retry()
		for range 50 {
			step, is, _ := v.Next(now, env)
			if !is {
				break
			}
			act(t, &w, step, v.Begin(step), true, noted, &stagedNoted)
			v.End(Worked, now)
		}
		if !v.Over() || w.staged != "" || len(w.published) > 0 || stagedNoted || len(noted) > 0 {
			t.Fatalf("left: over %v, staged %q, published %v, noted %v %v", v.Over(), w.staged, w.published, stagedNoted, noted)
		}
	})
}

// act is what the driver does. It checks that it may be asked for that.
func act(t *rapid.T, w *world, s Step, stage *Stage, worked bool, noted map[Target]bool, stagedNoted *bool) {
	switch s.Op {
	case Attachment:
	case StageVolume:
		how := fmt.Sprint(stage.FSType)
		if w.staged != "" && w.staged != how && (w.as != "" && w.as != how || stage.Fresh) {
			t.Fatalf("staged as %s while it is staged as %s", how, w.staged)
		}
		*stagedNoted, w.as = true, how
		if worked && w.staged == "" {
			w.staged = how
		}
	case PublishVolume:
		if w.staged == "" {
			t.Fatal("published while it is not staged")
		}
		noted[s.Target] = true
		if worked {
			w.published[s.Target] = true
		}
	case UnpublishVolume:
		if worked {
			delete(w.published, s.Target)
			delete(noted, s.Target)
		}
	case UnstageVolume:
		if len(w.published) > 0 {
			t.Fatalf("unstaged while it is published for %v", slices.Collect(keysOf(w.published)))
		}
		if worked {
			w.staged, w.as, *stagedNoted = "", "", false
		}
	}
}

func keysOf(m map[Target]bool) func(func(Target) bool) {
	return func(yield func(Target) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestFor: a call for all pods is one of the pod that wanted the volume first, whose history shows it.
func TestFor(t *testing.T) {
	v := NewVolume(key, false)
	stage := Step{Op: StageVolume}
	if got := v.For(stage); got != "" {
		t.Errorf("nobody wants it, and it is for %q", got)
	}
	for _, pod := range []string{"b", "a"} {
		v.Use(specOf(pod).Target, specOf(pod))
	}
	if got := v.For(stage); got != "b" {
		t.Errorf("it is for %q, want b", got)
	}
	if got := v.For(Step{PublishVolume, specOf("a").Target}); got != "a" {
		t.Errorf("the publication of a is for %q", got)
	}
	v.Release(specOf("b").Target)
	if got := v.For(stage); got != "a" {
		t.Errorf("b has gone, and it is for %q", got)
	}
}
