package cri

import (
	"context"
	"slices"
	"sync"
	"time"
)

// takeAnswer waits for the turn to receive an answer, whose header is there, and returns what gives it back.
//
// A runtime may send headers long before answers. Then a command that hangs has the turn, and the bound is given up:
// answers are received at once until the runtime goes away. It shows in a turn that goes on for too long while another
// answer waits.
func (c *Client) takeAnswer(ctx context.Context, container string) (give func()) {
	if c.headersFirst.Load() {
		return func() {}
	}
	w := c.execAnswers.wait(container)
	for begun := c.execAnswers.number(); ; begun = c.execAnswers.number() {
		select {
		case <-w.begins:
			return c.execAnswers.give
		case <-ctx.Done():
			c.execAnswers.leave(w)
			return func() {}
		case <-time.After(c.answerPatience):
			if c.execAnswers.number() == begun {
				c.headersFirst.Store(true)
			}
			if c.headersFirst.Load() {
				c.execAnswers.leave(w)
				return func() {}
			}
		}
	}
}

// answerTurns is the turn to receive a long answer. Containers have it one after the other, so that no container with
// many answers holds up the one of another.
type answerTurns struct {
	mu sync.Mutex
	// free is how many may be received now, and begun how many turns there were.
	free, begun int
	// waiting are those that wait, by container, in order; containers are those that have some, the next one first.
	waiting    map[string][]*answerTurn
	containers []string
}

// answerTurn is of one that waits. begins is closed when it has its turn.
type answerTurn struct {
	container string
	begins    chan struct{}
}

func newAnswerTurns(atOnce int) *answerTurns {
	return &answerTurns{free: atOnce, waiting: map[string][]*answerTurn{}}
}

func (a *answerTurns) number() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

func (a *answerTurns) wait(container string) *answerTurn {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &answerTurn{container, make(chan struct{})}
	if a.waiting[container] = append(a.waiting[container], w); len(a.waiting[container]) == 1 {
		a.containers = append(a.containers, container)
	}
	a.next()
	return w
}

// next gives the turn to whoever is next, if it is free.
func (a *answerTurns) next() {
	for a.free > 0 && len(a.containers) > 0 {
		container := a.containers[0]
		w := a.waiting[container][0]
		a.remove(w)
		if len(a.waiting[container]) > 0 { // after the others
			a.containers = append(slices.Delete(a.containers, 0, 1), container)
		}
		a.free--
		a.begun++
		close(w.begins)
	}
}

// remove takes an answer out of those that wait, and reports whether it was there.
func (a *answerTurns) remove(w *answerTurn) bool {
	all := a.waiting[w.container]
	i := slices.Index(all, w)
	if i < 0 {
		return false
	}
	if a.waiting[w.container] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(a.waiting, w.container)
		i = slices.Index(a.containers, w.container)
		a.containers = slices.Delete(a.containers, i, i+1)
	}
	return true
}

// leave is for one that waits no longer.
func (a *answerTurns) leave(w *answerTurn) {
	a.mu.Lock()
	waited := a.remove(w)
	a.mu.Unlock()
	if !waited {
		a.give()
	}
}

// give gives the turn back.
func (a *answerTurns) give() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free++
	a.next()
}
