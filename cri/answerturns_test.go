package cri

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestAnswersOfContainersInTurn: the answer of a container is received after at most one of each other container,
// however many there are that came before. One that waits no longer keeps nobody waiting.
func TestAnswersOfContainersInTurn(t *testing.T) {
	a := newAnswerTurns(1)
	a.wait("first")
	var all []*answerTurn
	for _, container := range strings.Fields("greedy greedy greedy greedy plain other plain") {
		all = append(all, a.wait(container))
	}
	a.leave(all[1])
	var order []string
	for range len(all) - 1 {
		a.give()
		for i, w := range all {
			select {
			case <-w.begins:
				order = append(order, w.container)
				all[i] = &answerTurn{}
			default:
			}
		}
	}
	check.Equal(t, strings.Join(order, " "), "greedy plain other greedy plain greedy", "the order")
	a.give()
	check.Equal(t, a.free, 1, "turns that are left")
	late := a.wait("late")
	a.leave(late) // it had its turn meanwhile
	check.Equal(t, a.free, 1, "turns that are left after one that was given back")
	check.Equal(t, len(a.waiting)+len(a.containers), 0, "what is kept of those that are gone")
}
