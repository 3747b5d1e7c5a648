package csi

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
)

// Publication is a volume of one pod.
type Publication struct {
	State State
	Want  Want
	// Order is when it was wanted first, among those of the volume.
	Order int
	// At is when it was last published.
	At time.Time
	// ready: the volume need not be expanded for the pod, or that was tried.
	ready bool
	// Spec is what the pod needs; nil unless it is Wanted.
	Spec *Spec
}

// Volume is all that is known of one volume on this node.
type Volume struct {
	Key
	// Inline: it is in the spec of a pod, and is not staged.
	Inline bool
	// Block: it is a device (volumeMode Block). Its directory has the name of the PersistentVolume, which is Name.
	Block   bool
	Name    string
	Staging State
	// Held says why it must stay staged, although no pod is known to have it published; empty: it need not.
	Held string
	// As is how it was staged last. Nil: unknown, because another agent did it, or it was not.
	As *Stage
	// Label is the SELinux label that it was staged with last, and is published with; empty for none. labels: its driver
	// mounts with labels, as far as is known.
	Label  string
	labels bool
	// Targets are its publications. None of them is None and not Wanted.
	Targets map[Target]*Publication
	// Grow is the size in bytes that the volume has to be expanded to, 0 for none; growing is that of the expansion under
	// way, grown the last one that it was expanded to.
	Grow, growing, grown int64
	// has is the size in bytes that it has on this node: what its claim said when the first pod used it, or what it was
	// expanded to here since. 0: unknown.
	has int64
	// Context is what the driver's controller says of the attachment; nil until it is known, or without one.
	Context map[string]string
	// Attached: Context is valid.
	Attached bool
	// Busy is the step that is being done; before is the state that it found.
	Busy   *Step
	before State
	// Walk is how far Busy is with giving the files of the volume to the group of the pod, as far as is known.
	Walk     Walk
	Failures map[Step]backoff.Failures
	orders   int
}

// Env is what a decision needs to know beside the volume.
type Env struct {
	// Registered: the driver can be called.
	Registered bool
	// Driver is what its CSIDriver object says; nil while it is not known whether there is one.
	Driver *Driver
	// Reported: status.volumesInUse of the Node has the volume, and has had it since it is in use. Attached:
	// status.volumesAttached has it.
	Reported, Attached bool
	// Republish is the time between publications, if the driver wants them again and again.
	Republish time.Duration
	// Backoff is after a step that failed.
	Backoff backoff.Policy
}

// NewVolume is a volume that nothing is known of.
func NewVolume(k Key, inline bool) *Volume {
	return &Volume{Key: k, Inline: inline, Targets: map[Target]*Publication{}, Failures: map[Step]backoff.Failures{}}
}

// Use notes that a pod needs the volume.
func (v *Volume) Use(t Target, s *Spec) {
	p := v.Targets[t]
	if p == nil {
		p = &Publication{}
		v.Targets[t] = p
	}
	if p.Want != Wanted {
		v.orders++
		p.Want, p.Order = Wanted, v.orders
		delete(v.Failures, Step{PublishVolume, t})
	}
	p.Spec = s
	p.ready = p.ready || s.ReadOnly
	v.Block, v.Name = s.Block, t.Name
	if v.has == 0 {
		v.has = s.Has
	}
	if !s.ReadOnly {
		v.Expand(s.Size)
	}
}

// Release notes that a pod does not need it any more.
func (v *Volume) Release(t Target) {
	p := v.Targets[t]
	if p == nil || p.Want == Released {
		return
	}
	p.Want, p.Spec = Released, nil
	delete(v.Failures, Step{PublishVolume, t})
	v.tidy(t)
}

// Keep notes that the pod needs another volume instead, because its claim was bound anew. What is or may be published
// stays until the pod releases all: its containers may use it.
func (v *Volume) Keep(t Target) {
	p := v.Targets[t]
	if p == nil || p.Want == Released {
		return
	}
	p.Want, p.Spec = Kept, nil
	delete(v.Failures, Step{PublishVolume, t})
	v.tidy(t)
}

// tidy forgets a publication that is over.
func (v *Volume) tidy(t Target) {
	if p := v.Targets[t]; p != nil && p.State == None && p.Want != Wanted && (v.Busy == nil || v.Busy.Target != t) {
		delete(v.Targets, t)
		delete(v.Failures, Step{UnpublishVolume, t})
	}
}

// FoundStaged notes a staging that an earlier agent left.
func (v *Volume) FoundStaged(f Found) {
	v.Staging, v.Block, v.Name, v.Held = Uncertain, f.Block, f.Target.Name, f.Held
	v.Label = cmp.Or(f.Label, v.Label)
}

// Left is what a step has to take down.
func (v *Volume) Left(s Step) Found {
	f := Found{Key: v.Key, Target: s.Target, Inline: v.Inline, Block: v.Block}
	if f.Target.Name == "" {
		f.Target.Name = v.Name
	}
	return f
}

// FoundPublished notes a publication that an earlier agent left. If the volume has a staging, that is found beside it.
func (v *Volume) FoundPublished(f Found) {
	v.Targets[f.Target] = &Publication{State: Uncertain}
	v.Label = cmp.Or(f.Label, v.Label)
}

// Detached notes that the Node does not name the volume as attached. What is staged stays until it is unstaged.
func (v *Volume) Detached() {
	if v.Staging == None && !v.published() {
		v.Attached, v.Context = false, nil
	}
}

// Over: nothing of the volume is on this node, and nobody wants it.
func (v *Volume) Over() bool { return v.Busy == nil && v.Staging == None && len(v.Targets) == 0 }

// sorted are the targets in the order in which they were wanted. Most volumes have one.
func (v *Volume) sorted() []Target {
	out := make([]Target, 0, len(v.Targets))
	for t := range v.Targets { // order-free: sorted
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Target) int {
		return cmp.Or(cmp.Compare(v.Targets[a].Order, v.Targets[b].Order), a.Compare(b))
	})
	return out
}

// first is the first wanted publication of a pod, by which the volume is staged. While it is published, it is of those
// with its label.
func (v *Volume) first() *Publication { return v.firstOf(v.sorted()) }

func (v *Volume) firstOf(sorted []Target) *Publication {
	published := v.published()
	for _, t := range sorted {
		if p := v.Targets[t]; p.Want == Wanted && (!published || !v.otherLabel(p)) {
			return p
		}
	}
	return nil
}

// For is the pod that a step is for: of those that want the volume the first, if the step is for all. Empty for none.
func (v *Volume) For(s Step) types.UID {
	if s.Target.Pod != "" {
		return s.Target.Pod
	}
	if p := v.first(); p != nil {
		return p.Spec.Pod
	}
	return ""
}

// published: it is or may be published for a pod, known or not.
func (v *Volume) published() bool {
	if v.Held != "" {
		return true
	}
	for _, p := range v.Targets { // order-free: any
		if p.State != None {
			return true
		}
	}
	return false
}

// rival is the pod that has a volume for which only one pod at a time may (ReadWriteOncePod), empty for none.
func (v *Volume) rival(t Target) types.UID {
	p := v.Targets[t]
	if p.Spec == nil || !p.Spec.SinglePod() {
		return ""
	}
	for _, other := range v.sorted() {
		o := v.Targets[other]
		if other.Pod != t.Pod && p.State == None && (o.State != None || o.Want == Wanted && o.Order < p.Order) {
			return other.Pod
		}
	}
	return ""
}

// Next is the step to begin now, if there is one, and otherwise when to ask again; zero: when something changes.
func (v *Volume) Next(now time.Time, env Env) (step Step, is bool, again time.Time) {
	if v.Busy != nil {
		return step, false, again
	}
	v.labels = env.Driver != nil && env.Driver.SELinux
	later := func(at time.Time) {
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	for _, s := range v.steps(now, env, later) {
		at := v.Failures[s].RetryAt(env.Backoff)
		if !at.After(now) {
			return s, true, time.Time{}
		}
		later(at)
	}
	return step, false, again
}

// steps are those that may be done now, the most urgent first.
func (v *Volume) steps(now time.Time, env Env, later func(time.Time)) (out []Step) {
	all := v.sorted()
	if env.Registered {
		for _, t := range all {
			if p := v.Targets[t]; p.Want == Released && p.State != None {
				out = append(out, Step{UnpublishVolume, t})
			}
		}
	}
	first := v.firstOf(all)
	switch {
	case first == nil:
		if env.Registered && v.Staging != None && !v.published() {
			out = append(out, Step{Op: UnstageVolume})
		}
		return out
	case v.waits(env, first) != "":
		return out
	case env.Driver.Attach && !v.Inline && !v.Attached:
		return append(out, Step{Op: Attachment})
	case !v.Inline && v.Staging != Done:
		if v.Staging == Uncertain && !v.published() &&
			(v.otherLabel(first) || v.As != nil && !v.As.Same(v.stage(first))) {
			return append(out, Step{Op: UnstageVolume}) // never twice differently
		}
		return append(out, Step{Op: StageVolume})
	case !v.Inline && !v.published() && v.otherLabel(first):
		return append(out, Step{Op: UnstageVolume})
	}
	if v.Grow > 0 && v.writer(all) != nil {
		out = append(out, Step{Op: ExpandVolume})
	}
	for _, t := range all {
		p := v.Targets[t]
		if p.Want != Wanted || v.rival(t) != "" || v.otherLabel(p) || p.Spec.refused(env.Driver) != "" {
			continue
		}
		switch due := p.At.Add(env.Republish); {
		case p.State != Done:
			out = append(out, Step{PublishVolume, t})
		case env.Republish > 0 && !due.After(now):
			out = append(out, Step{PublishVolume, t})
		case env.Republish > 0:
			later(due)
		}
	}
	return out
}

// Begin notes that a step begins. It returns what to stage, for StageVolume.
func (v *Volume) Begin(s Step) *Stage {
	if v.Busy != nil {
		panic("csi: " + v.String() + ": " + s.Op.String() + " begins during " + v.Busy.Op.String())
	}
	v.Busy, v.Walk = &s, Walk{}
	switch s.Op {
	case Attachment:
	case ExpandVolume:
		v.growing = v.Grow
	case StageVolume:
		to := v.stage(v.first())
		if v.Staging == Uncertain && v.As != nil && v.published() {
			// It can't be unstaged, so it is staged as before.
			as := *v.As
			as.Secrets, as.NoSecret = to.Secrets, to.NoSecret
			to = as
		}
		to.Fresh = v.Staging == None
		v.before, v.Staging, v.As, v.Label = v.Staging, Uncertain, &to, to.Label
		return &to
	case UnstageVolume:
		if v.published() {
			panic("csi: " + v.String() + " is unstaged while it is published")
		}
		v.before, v.Staging = v.Staging, Uncertain
	case PublishVolume:
		if !v.Inline && v.Staging != Done {
			panic("csi: " + v.String() + " is published while it is not staged")
		}
		p := v.Targets[s.Target]
		if v.before = p.State; p.State == None {
			p.State = Uncertain
		}
	case UnpublishVolume:
		p := v.Targets[s.Target]
		v.before, p.State, p.ready = p.State, Uncertain, false
	}
	return nil
}

// Outcome is how a step ended.
type Outcome uint8

const (
	// Worked: it has.
	Worked Outcome = iota
	// Refused: it has failed, and has had no effect of its own.
	Refused
	// Unsure: it has failed, and may have had an effect, or have one yet.
	Unsure
)

// End notes how the step ended that began last.
func (v *Volume) End(o Outcome, now time.Time) {
	s := *v.Busy
	v.Busy = nil
	if o == Worked {
		delete(v.Failures, s)
	}
	switch s.Op {
	case Attachment:
	case ExpandVolume:
		if o == Worked {
			v.grown, v.has = max(v.grown, v.growing), max(v.has, v.growing)
		}
		for _, p := range v.Targets { // order-free: each on its own
			p.ready = p.ready || p.State == Done
		}
		// It may have to be bigger by now. One that was refused is asked for again when the claim wants it again.
		if v.Grow <= v.grown || o == Refused && v.Grow == v.growing {
			v.Grow = 0
		}
	case StageVolume:
		v.Staging = after(o, v.before)
		if o == Worked {
			delete(v.Failures, Step{Op: UnstageVolume}) // it is another staging
		}
	case UnstageVolume:
		if o == Worked {
			v.Staging, v.As, v.Attached, v.Context = None, nil, false, nil
		}
	case PublishVolume:
		p := v.Targets[s.Target]
		p.State = after(o, v.before)
		if o == Worked {
			p.At, p.ready = now, p.ready || v.Grow == 0 || v.Failures[Step{Op: ExpandVolume}].Count > 0
		} else if v.before == Done {
			p.At = now // it is tried again in its time
			delete(v.Failures, s)
		}
		v.tidy(s.Target)
	case UnpublishVolume:
		if o == Worked {
			v.Targets[s.Target].State = None
		}
		v.tidy(s.Target)
	}
	if v.Staging == None {
		v.As = nil
	}
}

// after is the state after a call that found before.
func after(o Outcome, before State) State {
	switch {
	case o == Worked || before == Done:
		return Done
	case o == Refused && before == None:
		return None
	default:
		return Uncertain
	}
}
