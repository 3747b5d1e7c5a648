package invariants

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// The backoff of containers that crash: none after the first end, then ten seconds, doubled to five
// minutes. A run of ten minutes makes the next end the first one again.
const (
	firstBackoff   = 10 * time.Second
	longestBackoff = 5 * time.Minute
	longRun        = 10 * time.Minute
	// backoffSlack is until a container is made that is due: its end is found by a list of the
	// runtime if no event tells of it.
	backoffSlack = 5 * time.Second
)

var backsOff = rule{
	Rule: Rule{
		ID: "I21",
		Text: "A container is made again no sooner than its backoff says (0 s, 10 s, 20 s, … 5 min after its last end; " +
			"from the beginning after a run of ten minutes; at once if the agent stopped it that long after the end of the " +
			"one before it), and in the same sandbox no later than five seconds after it.",
		Excuses: "Another image, if only for a time, or a pod that was not wanted since its last sandbox was made: there " +
			"is no backoff. Other resources, from when the pod asks for them: it may get them later. A clock " +
			"that was set since the start of the last incarnation. Somebody else removes a container. " +
			"To be late: as I27, a backoff that follows from the number of the incarnation if its actor was restarted, and a " +
			"postStart hook of a container before it.",
	},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerCreatedEvent || p.spec == nil {
			return ""
		}
		l := p.lineage(t.Container)
		last := l.last
		if last == nil || !l.made {
			return ""
		}
		another := p.dropped.After(last.life) && last.sandbox != t.Sandbox // life of the pod, perhaps
		image := last.image != p.image(t.Container)
		if image || last.otherImage || another {
			// The next end may be the first of the image, after which there is no backoff either. Of an image
			// that is the old one again the agent may not have been told.
			l.backoff, l.least, l.free, l.doubtful = 0, 0, true, l.doubtful || another || !image
			return ""
		}
		if !n.timely || n.clockSet.After(last.startedAt) || last.cause == simcri.Lost {
			return ""
		}
		since := n.now().Sub(last.endedAt)
		free := l.free
		l.free = false
		if since < l.least && !l.soon && !free && !l.resized {
			return fmt.Sprintf("container %s was made again %s after its end, with a backoff of %s",
				t.Container, since, l.least)
		}
		if last.sandbox != t.Sandbox {
			return ""
		}
		return n.overdue(p, l, t.Container)
	},
	settled: func(n *Node, p *Pod) string {
		if p.spec == nil || !p.wanted || p.ready == 0 {
			return ""
		}
		for i := range p.spec.Spec.Containers {
			name := p.spec.Spec.Containers[i].Name
			l := p.lineage(name)
			if last := l.last; last == nil || !l.made || l.running != nil || last.attempt != l.newest ||
				!p.sandboxes[last.sandbox].isReady() || last.cause != simcri.ByItself || podspec.MayRestartAll(p.spec) ||
				!podspec.RestartsAfter(&p.spec.Spec.Containers[i], p.spec, last.exitCode) {
				continue
			}
			if why := n.overdue(p, l, name); why != "" {
				return why
			}
		}
		return ""
	},
}

// overdue says what is wrong if a container that has ended is made again now, or is not yet.
func (n *Node) overdue(p *Pod, l *lineage, name string) string {
	if _, kind := podspec.Find(&p.spec.Spec, name); kind != podspec.Main || p.hookedBefore(name) {
		return "" // it may wait for something
	}
	most := l.backoff
	switch {
	case l.doubtful || n.trouble.until.After(l.last.startedAt) || p.trouble.until.After(l.last.startedAt):
		most = longestBackoff
	case n.agents > 1 || !n.crashedAt.IsZero(): // it may have been forgotten why earlier ones ended
		most = max(most, byNumber(l.last.attempt))
	}
	due := later(l.last.endedAt.Add(most), n.calm(p))
	if over := n.now().Sub(due); over > backoffSlack {
		return fmt.Sprintf("container %s was not made again %s after its backoff of %s was over", name, over, l.backoff)
	}
	return ""
}

// resized notes which containers a newer version of the pod asks for other resources for.
func (p *Pod) resized(next *v1.Pod) {
	if p.spec == nil {
		return
	}
	for c := range podspec.Lasting(&next.Spec) {
		old, _ := podspec.Find(&p.spec.Spec, c.Name)
		if old != nil && !equality.Semantic.DeepEqual(old.Resources, c.Resources) {
			p.lineage(c.Name).resized = true
		}
	}
}

// byNumber is the backoff of an incarnation if all before it have crashed.
func byNumber(attempt uint32) time.Duration {
	if attempt == 0 {
		return 0
	}
	return min(firstBackoff<<min(attempt-1, 10), longestBackoff)
}

// hookedBefore says whether a container before a main container has a postStart hook, which that may wait for.
func (p *Pod) hookedBefore(name string) bool {
	for c := range podspec.Lasting(&p.spec.Spec) {
		switch {
		case c.Name == name:
			return false
		case c.Lifecycle != nil && c.Lifecycle.PostStart != nil:
			return true
		}
	}
	return false
}

// stopHooked says whether a container has a preStop hook.
func (p *Pod) stopHooked(name string) bool {
	if p.spec == nil {
		return true
	}
	c, _ := podspec.Find(&p.spec.Spec, name)
	return c == nil || stopHook(c) != nil
}

// backoffs are those of the incarnations of one container name.
type backoffs struct {
	// backoff is how long after the last end the next is made at the latest, least at the soonest. soon, free: it may also
	// be made at once.
	backoff, least time.Duration
	soon, free     bool
	// counted are the ends that least is of.
	counted int
}

// crashed counts the end of c. If the clock was set while it ran, nobody knows how long. killed: the agent may have
// stopped it.
func (l *lineage) crashed(c *container, clockSet time.Time, killed bool) {
	before, set := l.last, clockSet.After(c.startedAt)
	l.last = c
	l.doubtful = l.doubtful || set
	if !l.made { // somebody else has ended it
		return
	}
	next := func(d time.Duration, first bool) time.Duration {
		switch {
		case set, c.endedAt.Sub(c.startedAt) >= longRun, first:
			return 0
		case d == 0:
			return firstBackoff
		default:
			return min(2*d, longestBackoff)
		}
	}
	l.backoff = next(l.backoff, l.ends == 0)
	l.ends++
	if killed && (before == nil || before.removed) {
		l.soon = true // the agent does not count it, unless its postStart hook failed
		return
	}
	l.least = next(l.least, l.counted == 0)
	l.counted++
	l.soon = killed && (c.endedAt.Sub(before.endedAt) >= l.least || clockSet.After(before.endedAt))
}
