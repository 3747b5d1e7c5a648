package podset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// moveState is where a resize of CPUs that containers have alone is.
//
//	idle ─Place{Resize}─► requested ─granted─► reserved ─the allocation is saved─► applying ─InPlace─► releasing ─┐
//	 ▲                       │      ▲             └──────────not wanted any more─────────────────────────► ▲      │
//	 │                       └──► refused, until something is free                                               │
//	 └────────────────────────────────── Place{On} is answered ──────────────────────────────────────────────────┘
//
// What is in the state file is at each step what containers run on, or more. So another agent, which starts with either
// allocation, finds at least as many CPUs as that has, and gives back the rest.
type moveState uint8

const (
	idle moveState = iota
	requested
	reserved
	refused
	applying
	releasing
)

func (s moveState) String() string {
	return [...]string{"idle", "requested", "reserved", "refused", "applying", "releasing"}[s]
}

// move is a resize of the CPUs of one pod.
type move struct {
	state moveState
	// number is that of the request.
	number uint64
	// to asks for the CPUs, of which want is how many.
	to   *v1.Pod
	want map[string]int
	// answer is that to a request.
	own    map[string]cpuset.CPUSet
	blocks map[string][]memory.Block
	leaves bool
	// refusal is why not, as of version.
	refusal *cpus.Refusal
	version uint64
	// before is what a resize changes, nil if nobody asked for one.
	before map[string]cpuset.CPUSet
}

// cpusFor says whether a pod gets the CPUs of its own that it asks for. It is nil while that is not known.
func (a *registry) cpusFor(r *record) podresize.Verdict {
	if a.deps.Places == nil || !a.deps.Places.Resizes || !r.place.state.answered() {
		return podresize.Allocate{}
	}
	m, want := &r.place.move, cpus.Entitled(r.Pod)
	same := maps.Equal(want, r.place.entitled)
	switch m.state {
	case requested:
		return nil
	case reserved:
		if maps.Equal(want, m.want) {
			return podresize.Allocate{}
		}
		a.giveBack(r)
		return nil
	case applying, releasing:
		if same {
			return podresize.Allocate{}
		}
		return podresize.Defer{Message: "containers of the pod have not left the CPUs yet that an earlier resize takes " +
			"from them"}
	case refused:
		if !same && maps.Equal(want, m.want) && (m.refusal.Never || m.version == a.places.version) {
			if m.refusal.Never {
				return podresize.Refuse{Message: m.refusal.Message, Detail: podresize.Insufficient}
			}
			return podresize.Defer{Message: m.refusal.Message}
		}
	case idle:
	}
	if same {
		return podresize.Allocate{}
	}
	a.places.asked++
	*m = move{state: requested, number: a.places.asked, to: r.Pod, want: want}
	a.sendMove(r)
	return nil
}

// giveBack gives back CPUs that were granted and are not wanted any more. No container was told of them.
func (a *registry) giveBack(r *record) {
	if r.place.move.state == reserved {
		a.gives(r)
	}
}

// gives gives back all that the containers of a pod do not run on.
func (a *registry) gives(r *record) {
	a.places.asked++
	r.place.move = move{state: releasing, number: a.places.asked, to: r.allocated()}
	a.sendMove(r)
}

// sendMove sends the request of a move. It may be repeated.
func (a *registry) sendMove(r *record) {
	m := &r.place.move
	ask := assignments.Place{Pod: claims.WithoutBacked(m.to), Number: m.number, Runs: true, Resize: m.state == requested}
	if m.state == releasing {
		if ask.On = r.place.cpus; ask.On == nil {
			ask.On = map[string]cpuset.CPUSet{}
		}
	}
	a.deps.Places.Place(ask)
}

// moved notes the answer to the request of a move.
func (p *place) moved(answer *assignments.Placed, version uint64) {
	switch m := &p.move; {
	case m.state == requested && answer.Refused != nil:
		m.state, m.refusal, m.version = refused, answer.Refused, version
	case m.state == requested:
		m.state, m.own, m.blocks, m.leaves = reserved, answer.Own, answer.Memory, answer.Leaves
	case m.state == releasing:
		*m = move{}
		if !cpus.Same(answer.Own, p.cpus) { // there was too little for it when the agent began, and now there is not
			p.takes(answer)
			*m = move{state: applying, number: answer.Number, leaves: answer.Leaves}
		}
	}
}

// takes notes what an answer gives to a pod.
func (p *place) takes(answer *assignments.Placed) {
	if !cpus.Same(answer.Own, p.cpus) {
		p.now = nil
	}
	p.cpus, p.own = answer.Own, ownOf(answer.Own, answer.Memory)
}

// begins has containers run on what was granted: their pod's allocation is saved.
func (p *place) begins() {
	m := &p.move
	if m.state != reserved {
		return
	}
	m.state, m.before = applying, p.cpus
	p.entitled, p.cpus, p.own, p.now = m.want, m.own, ownOf(m.own, m.blocks), nil
}

// outgrown asks once more for a pod that was changed after it was asked for, before it began.
func (a *registry) outgrown(r *record) bool {
	if !a.deps.Places.Resizes || maps.Equal(cpus.Entitled(r.allocated()), r.place.entitled) {
		return false
	}
	a.places.asked++
	r.place.number = a.places.asked
	a.ask(r)
	return true
}

// inPlace gives back what the containers of a pod have left.
func (a *registry) inPlace(ctx *kernel.Context[Message], m pod.InPlace) {
	r := a.of[m.UID]
	if r == nil || r.place.move.state != applying || r.place.move.number != m.Number {
		return
	}
	if r.place.move.before != nil {
		a.deps.Events.Record(port.Event{
			Pod: r.Pod, Reason: "ExclusiveCPUsChanged", At: ctx.Now(), Message: changes(r.place.move.before, r.place.cpus),
		})
	}
	if !r.place.move.leaves {
		r.place.move = move{}
		a.reconcile(ctx) // it may ask for more
		return
	}
	a.gives(r)
}

// changes says which containers run on other CPUs of their own than before.
func changes(before, now map[string]cpuset.CPUSet) string {
	all := cpus.Held(before, now)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		had, has := before[name], now[name]
		switch {
		case had.Equals(has):
		case has.IsEmpty():
			out = append(out, fmt.Sprintf("container %s runs on shared CPUs, and had CPUs %s of its own", name, had))
		case had.IsEmpty():
			out = append(out, fmt.Sprintf("container %s has CPUs %s of its own, and ran on shared ones", name, has))
		default:
			out = append(out, fmt.Sprintf("container %s has CPUs %s of its own, and had %s", name, has, had))
		}
	}
	return strings.Join(out, "; ")
}
