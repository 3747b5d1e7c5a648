package oom

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/usage"
)

const (
	// SystemReason is that of an event of the node whose memory ran out, as the kubelet has it. Reason is that of an
	// event of a pod in which a process was killed; the node problem detector has it too.
	SystemReason = "SystemOOM"
	Reason       = "OOMKilling"

	// Settle is how long one waits after a kill for the runtime to say whether the container has ended.
	Settle = 3 * time.Second
	// Quiet is the shortest time between two events of a container. What is killed meanwhile is counted.
	Quiet = 5 * time.Minute
	// atOnce is how many victims of a machine that ran out of memory have events of their own in Quiet.
	atOnce = 5
	// mostFresh bounds the kills that wait, mostNoted the containers that are remembered.
	mostFresh, mostNoted = 256, 1024
)

// Notice is an event to record. Pod is nil for one of the node.
type Notice struct {
	Pod                        *v1.Pod
	Container, Reason, Message string
}

// Ledger knows which kills were reported. The zero value is empty.
type Ledger struct {
	// fresh are kills that no event was decided for, the oldest first. Invariant: at most mostFresh, and one of each
	// cgroup or container.
	fresh []kill
	// noted are containers with kills that wait for an event, or with an event less than Quiet ago. Invariant: at
	// most mostNoted, one of each ID.
	noted []noted
	// window began when the first of the said events of the node was recorded; unsaid were killed after those.
	window time.Time
	said   int
	unsaid tally
}

type kill struct {
	Kill
	at time.Time
}

// tally is how many were killed, and the last of them.
type tally struct {
	n    uint64
	last Kill
}

func (t *tally) add(k *Kill) {
	t.n += 1 + k.More
	t.last = *k
}

type noted struct {
	id   string // the runtime's ID
	next time.Time
	tally
}

// Check says which invariant does not hold.
func (l *Ledger) Check() error {
	cgroups, ids := map[[2]string]bool{}, map[string]bool{}
	for i := range l.fresh {
		cgroups[[2]string{l.fresh[i].Cgroup, l.fresh[i].Container}] = true
	}
	if len(l.fresh) > mostFresh || len(cgroups) < len(l.fresh) {
		return fmt.Errorf("oom: fresh: at most mostFresh, and one of each cgroup or container: %d of %d",
			len(l.fresh), len(cgroups))
	}
	for i := range l.noted {
		ids[l.noted[i].id] = true
	}
	if len(l.noted) > mostNoted || len(ids) < len(l.noted) {
		return fmt.Errorf("oom: noted: at most mostNoted, one of each ID: %d of %d", len(l.noted), len(ids))
	}
	return nil
}

// Add takes kills and returns the events of the node.
func (l *Ledger) Add(kills []Kill, now time.Time) (out []Notice) {
	for i := range kills {
		k := &kills[i]
		if k.System {
			out = append(out, l.system(k, now)...)
		}
		if k.Cgroup == "" && k.Container == "" {
			continue
		}
		l.wait(k, now)
	}
	return out
}

// wait keeps a kill until it is known whether its container has ended.
func (l *Ledger) wait(k *Kill, now time.Time) {
	same := func(o kill) bool { return o.Cgroup == k.Cgroup && o.Container == k.Container }
	if i := slices.IndexFunc(l.fresh, same); i >= 0 {
		more := l.fresh[i].More + 1
		l.fresh[i].Kill = *k
		l.fresh[i].More += more
		return
	}
	if len(l.fresh) == mostFresh {
		l.fresh = slices.Delete(l.fresh, 0, 1)
	}
	l.fresh = append(l.fresh, kill{*k, now})
}

func (l *Ledger) system(k *Kill, now time.Time) []Notice {
	out := l.endWindow(now)
	if l.said == 0 {
		l.window = now
	}
	if l.said == atOnce {
		l.unsaid.add(k)
		return out
	}
	l.said++
	return append(out, Notice{Reason: SystemReason, Message: "System OOM encountered" + victim(k)})
}

// endWindow reports what had no event of its own.
func (l *Ledger) endWindow(now time.Time) (out []Notice) {
	if l.said == 0 || now.Sub(l.window) < Quiet && !now.Before(l.window) {
		return nil
	}
	if l.unsaid.n > 0 {
		out = []Notice{{Reason: SystemReason, Message: fmt.Sprintf("System OOM encountered %d more times in %v%s",
			l.unsaid.n, now.Sub(l.window).Round(time.Second), victim(&l.unsaid.last))}}
	}
	l.said, l.unsaid = 0, tally{}
	return out
}

func victim(k *Kill) string {
	if k.Process == "" || k.PID == 0 {
		return ""
	}
	return fmt.Sprintf(", victim process: %s, pid: %d", k.Process, k.PID)
}

// Next is when Decide has something to do; false: not before the next kill.
func (l *Ledger) Next() (at time.Time, is bool) {
	sooner := func(t time.Time) {
		if !is || t.Before(at) {
			at, is = t, true
		}
	}
	if len(l.fresh) > 0 {
		sooner(l.fresh[0].at.Add(Settle))
	}
	for i := range l.noted {
		if l.noted[i].n > 0 {
			sooner(l.noted[i].next)
		}
	}
	if l.unsaid.n > 0 {
		sooner(l.window.Add(Quiet))
	}
	return at, is
}

// Decide returns the events that are due. A container that has ended has none: its status says OOMKilled. pods are
// all pods with their status.
func (l *Ledger) Decide(pods []*v1.Pod, now time.Time) []Notice {
	out := l.endWindow(now)
	running := map[string]place{}
	for _, p := range pods {
		u, _ := usage.Of(p)
		for i := range u.Containers {
			running[u.Containers[i].RuntimeID] = place{p, u.Containers[i].Name}
		}
	}
	delete(running, "")
	settled := slices.IndexFunc(l.fresh, func(k kill) bool { return now.Sub(k.at) < Settle })
	if settled < 0 {
		settled = len(l.fresh)
	}
	for i := range l.fresh[:settled] {
		k := &l.fresh[i].Kill
		if id := k.container(running); id != "" {
			l.note(id, now).add(k)
		}
	}
	l.fresh = slices.Delete(l.fresh, 0, settled)
	kept := l.noted[:0]
	for _, n := range l.noted {
		at, is := running[n.id]
		if n.n > 0 && is && !now.Before(n.next) {
			out = append(out, Notice{at.pod, at.container, Reason, n.message()})
			n.tally, n.next = tally{}, now.Add(Quiet)
		}
		if is && (n.n > 0 || now.Before(n.next)) {
			kept = append(kept, n)
		}
	}
	clear(l.noted[len(kept):])
	l.noted = kept
	return out
}

// place is a running container.
type place struct {
	pod       *v1.Pod
	container string
}

// container is the ID of the running container that a process was killed in; empty if it is none. Its cgroup is
// named by its ID, with a prefix and a suffix of the runtime's: cri-containerd-ID.scope.
func (k *Kill) container(running map[string]place) string {
	if k.Container != "" {
		if _, is := running[k.Container]; is {
			return k.Container
		}
		return ""
	}
	for part := range strings.SplitSeq(k.Cgroup, "/") {
		part = strings.TrimSuffix(part, ".scope")
		for _, id := range [...]string{part, part[strings.LastIndexByte(part, '-')+1:]} {
			if _, is := running[id]; is {
				return id
			}
		}
	}
	return ""
}

// note is the entry of a container.
func (l *Ledger) note(id string, now time.Time) *noted {
	at := slices.IndexFunc(l.noted, func(n noted) bool { return n.id == id })
	if at < 0 {
		if len(l.noted) == mostNoted {
			l.noted = slices.Delete(l.noted, 0, 1)
		}
		at, l.noted = len(l.noted), append(l.noted, noted{id: id, next: now})
	}
	return &l.noted[at]
}

// message says what was killed, why, and that the container runs.
func (n *noted) message() string {
	k := &n.last
	var who string
	switch {
	case k.Process == "" && n.n == 1:
		who = "A process was"
	case k.Process == "":
		who = fmt.Sprintf("%d processes were", n.n)
	case n.n == 1:
		who = fmt.Sprintf("Process %s (pid %d) was", k.Process, k.PID)
	default:
		who = fmt.Sprintf("%d processes, the last of them %s (pid %d), were", n.n, k.Process, k.PID)
	}
	return who + " killed by the kernel's OOM killer" + k.why(n.id) + ". The container keeps running."
}

// why names what ran out of memory.
func (k *Kill) why(id string) string {
	last := k.Limit[strings.LastIndexByte(k.Limit, '/')+1:]
	_, inFiles := podcgroup.UIDOf(last, podcgroup.Cgroupfs)
	_, slice := podcgroup.UIDOf(last, podcgroup.Systemd)
	switch {
	case k.System:
		return " because the node ran out of memory"
	case k.Limit == "":
		return ""
	case strings.Contains(last, id):
		return " because the container reached its memory limit"
	case inFiles || slice:
		return " because the pod reached its memory limit"
	default:
		return " because all in cgroup " + k.Limit + " reached its memory limit"
	}
}

// Running are the runtime's IDs of the running containers of pods, in their order.
func Running(pods []*v1.Pod) (ids []string) {
	for _, p := range pods {
		u, _ := usage.Of(p)
		for i := range u.Containers {
			ids = append(ids, u.Containers[i].RuntimeID)
		}
	}
	return ids
}

// Counts are how often processes were killed by OOM, as counters of the kernel say.
type Counts struct {
	// All is on the whole machine, since it booted.
	All uint64
	// Containers is in each running container, by the runtime's ID.
	Containers map[string]uint64
}

// Since returns the kills between two counts, in the order of ids. What was not counted before began after that,
// at 0.
func (c Counts) Since(before Counts, ids []string) (out []Kill) {
	for _, id := range ids {
		if n, was := c.Containers[id], before.Containers[id]; n > was {
			out = append(out, Kill{Container: id, More: n - was - 1})
		}
	}
	return out
}
