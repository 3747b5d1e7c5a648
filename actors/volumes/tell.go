package volumes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/flat"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

const (
	// patience is after what time a pod is told what it waits for.
	patience = 10 * time.Second
	// summary is how often an event says which volumes are not there, as the
	// kubelet does.
	summary = 2*time.Minute + 3*time.Second
)

// expect has the time counted that something takes from now on.
func (p *volumed) expect(ctx *kernel.Context[Message], uid types.UID) {
	if p.late != nil {
		p.late()
	}
	p.since, p.waits = ctx.Now(), false
	p.late = ctx.After(patience, overdue{uid})
}

// overdue says what has been waited for, for so long already.
func (a *volumes) overdue(ctx *kernel.Context[Message], uid types.UID) {
	p := a.pods[uid]
	if !p.down && p.up() {
		return
	}
	if p.waits && !p.down {
		a.event(ctx, p, "FailedMount",
			fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=%v, "+
				"failed to process volumes=%v: context deadline exceeded", p.missing(),
				p.missingThat(func(m *volumeplan.Mount) bool { return p.unattached.At(m.Name) }),
				p.missingThat(func(m *volumeplan.Mount) bool { return m.Unprocessed })))
	}
	switch {
	case p.waits:
	case p.down:
		a.event(ctx, p, "FailedUnMount", "UnmountVolume.TearDown has not ended: "+p.waiting())
	default:
		a.eventWaits(ctx, p)
	}
	next := summary
	if !p.waits {
		next -= patience
	}
	p.waits = true
	p.late = ctx.After(next, overdue{uid})
	a.tell(p)
}

// eventWaits says in events what volumes wait for. kubectl describe does not show what a container waits for.
func (a *volumes) eventWaits(ctx *kernel.Context[Message], p *volumed) {
	for i := range p.plan {
		m := &p.plan[i]
		why := p.csiWaiting(m.Name)
		if why == "" && p.running.Has(call{mount, m.Name}) {
			why = p.silent(m)
		}
		if why != "" && !p.paths.Has(m.Name) {
			a.event(ctx, p, m.Reason(), m.Failed(nil, "waiting"+why, nil))
		}
	}
}

// up reports whether all volumes stand. What is in them may not be the newest.
func (p *volumed) up() bool { return p.prepared && p.left == 0 }

// index finds the volumes of a new plan.
func (p *volumed) index() {
	p.places = flat.Many[string, int]{}
	p.left, p.first = 0, 0
	for i := range p.plan {
		name := p.plan[i].Name
		p.places.Set(name, i)
		if !p.paths.Has(name) {
			p.left++
		}
	}
}

// stands notes where a volume is.
func (p *volumed) stands(volume, path string) {
	switch was, is := p.paths.Get(volume); {
	case is && was == path:
		return
	case is:
		p.paths.Part() // the pod has the list
	case p.places.Has(volume):
		p.left--
	}
	p.paths.Set(volume, path)
}

// named is how a volume is mounted; nil if the pod does not use it.
func (p *volumed) named(volume string) *volumeplan.Mount {
	if i, is := p.places.Get(volume); is {
		return &p.plan[i]
	}
	return nil
}

// shownMost is how many volumes of a pod, or failures, one text names. It says how many more there are: it is made anew
// whenever one of thousands changes.
const shownMost = 32

// absent are volumes that do not stand, in the order of the plan: all, or of many some, and then more is how many
// others there are.
func (p *volumed) absent() (out []*volumeplan.Mount, more int) {
	for p.first < len(p.plan) && p.paths.Has(p.plan[p.first].Name) {
		p.first++
	}
	for i := p.first; i < min(len(p.plan), p.first+4*shownMost) && len(out) < shownMost; i++ {
		if m := &p.plan[i]; !p.paths.Has(m.Name) {
			out = append(out, m)
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

// missing are the names of the volumes that do not stand, sorted.
func (p *volumed) missing() []string {
	names := p.missingThat(func(*volumeplan.Mount) bool { return true })
	return andMore(names, p.left-len(names))
}

// missingThat are those of them for which is holds, of many some.
func (p *volumed) missingThat(is func(*volumeplan.Mount) bool) []string {
	var names []string
	all, _ := p.absent()
	for _, m := range all {
		if is(m) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// tell says how far the pod's volumes are.
func (a *volumes) tell(p *volumed) {
	v := volumeplan.Volumes{State: volumeplan.Pending, Going: p.down}
	switch {
	case !p.down && p.up():
		v.State = volumeplan.Up
		if len(p.plan) == 0 {
			p.pod = nil
		}
		if p.late != nil {
			p.late()
			p.late = nil
		}
	case p.failures.Len() > 0:
		v.State = volumeplan.Failed
		v.Message = p.trouble()
	case p.waits:
		v.Message = p.waiting()
	}
	before := p.pending
	if p.pending = v.State == volumeplan.Pending && v.Message == ""; p.pending && before {
		return // the pod knows that much
	}
	p.reply.Tell(pod.VolumesAnswer{Volumes: v, Paths: p.paths.Shared()})
}

// trouble is all that failed, in one line.
func (p *volumed) trouble() string {
	var all []string
	failures := p.failures.List()
	for i := range min(len(failures), shownMost) {
		all = append(all, failures[i].Value.message)
	}
	slices.Sort(all)
	return strings.Join(andMore(all, len(failures)-len(all)), "; ")
}

// waiting is what has not come, and since when it is waited for.
func (p *volumed) waiting() string {
	since := " since " + p.since.UTC().Format(time.TimeOnly) + " UTC"
	if p.down {
		if p.releasing && !p.released {
			return "its volumes are being unmounted" + since +
				cmp.Or(p.csiWaiting(""), "; CSI drivers have not unpublished them")
		}
		return "its volumes are being unmounted" + since + "; a file system does not answer"
	}
	var all []string
	absent, more := p.absent()
	for _, m := range absent {
		text := fmt.Sprintf("volume %q%s", m.Name, since)
		if why := p.csiWaiting(m.Name); why != "" {
			text += why
		} else if m.Err != nil {
			text += ": " + m.Err.Error()
		} else if p.running.Has(call{mount, m.Name}) {
			text += p.silent(m)
		}
		all = append(all, text)
	}
	return "waiting for " + strings.Join(andMore(all, more), "; ")
}

// unanswered names what did not answer in time.
func unanswered(err error, server string) error {
	e, is := errors.AsType[*port.Error](err)
	if !is || e.Kind != port.Deadline {
		return err
	}
	named := *e
	named.Detail = strings.Replace(e.Detail, "no answer", server+" did not answer", 1)
	return &named
}

// fail remembers a failure, says it to users, and gives how many there were in a row.
func (a *volumes) fail(ctx *kernel.Context[Message], p *volumed, key call, err error) int {
	f := p.failures.At(key)
	f.count++
	f.at, f.again = ctx.Now(), false
	f.taken = port.KindOf(err) == port.StateConflict || errors.Is(err, volumeplan.ErrTaken)
	f.message = err.Error()
	if e, ok := err.(*port.Error); ok && e.Detail != "" && key.what == mount {
		f.message = e.Detail
	}
	reason := "FailedMount"
	switch key.what {
	case mount:
		if m := p.named(key.volume); m != nil {
			var missing []string
			if m.Unprocessed {
				missing = p.missing()
			}
			reason, f.message = m.Reason(), m.Failed(err, f.message, missing)
			f.obstacle = m.CSI != nil || m.Unprocessed // a claim that is no good may be that of a CSI volume
		}
	case unmount:
		reason = "FailedUnMount"
	case prepare, grow:
	}
	p.failures.Set(key, f)
	a.event(ctx, p, reason, f.message)
	return f.count
}

func (a *volumes) event(ctx *kernel.Context[Message], p *volumed, reason, message string) {
	if p.pod != nil {
		a.deps.Events.Record(port.Event{Pod: p.pod, Warning: true, Reason: reason, Message: message, At: ctx.Now()})
	}
}
