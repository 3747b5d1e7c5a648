package podset

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/claims"
	decide "github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// Places are the requests to assignments (assignments.Message).
type Places struct {
	Place   func(assignments.Place)
	Refused func(assignments.Refused)
	Release func(uid types.UID)
	Living  func(pods map[types.UID]bool)
	// CPUs: containers have CPUs of their own (cpuManagerPolicy static). Resizes: a resize changes which. Memory: they
	// have memory of their own (memoryManagerPolicy Static).
	CPUs, Resizes, Memory bool
}

// places is what this actor knows of the CPUs of all pods.
type places struct {
	// shared are the CPUs of containers without their own, as the CRI has them. Empty: not known yet.
	shared string
	// told: assignments knows which pods there are.
	told bool
	// version is that of the newest answer.
	version uint64
	// asked counts requests, from another number on in each incarnation.
	asked uint64
}

// placeState is how far it is with what a pod's containers have to themselves alone.
//
//	nothing ──placed──► asked ──Placed──► answered ──rejected, and others give back──► awaiting
//	 ▲   │                ▲ │                │  ▲                                        │  │
//	 │   └──► mayHold ────┘ │                │  └──────────Placed, not rejected──────────┘  │
//	 └──────────┴───────────┴────────────────┴──ended, or the others have ended─────────────┘
//
// A pod that is rejected while it is answered is not tried again before something became free.
type placeState uint8

const (
	// nothing was asked for.
	nothing placeState = iota
	// mayHold: nothing was asked for, and an earlier agent may have given the pod something.
	mayHold
	// asked: there is no answer yet.
	asked
	// answered: it is known what they have, or why the pod is rejected.
	answered
	// awaiting: it was rejected, and is asked for again when pods have ended that the apiserver has no more.
	awaiting
)

func (s placeState) String() string {
	return [...]string{"nothing", "mayHold", "asked", "answered", "awaiting"}[s]
}

// asked says whether assignments was asked, answered whether it has answered.
func (s placeState) asked() bool    { return s >= asked }
func (s placeState) answered() bool { return s >= answered }

// become makes a step, but for those to nothing, which forget all of the place. An impossible one is a bug.
func (p *place) become(to placeState) {
	var possible bool
	switch to {
	case nothing:
	case mayHold:
		possible = p.state == nothing
	case asked:
		possible = p.state < asked
	case answered:
		possible = p.state.asked()
	case awaiting:
		possible = p.state.answered()
	}
	if !possible {
		panic("podset: a place that is " + p.state.String() + " can't be " + to.String())
	}
	p.state = to
}

// place is what a pod's containers have to themselves alone.
type place struct {
	state placeState
	// runs: the pod ran already when it was asked for, but for its containers in down, sorted. Those whose devices nobody
	// knows come to these when they have ended.
	runs bool
	down []string
	// number is that of the request: the answer to one from before the pod had ended and came back does not count.
	number   uint64
	own      map[string]decide.ContainerPlacement
	rejected *admit.Rejection
	// cpus are those in own.
	cpus map[string]cpuset.CPUSet
	// entitled is to how many CPUs containers were when cpus were given to them: see cpus.Entitled.
	entitled map[string]int
	// move is what a resize does to cpus.
	move move
	// devices are what containers with devices are created with.
	devices map[string]*devices.Given
	// health is how these devices are.
	health devicestate.Health
	// unknown is why containers can't be created, by name: nobody knows their devices.
	unknown map[string]string
	// lacked is the version of the answer that rejected the pod: it is tried again with another one.
	lacked uint64
	// now is what the pod's actor was told last.
	now *decide.Placement
}

// placed reports whether it is known what the containers of a pod have to themselves. If not, it asks.
func (a *registry) placed(r *record) bool {
	if a.deps.Places == nil || r.place.state.answered() || r.abandoned() {
		return true
	}
	if !r.place.state.asked() {
		a.places.asked++
		r.place.become(asked)
		r.place.number = a.places.asked
		r.place.runs = a.runs(r)
		if rp := a.runtime[r.Pod.UID]; podset.Runs(rp) {
			r.place.down = podset.Down(r.Pod, rp)
		}
		a.ask(r)
	}
	return false
}

// answered notes what containers have, and tells the actors of pods.
func (a *registry) answered(ctx *kernel.Context[Message], m Placed) {
	shared := m.Shared.String()
	// all: other pods may have to do with it too, so that it takes a pass over all of them.
	all := shared != a.places.shared || len(m.Pods) == 0
	var heard []*record
	for _, p := range m.Pods {
		r := a.of[p.UID]
		if r == nil {
			if a.places.told {
				a.deps.Places.Release(p.UID) // it has gone meanwhile
			}
			continue // or the sources have not said yet: it keeps what it has until then
		}
		switch {
		case !r.place.state.asked():
			continue // what was given is released already
		case p.Number == r.place.move.number && r.place.state.answered():
			r.place.moved(&p, m.Version)
			all = true
			continue
		case r.place.number != p.Number:
			continue
		case a.outgrown(r):
			continue
		}
		if r.place.rejected = p.Rejected; r.place.state != awaiting || p.Rejected == nil {
			r.place.become(answered)
		}
		r.place.takes(&p)
		if p.Leaves {
			r.place.move = move{state: applying, number: p.Number, leaves: true}
		}
		other := !maps.Equal(p.Unknown, r.place.unknown)
		r.place.devices, r.place.unknown, r.place.lacked = p.Devices, p.Unknown, m.Version
		if other && r.State == podset.Running { // a container has devices now that had lost its own
			r.place.now = nil
			a.assign(p.UID)
		}
		all = all || r.State != podset.Waiting || r.Alloc != nil || r.Origin.Static()
		heard = append(heard, r)
	}
	all = all || m.Version != a.places.version
	for uid, health := range m.Health { // order-free: each on its own
		if r := a.of[uid]; r != nil && r.place.state.answered() && !r.place.health.Equal(health) {
			r.place.health, r.place.now = health, nil
			all = true
		}
	}
	a.places.shared, a.places.version = shared, m.Version
	if !all {
		all = a.beginAnswered(ctx, heard)
	}
	if !all {
		return
	}
	for _, r := range a.ranked {
		if r.State == podset.Rejected && r.place.rejected != nil && m.Version != r.place.lacked {
			r.place.rejected = nil
		}
		if r.lacksDevices() && m.Version != r.place.lacked {
			r.place.lacked = m.Version
			a.ask(r)
		}
		if r.State == podset.Running && r.place.state.answered() && a.placement(r) != r.place.now {
			a.assign(r.Pod.UID)
		}
	}
	a.reconcile(ctx)
}

// placeDown asks once more for devices for containers that have ended, and whose devices nobody knows.
func (a *registry) placeDown(r *record) {
	if len(r.place.unknown) == 0 || r.Stop != nil || r.report.Status == nil {
		return
	}
	down := podset.DownSince(r.place.down, r.report.Status, r.place.unknown)
	if !slices.Equal(down, r.place.down) {
		r.place.down = down
		a.ask(r)
	}
}

// lacksDevices reports whether a pod runs with a container that could get devices, and for which there were none.
func (r *record) lacksDevices() bool {
	return r.State == podset.Running && r.Stop == nil && r.place.state.answered() &&
		slices.ContainsFunc(r.place.down, func(c string) bool { return r.place.unknown[c] != "" })
}

// beginAnswered begins pods that waited for nothing but their answer. It reports whether others may now be able to
// begin: the room of a pod that did not is free. Without that, a start of n pods would look at n pods n times.
func (a *registry) beginAnswered(ctx *kernel.Context[Message], answered []*record) (others bool) {
	for _, r := range answered {
		a.begin(ctx, r)
		others = others || r.State != podset.Running || r.Stop != nil
	}
	return others
}

func ownOf(cpus map[string]cpuset.CPUSet, blocks map[string][]memory.Block) map[string]decide.ContainerPlacement {
	out := make(map[string]decide.ContainerPlacement, len(cpus))
	for name, set := range cpus { // order-free: a map again
		out[name] = decide.ContainerPlacement{CPUs: set.String()}
	}
	for name, own := range blocks { // order-free: each on its own
		out[name] = decide.ContainerPlacement{CPUs: out[name].CPUs, Mems: memory.Mems(memory.NodesOf(own))}
	}
	return out
}

// placement is where the containers of a pod run: the same value for as long as that is so. It is nil while that is not
// known, and on a node where they run anywhere.
func (a *registry) placement(r *record) *decide.Placement {
	switch {
	case !r.place.state.answered() || r.place.rejected != nil:
		return nil
	case r.place.now != nil && r.place.now.Shared == a.places.shared:
		return r.place.now
	}
	none := len(r.place.own)+len(r.place.devices)+len(r.place.unknown) == 0
	if a.places.shared == "" && none && r.place.move.state != applying {
		return nil // it runs anywhere
	}
	at := &decide.Placement{
		Own: r.place.own, Shared: a.places.shared, Devices: r.place.devices, Unknown: r.place.unknown,
		Health: r.place.health,
	}
	if r.place.move.state == applying {
		at.Number = r.place.move.number
	}
	return at
}

// releaseEnded gives back what pods have that have ended, or were not admitted.
func (a *registry) releaseEnded() {
	if a.deps.Places == nil {
		return
	}
	for _, r := range a.ranked {
		if r.place.state != nothing && r.State != podset.Waiting && r.State != podset.Running {
			a.release(r)
		}
	}
}

// release gives back what a pod has.
func (a *registry) release(r *record) {
	if a.deps.Places == nil || r.place.state == nothing {
		return
	}
	had := r.place
	r.place = place{rejected: had.rejected, lacked: had.lacked}
	// One that was refused may have what an earlier agent gave it.
	if !had.state.answered() || had.rejected != nil || len(had.own)+len(had.devices) > 0 || had.move.state != idle {
		a.deps.Places.Release(r.Pod.UID)
	}
}

// placeAgain repeats a request without an answer.
func (a *registry) placeAgain(r *record) {
	if r.place.state == asked {
		a.ask(r)
	}
	if s := r.place.move.state; s == requested || s == releasing {
		a.sendMove(r)
	}
}

func (a *registry) ask(r *record) {
	if a.deps.Places.Resizes {
		r.place.entitled = decide.Entitled(r.allocated())
	}
	a.deps.Places.Place(assignments.Place{
		Pod: claims.WithoutBacked(r.allocated()), Number: r.place.number, Runs: r.place.runs, Down: r.place.down,
	})
}

// tellLiving tells assignments once which pods there are, when all sources have reported.
func (a *registry) tellLiving() {
	if a.deps.Places == nil || a.places.told || !a.ready() || !a.allSeen() {
		return
	}
	a.places.told = true
	living := map[types.UID]bool{}
	for uid, r := range a.of { // order-free: a set
		living[uid] = r.State == podset.Waiting || r.occupies()
	}
	a.deps.Places.Living(living)
}
