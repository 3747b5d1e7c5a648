package timeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/tests/check"
)

type word struct{ stop bool }

type listener struct{}

func (listener) Start(*kernel.Context[word]) {}

func (listener) Receive(ctx *kernel.Context[word], m word) {
	if m.stop {
		ctx.Stop()
	}
}

// TestWhoSentADeadLetter: the function that told an actor which is no more, and
// nobody for what that had not read.
func TestWhoSentADeadLetter(t *testing.T) {
	recorder := check.Value(timeline.New(timeline.Default("n")))(t)
	clock := kernel.NewVirtual(1, time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	system := check.Value(kernel.NewSystem(kernel.Config{Clock: clock, Seed: 1, Log: zerolog.Nop(), Tracer: recorder}))(t)
	ref, err := kernel.SpawnRoot(system, kernel.Spec[word]{Name: "n", New: func() kernel.Behavior[word] { return listener{} }, Policy: kernel.ForRoot})
	if err != nil {
		t.Fatal(err)
	}
	clock.Settle()
	ref.Tell(word{stop: true})
	ref.Tell(word{})
	clock.Settle()
	ref.Tell(word{})
	all := recorder.Letters()
	if len(all) != 2 || all[0].From != "" || all[1].From != "supervisor/timeline_test.TestWhoSentADeadLetter" ||
		all[1].To != "n" || all[1].Type != "timeline_test.word" {
		t.Errorf("%+v", all)
	}
	check.Fatal(t, system.Shutdown(context.Background()))
}
