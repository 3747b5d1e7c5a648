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
				"failed to process volumes=%v: context deadline exceeded", p.missing(), p.missingThat(p.unattached.At),
				p.missingThat(func(name string) bool { return p.named(name).Unprocessed })))
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
func (p *volumed) up() bool {
	path := p.paths.Index()
	return p.prepared && !slices.ContainsFunc(p.plan, func(m volumeplan.Mount) bool {
		_, there := path(m.Name)
		return !there
	})
}

// named is how a volume is mounted; nil if the pod does not use it.
func (p *volumed) named(volume string) *volumeplan.Mount {
	for i := range p.plan {
		if p.plan[i].Name == volume {
			return &p.plan[i]
		}
	}
	return nil
}

// missing are the names of the volumes that do not stand, sorted.
func (p *volumed) missing() []string {
	var names []string
	for i := range p.plan {
		if name := p.plan[i].Name; !p.paths.Has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// missingThat are those of them for which is holds.
func (p *volumed) missingThat(is func(name string) bool) []string {
	return slices.DeleteFunc(p.missing(), func(name string) bool { return !is(name) })
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
	case len(p.failures) > 0:
		v.State = volumeplan.Failed
		v.Message = p.trouble()
	case p.waits:
		v.Message = p.waiting()
	}
	before := p.pending
	if p.pending = v.State == volumeplan.Pending && v.Message == ""; p.pending && before {
		return // the pod knows that much
	}
	p.reply.Tell(pod.VolumesAnswer{Volumes: v, Paths: p.paths.Clone()})
}

// trouble is all that failed, in one line.
func (p *volumed) trouble() string {
	var all []string
	for _, f := range p.failures {
		all = append(all, f.Value.message)
	}
	slices.SortFunc(all, cmp.Compare[string])
	return strings.Join(all, "; ")
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
	for i := range p.plan {
		m := &p.plan[i]
		if p.paths.Has(m.Name) {
			continue
		}
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
	return "waiting for " + strings.Join(all, "; ")
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
			reason, f.message = m.Reason(), m.Failed(err, f.message, p.missing())
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
