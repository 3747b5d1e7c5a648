// Package shutdown decides in which order the pods of a node end while its machine shuts down, and how long
// each of them has (KEP-2000, KEP-2712).
//
// Pods end in groups, the group of the lowest priority first. The next group begins when all pods of a group
// have ended, or when its period is over.
//
// All functions are pure.
package shutdown

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
)

// Texts of the kubelet, which controllers and people know.
const (
	Reason  = "Terminated"
	Message = "Pod was terminated in response to imminent node shutdown."
)

// critical is the lowest priority of system-cluster-critical and system-node-critical.
const critical int32 = 2_000_000_000

// Group is the pods that end together: those with this priority or a higher one, up to that of the next
// group.
type Group struct {
	Priority int32
	// Period is how long the group has.
	Period time.Duration
}

// Groups is how a node shuts down, in order of priority; none: it does not wait for its pods.
type Groups []Group

// TwoGroups are the groups for shutdownGracePeriod and shutdownGracePeriodCriticalPods: the pods that are not
// critical have what the critical ones leave of the whole period. None for a whole period of 0.
func TwoGroups(whole, criticalPods time.Duration) Groups {
	if whole <= 0 {
		return nil
	}
	criticalPods = min(max(criticalPods, 0), whole)
	return Groups{{Priority: 0, Period: whole - criticalPods}, {Priority: critical, Period: criticalPods}}
}

// ByPriority are the groups for shutdownGracePeriodByPodPriority, in any order. Of two with the same priority
// only the second has pods, and the first still counts in Total.
func ByPriority(groups []Group) Groups {
	out := slices.Clone(groups)
	slices.SortStableFunc(out, func(a, b Group) int { return cmp.Compare(a.Priority, b.Priority) })
	return out
}

// Total is the longest time that the pods have.
func (g Groups) Total() time.Duration {
	var sum time.Duration
	for _, group := range g {
		sum += group.Period
	}
	return sum
}

// Fit shortens all periods in the same proportion, for a shutdown that waits for limit at most. Otherwise the
// pods of the highest priority, which end last, would have no time at all.
func (g Groups) Fit(limit time.Duration) Groups {
	total := g.Total()
	if total <= limit {
		return g
	}
	out := slices.Clone(g)
	for i := range out {
		out[i].Period = time.Duration(float64(out[i].Period) / float64(total) * float64(max(limit, 0)))
	}
	return out
}

// of is the index of a pod's group. Pods with a priority below all groups are in the first.
func (g Groups) of(priority int32) int {
	for i, group := range slices.Backward(g) {
		if group.Priority <= priority {
			return i
		}
	}
	return 0
}

// Pod is one pod of the node.
type Pod struct {
	UID      types.UID
	Priority int32
	// Grace is its terminationGracePeriodSeconds.
	Grace time.Duration
	// Ended: nothing of it runs, and nothing is mounted.
	Ended bool
	// Asked is since when it ends because of the shutdown; zero if it was not asked to.
	Asked time.Time
}

// Progress is how far the shutdown has come. The zero value is its beginning.
type Progress struct {
	Group int `json:"group,omitempty"`
	// Since is when the group began; zero if it has not.
	Since time.Time `json:"since,omitzero"`
}

// Step is what to do now.
type Step struct {
	Progress
	// End are the pods that end now, each with its grace period, in the order of the input.
	End []Order
	// Left is the time until the next group begins at the latest.
	Left time.Duration
	// Done: the last group has ended, or its period is over.
	Done bool
}

// Order asks one pod to end.
type Order struct {
	UID   types.UID
	Grace time.Duration
}

// Stop is how a pod is stopped that ends now.
func Stop(now time.Time, grace time.Duration) podlife.Stop {
	return podlife.Stop{
		At: now, Grace: grace, Reason: Reason, Message: Message, Why: "the node is shutting down",
		Disruption: Message, Fail: true,
	}
}

// Is says whether a pod is stopped because the machine shuts down; s may be nil.
func Is(s *podlife.Stop) bool { return s != nil && s.Disruption == Message }

// Next is what to do for pods. at is the progress so far. It is repeated when a pod has ended, and when Left
// is over.
//
// A pod that comes late, or that was not asked in the turn of its group, is asked as soon as its group's turn
// has come, and has the time that the current group has left. A group without pods takes no time.
func (g Groups) Next(at Progress, pods []Pod, now time.Time) Step {
	s := Step{Progress: at}
	for ; s.Group < len(g); s.Progress = (Progress{Group: s.Group + 1}) {
		if !g.waits(s.Group, pods) {
			continue
		}
		if s.Since.IsZero() {
			s.Since = g.began(s.Group, pods, now)
		}
		if s.Since.After(now) { // the clock was set back
			s.Since = now
		}
		if s.Left = g[s.Group].Period - now.Sub(s.Since); s.Left > 0 {
			break
		}
		s.Left = 0
		s.ask(g, pods) // a period of 0 leaves no time, and the pods still end
	}
	s.ask(g, pods)
	s.Done = s.Group >= len(g)
	return s
}

// ask asks all pods of the groups whose turn has come, and that were not asked.
func (s *Step) ask(g Groups, pods []Pod) {
	for i := range pods {
		p := &pods[i]
		if p.Ended || !p.Asked.IsZero() || g.of(p.Priority) > s.Group ||
			slices.ContainsFunc(s.End, func(o Order) bool { return o.UID == p.UID }) {
			continue
		}
		s.End = append(s.End, Order{p.UID, min(p.Grace, s.Left)})
	}
}

// waits says whether pods of a group have not ended.
func (g Groups) waits(group int, pods []Pod) bool {
	return slices.ContainsFunc(pods, func(p Pod) bool { return !p.Ended && g.of(p.Priority) == group })
}

// began is when a group began: now, or when an earlier agent asked the first of its pods.
func (g Groups) began(group int, pods []Pod, now time.Time) time.Time {
	first := now
	for i := range pods {
		if p := &pods[i]; !p.Asked.IsZero() && p.Asked.Before(first) && g.of(p.Priority) == group {
			first = p.Asked
		}
	}
	return first
}
