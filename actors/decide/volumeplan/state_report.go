package volumeplan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

const (
	// Patience is after what time a pod is told what it waits for.
	Patience = 10 * time.Second
	// summary is how often an event says which volumes are not there, as the kubelet does.
	summary = 2*time.Minute + 3*time.Second
)

// Shown is how many volumes of a pod, or failures, one text names. It says how many more there are: it is made anew
// whenever one of thousands changes.
const Shown = 32

// Tell is what the pod is to be told now; news is false if it knows that.
func (p *Pod) Tell() (v Volumes, news bool) {
	v = Volumes{State: Pending, Going: p.Down()}
	switch {
	case p.Phase == Complete:
		v.State = Up
	case len(p.failures) > 0:
		v.State, v.Message = Failed, p.trouble()
	case p.overdue:
		v.Message = p.waiting()
	}
	knew := p.toldPending
	p.toldPending = v.State == Pending && v.Message == ""
	return v, !p.toldPending || !knew
}

// Expect has the time counted that something takes from now on.
func (p *Pod) Expect(now time.Time) { p.since, p.overdue = now, false }

// Overdue is what users are told after Patience, and after each next, of what is not done.
func (p *Pod) Overdue() (events []Event, next time.Duration) {
	next = summary
	switch {
	case p.overdue && !p.Down():
		events = []Event{{"FailedMount",
			fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=%v, "+
				"failed to process volumes=%v: context deadline exceeded", p.missing(),
				p.missingThat(func(v *Volume) bool { return v.unattached }),
				p.missingThat(func(v *Volume) bool { return v.Unprocessed }))}}
	case p.overdue:
	case p.Down():
		events = []Event{{"FailedUnMount", "UnmountVolume.TearDown has not ended: " + p.waiting()}}
	default:
		events = p.waits()
	}
	if !p.overdue {
		next -= Patience
	}
	p.overdue = true
	return events, next
}

// waits says in events what volumes wait for. kubectl describe does not show what a container waits for.
func (p *Pod) waits() (out []Event) {
	for i := range p.Volumes {
		v := &p.Volumes[i]
		if v.State.There() {
			continue
		}
		if why := cmp.Or(v.atCSI(), p.silent(v)); why != "" {
			out = append(out, Event{v.Reason(nil), v.Failed(nil, "waiting"+why, nil)})
		}
	}
	return out
}

// absent are volumes that are not there, in the order of the pod: all, or of many some, and then more is how many
// others there are.
func (p *Pod) absent() (out []*Volume, more int) {
	for p.first < len(p.Volumes) && p.Volumes[p.first].State.There() {
		p.first++
	}
	for i := p.first; i < min(len(p.Volumes), p.first+4*Shown) && len(out) < Shown; i++ {
		if v := &p.Volumes[i]; !v.State.There() {
			out = append(out, v)
		}
	}
	return out, p.left - len(out)
}

// andMore says at the end of a list how many others there are.
func andMore(list []string, more int) []string {
	if more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

// missing are the names of the volumes that are not there, sorted.
func (p *Pod) missing() []string {
	names := p.missingThat(func(*Volume) bool { return true })
	return andMore(names, p.left-len(names))
}

// missingThat are those of them for which is holds, of many some.
func (p *Pod) missingThat(is func(*Volume) bool) []string {
	var names []string
	all, _ := p.absent()
	for _, v := range all {
		if is(v) {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

// trouble is all that failed, in one line.
func (p *Pod) trouble() string {
	var all []string
	for _, f := range p.failures[:min(len(p.failures), Shown)] {
		all = append(all, f.Message)
	}
	slices.Sort(all)
	return strings.Join(andMore(all, len(p.failures)-len(all)), "; ")
}

// waiting is what has not come, and since when it is waited for.
func (p *Pod) waiting() string {
	since := " since " + p.since.UTC().Format(time.TimeOnly) + " UTC"
	switch p.Phase {
	case Releasing:
		return "its volumes are being unmounted" + since +
			cmp.Or(colon(p.releaseWaits), "; CSI drivers have not unpublished them")
	case Unmounting:
		return "its volumes are being unmounted" + since + "; a file system does not answer"
	case Preparing, Bringing, Complete:
	}
	var all []string
	absent, more := p.absent()
	for _, v := range absent {
		why := v.atCSI()
		switch {
		case why != "":
		case v.Err != nil:
			why = ": " + v.Err.Error()
		default:
			why = p.silent(v)
		}
		all = append(all, fmt.Sprintf("volume %q%s%s", v.Name, since, why))
	}
	return "waiting for " + strings.Join(andMore(all, more), "; ")
}

// atCSI is what a volume waits for at csi; empty for nothing that is known.
func (v *Volume) atCSI() string { return colon(v.csiWaits) }

// colon puts a reason behind what it is the reason for.
func colon(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// silent is why a volume is not mounted whose mount goes on; empty if none does.
func (p *Pod) silent(v *Volume) string {
	if !v.State.Calls() {
		return ""
	}
	if v.Walk.Reports > 0 {
		return ": " + v.Walk.Of(podspec.FSGroup(p.Object))
	}
	text := ": " + cmp.Or(v.Server, "its file system") + " does not answer"
	if v.Walks(p.Object) {
		text += csi.OrWalks(podspec.FSGroup(p.Object))
	}
	return text
}
