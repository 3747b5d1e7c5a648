package images

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// A pod may want thousands of images. It has one turn at a time (registryPullQPS), so that another pod waits for one of
// its pulls and not for all. Its images wait in turns: the first has the turn, the others come one after the other.

// mayTurn says whether an image may have a turn now, as the first one of a pod that waits for it.
func (a *images) mayTurn(i *image, waiters []*imagepull.Waiter) (may bool) {
	for _, w := range waiters {
		of := w.Pod.UID
		if !slices.Contains(i.turnOf, of) {
			i.turnOf = append(i.turnOf, of)
			a.turns[of] = append(a.turns[of], i.Name)
		}
		may = may || a.turns[of][0] == i.Name
	}
	return may || i.Stage == imagepull.Queued
}

// turn says whether it is the turn of an image to be pulled. If not, it gets one.
func (a *images) turn(ctx *kernel.Context[Message], i *image, waiters []*imagepull.Waiter) bool {
	now := ctx.Now()
	if i.Stage != imagepull.Queued {
		i.Queue(a.bucket.Turn(now))
		if wait := i.TurnAt.Sub(now); wait >= toldDelay {
			for _, w := range waiters {
				a.event(ctx, w, false, "PullDelayed", fmt.Sprintf("Image %q is pulled in %v: pull QPS exceeded "+
					"(registryPullQPS, registryBurst)", i.Name, wait.Round(time.Millisecond)))
			}
		}
	}
	return !now.Before(i.TurnAt)
}

// toldDelay is how long a pull waits for its turn without people being told.
const toldDelay = time.Second

// passTurn ends the turns that pods have with an image: each goes to the next image of its pod. still says which pods
// keep theirs. Nil: none does, as the image is being pulled, or can't be looked for.
func (a *images) passTurn(ctx *kernel.Context[Message], i *image, still func(types.UID) bool) {
	var pods []types.UID
	i.turnOf = slices.DeleteFunc(i.turnOf, func(of types.UID) bool {
		left := still == nil || !still(of)
		if left {
			pods = append(pods, of)
		}
		return left
	})
	for _, of := range pods {
		if q := a.turns[of]; len(q) > 0 && q[0] == i.Name {
			a.nextTurn(ctx, of)
		}
	}
}

// leaveTurn ends the turns of pods that do not want an image any more, or have it. Other pods may wait for it much
// longer: for the end of a backoff, or until it comes by other means.
func (a *images) leaveTurn(ctx *kernel.Context[Message], i *image) {
	if len(i.turnOf) == 0 {
		return
	}
	waits := map[types.UID]bool{}
	for _, w := range i.Waiting {
		waits[w.Pod.UID] = true
	}
	a.passTurn(ctx, i, func(of types.UID) bool { return waits[of] })
}

// nextTurn gives the turn of a pod to the next of its images that wants one.
func (a *images) nextTurn(ctx *kernel.Context[Message], of types.UID) {
	for q := a.turns[of][1:]; len(q) > 0; q = q[1:] {
		next := a.of[q[0]]
		if next == nil || !slices.Contains(next.turnOf, of) {
			continue
		}
		a.turns[of] = q
		if next.Stage != imagepull.Queued {
			a.advance(ctx, next)
		}
		if !slices.Contains(next.turnOf, of) || next.Stage == imagepull.Queued || next.Look == imagepull.Looking {
			return // it has had the turn, has it, or is looked for first
		}
		next.leaveTurns(of)
	}
	delete(a.turns, of)
}

func (i *image) leaveTurns(of types.UID) {
	i.turnOf = slices.DeleteFunc(i.turnOf, func(o types.UID) bool { return o == of })
}

// forgetTurns gives up the turns of a pod that is gone.
func (a *images) forgetTurns(of types.UID) {
	for _, name := range a.turns[of] {
		if i := a.of[name]; i != nil {
			i.leaveTurns(of)
		}
	}
	delete(a.turns, of)
}

// pullsFor notes for whom an image is being pulled, nil for nobody. It says how many others are for the same pod: the
// slots for pulls go to the pod with the fewest.
func (a *images) pullsFor(i *image, p *v1.Pod) (others int64) {
	if i.pullsOf != "" {
		if a.pulls[i.pullsOf]--; a.pulls[i.pullsOf] == 0 {
			delete(a.pulls, i.pullsOf)
		}
	}
	if i.pullsOf = ""; p == nil {
		return 0
	}
	i.pullsOf = p.UID
	a.pulls[p.UID]++
	return a.pulls[p.UID] - 1
}
