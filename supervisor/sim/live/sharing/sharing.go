// Package sharing decides which of several processes runs which part of the
// simulated nodes. The nodes are divided into slots; a slot has one holder, or
// none. Nothing here does anything: the caller reads the leases, and writes them.
//
//	         claim (a write that only one can win)
//	free ──────────────────────────────────────────► held by M
//	 ▲ ▲                                               │   │
//	 │ └────────────── M gives it back ────────────────┘   │
//	 └──── M's lease was read when its duration was over, and had not changed ────┘
//
// Two rules ensure that no slot runs twice. A process that holds slots stops running
// them before its own lease can have ended for anybody else (Fence). And others
// count from when they saw the lease change last, which was after it was written, and
// read it again at the end: that a watch told of no change is not enough, for it may be
// late (Sight).
package sharing

import (
	"cmp"
	"slices"
	"time"
)

// Plan is what one process does now.
type Plan struct {
	// Claim and Release are slots, in order.
	Claim, Release []int
}

// View is what one process knows.
type View struct {
	// Me is this process.
	Me string
	// Leaving: it is about to end.
	Leaving bool
	// Members are the processes that live. Me counts as one unless Leaving.
	Members []string
	// Holders has the holder of each slot, empty for none. A holder that is not a member has lost
	// its slots.
	Holders []string
	// Stopped are slots that Me holds and does not run, because it was fenced meanwhile. For
	// others they are its own; it claims them again, or releases them.
	Stopped []int
}

// Decide says what to do so that in the end the slots are all held, by the members,
// each as many as the others or one more. A process releases a slot only to another one
// who has too few, so that slots stay where they are as far as can be.
//
// Members that know the same decide what fits together; where they do not, the
// write of one of them fails.
func Decide(v View) Plan {
	held := map[string][]int{}
	var free []int
	members := v.members()
	for slot, holder := range v.Holders {
		switch {
		case slices.Contains(members, holder), v.Leaving && holder == v.Me:
			held[holder] = append(held[holder], slot)
		default:
			free = append(free, slot)
		}
	}
	if v.Leaving {
		return Plan{Release: held[v.Me]}
	}
	// What runs is kept before what does not.
	slices.SortStableFunc(held[v.Me], func(a, b int) int { return v.stopped(a) - v.stopped(b) })
	quota := quotas(members, held, len(v.Holders))
	var plan Plan
	for _, m := range members {
		take := free[:min(max(quota[m]-len(held[m]), 0), len(free))]
		free = free[len(take):]
		if m != v.Me {
			continue
		}
		keep := min(quota[m], len(held[m]))
		plan.Release = held[m][keep:]
		for _, slot := range held[m][:keep] {
			if v.stopped(slot) > 0 {
				plan.Claim = append(plan.Claim, slot)
			}
		}
		plan.Claim = append(plan.Claim, take...)
	}
	slices.Sort(plan.Claim)
	slices.Sort(plan.Release)
	return plan
}

// stopped is 1 for a slot that Me holds and does not run.
func (v *View) stopped(slot int) int {
	if slices.Contains(v.Stopped, slot) {
		return 1
	}
	return 0
}

// members in order, Me among them unless it is leaving.
func (v View) members() []string {
	all := slices.Clone(v.Members)
	if !v.Leaving {
		all = append(all, v.Me)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if v.Leaving {
		all = slices.DeleteFunc(all, func(m string) bool { return m == v.Me })
	}
	return all
}

// quotas are how many slots each member is to have. Where they do not divide
// evenly, those that hold most have one more.
func quotas(members []string, held map[string][]int, slots int) map[string]int {
	if len(members) == 0 {
		return nil
	}
	byHeld := slices.Clone(members)
	slices.SortStableFunc(byHeld, func(a, b string) int { return cmp.Compare(len(held[b]), len(held[a])) })
	out := map[string]int{}
	for i, m := range byHeld {
		out[m] = slots / len(members)
		if i < slots%len(members) {
			out[m]++
		}
	}
	return out
}

// Sight is what was seen last of another process' lease. The clocks of two
// machines may differ, so nothing is read from the lease but that it changed.
type Sight struct {
	// Version of the lease, At when it was first seen here, Duration what it says
	// that it is good for.
	Version  string
	At       time.Time
	Duration time.Duration
	// Read is when the last read of the lease was begun that found this version.
	Read time.Time
}

// See takes in the lease as it is now.
func (s Sight) See(version string, duration time.Duration, now time.Time) Sight {
	if s.Version == version {
		return s
	}
	return Sight{Version: version, At: now, Duration: duration}
}

// Unchanged takes in that the lease was read, from asked on, and has still this version.
func (s Sight) Unchanged(asked time.Time) Sight {
	s.Read = asked
	return s
}

// Ends is when the lease must be read again, if nobody has told of a change.
func (s Sight) Ends() time.Time { return s.At.Add(s.Duration) }

// Gone says that the process has lost what it held: its lease was read at its end or later, and had not changed.
func (s Sight) Gone() bool { return !s.Read.Before(s.Ends()) }

// Fence is when a process must have stopped running what it holds, if it has not
// renewed its lease since a renewal that was begun at renewed. The rest of the
// duration is for stopping, and for clocks that do not run alike.
func Fence(renewed time.Time, duration time.Duration) time.Time {
	return renewed.Add(duration * 4 / 5)
}

// Nodes are the numbers of the nodes, from first to before end, of a slot.
func Nodes(slot, slots, nodes int) (first, end int) {
	return slot * nodes / slots, (slot + 1) * nodes / slots
}
