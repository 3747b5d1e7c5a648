package invariants

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// Rule is one invariant.
type Rule struct {
	ID string
	// Text is what must be so, Excuses what may break it; empty if nothing may.
	Text, Excuses string
}

// rule is an invariant with its checkers. Each gets the model as it was before the event,
// and returns what is wrong, empty if nothing is.
type rule struct {
	Rule
	changed func(*Node, *Pod, *simcri.Transition) string
	called  func(*Node, *Pod, *simcri.Call) string
	done    func(*Node, *Pod, *machine.Call) string
	shown   func(n *Node, p *Pod, of *v1.Pod, gone bool) string
	handled func(n *Node) string
	renewed func(n *Node, at time.Time) string
	// driven is when a CSI driver is asked for something, and when it has done it. The pod is nil if it is about none.
	driven  func(*Node, *Pod, *machine.CSIChange) string
	evicted func(*Node, *Pod, *Eviction) string
	// relieved is when the API shows no longer that a resource is short, which it did since a time.
	relieved func(n *Node, c v1.NodeConditionType, since time.Time) string
	// measured is asked of each pod with each measurement of the node.
	measured func(*Node, *Pod) string
	// settled is asked of each pod.
	settled func(*Node, *Pod) string
	// rested is asked of the node when it is settled.
	rested func(*Node) string
}

// rules are all of them, in order of their numbers.
var rules = []rule{
	oneSandbox, runsOnce, oneUID, attemptsGrow, inOrder, askedBeforeKilled, hooksRun, nothingForTheUnwanted,
	restartsAfterAnEnd, truthfulEnd, nothingAfterTheEnd, neverBackwards, notInUse, renewsItsLease, messagesArrive,
	noGrowth, backsOff, asksEachPeriod, neverBeforeItsGrace, killedAfterItsGrace, imagesFirst, oneVictim,
	staysPressed, withinLimits, oneOwner, stagedFirst, unstagedLast, notPulledAway, releasedFirst, attachedHere,
	publishedFirst, onlyWithCredentials, signalledBeforeKilled, notJudgedAgain, endsWithItsSource, finishedForGood,
}

// Rules are all invariants, in order of their numbers.
func Rules() []Rule {
	out := make([]Rule, len(rules))
	for i := range rules {
		out[i] = rules[i].Rule
	}
	return out
}
