package child

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// taken is a child that has its turn, and its turn.
type taken struct {
	pod string
	*Turn
}

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q, got := NewTurns(2, 3), make(chan taken, 100)
		ask := func(pods string) {
			for pod := range strings.FieldsSeq(pods) {
				go func() {
					if turn, err := q.Wait(ctx, pod); err == nil {
						got <- taken{pod, turn}
					}
				}()
				synctest.Wait()
			}
		}
		var all []taken
		want := func(pods, why string) {
			t.Helper()
			synctest.Wait()
			var names []string
			for len(got) > 0 {
				b := <-got
				all, names = append(all, b), append(names, b.pod)
			}
			slices.Sort(names) // those of one moment
			check.Equal(t, strings.Join(names, " "), pods, "%s: begin", why)
		}
		rest := func(from, to int) {
			for _, b := range all[from:to] {
				b.rest()
				b.rest() // once
			}
		}
		ask("a a a a b")
		want("a a b", "two of a pod, and who came last")
		rest(0, 3)
		want("", "a has its share")
		ask("b c c")
		want("c", "three live: a pod has one, and who has none is not refused")
		all[0].gone()
		all[0].gone()
		want("", "three live: a and b have one")
		all[2].gone()
		want("b", "fewer than three: who has the fewest")
		rest(3, 5)
		want("", "three live")
		for _, b := range all {
			b.gone()
		}
		want("a a c", "all are gone")
		cancel()
		rest(0, len(all))
		for _, b := range all {
			b.gone()
		}
		synctest.Wait()
		check.Equal(t, fmt.Sprint(q.free, q.all, len(q.alive), len(q.waiting)), "4 0 0 0", "at the end")
	})
}

// Whoever has no turn until its deadline is told why, before the call just ends.
func TestTurnsSayWhatTheyWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewTurns(1, 0)
		first := check.Value(q.Wait(t.Context(), "a"))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		began := time.Now()
		_, err := q.Wait(ctx, "a")
		check.Says(t, err, "at most 1 volumes of a pod are tried at once", "a second one")
		check.Equal(t, time.Since(began), 2*time.Minute-sayEarly, "it waited")
		first.Back()
		check.Value(q.Wait(ctx, "a"))(t).Back()
	})
}
