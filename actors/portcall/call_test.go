package portcall_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// caller is an actor that begins calls as it starts, and notes what it is told.
type caller struct {
	begin func(ctx *kernel.Context[string])
	heard []string
}

func (c *caller) Start(ctx *kernel.Context[string]) { c.begin(ctx) }

func (c *caller) Receive(_ *kernel.Context[string], m string) { c.heard = append(c.heard, m) }

// run lets an actor make its calls, for a minute.
func run(t *testing.T, begin func(ctx *kernel.Context[string])) []string {
	t.Helper()
	r, c := actortest.New(t), &caller{begin: begin}
	actortest.Spawn(r, kernel.Spec[string]{Name: "caller", MailboxLimit: 8, Policy: kernel.ForPods,
		New: func() kernel.Behavior[string] { return c }})
	r.Advance(time.Minute)
	return c.heard
}

func TestDo(t *testing.T) {
	got := run(t, func(ctx *kernel.Context[string]) {
		say := func(_ kernel.EffectID, n int, err error) string {
			return fmt.Sprint(n, " ", port.KindOf(err), " ", err)
		}
		e := kernel.Effect[string]{Kind: "Count", Object: "app", Lane: "a", Deadline: 30 * time.Second}
		portcall.Do(ctx, e, func(_ context.Context, done func(int, error)) { done(7, nil) }, say)
		portcall.Do(ctx, e, func(_ context.Context, done func(int, error)) {
			done(8, &port.Error{Kind: port.NotFound, Verb: "Count", Object: "app", Detail: "none"})
		}, say)
		portcall.Do(ctx, e, func(context.Context, func(int, error)) {}, say) // keeps silent
		e.Lane = "b"
		portcall.Do0(ctx, e, func(_ context.Context, done func(error)) { done(errors.New("no")) },
			func(_ kernel.EffectID, err error) string { return err.Error() })
	})
	slices.Sort(got)
	want := []string{
		"0 deadline exceeded Count app: deadline exceeded: no answer within 30s", "7 error <nil>", "8 not found Count app: not found: none", "no",
	}
	check.Same(t, got, want, "got")
}

// streams plays an apiserver that tells of one change and ends the watch.
type streams struct{}

func (streams) Watch(_ context.Context, _ port.Selection, changed func(port.APIChange), ended func(error)) {
	changed(port.APIDeleted{})
	ended(errors.New("over"))
}

func TestWatch(t *testing.T) {
	got := run(t, func(ctx *kernel.Context[string]) {
		e := kernel.Effect[string]{Kind: "Watch", Object: "pods"}
		portcall.Watch(ctx, e, 1, streams{}, port.Selection{Kind: port.PodKind},
			func(_ kernel.EffectID, c port.APIChange) string { return fmt.Sprintf("%T", c) },
			func(_ kernel.EffectID, err error) string { return err.Error() })
	})
	check.Same(t, got, []string{"port.APIDeleted", "over"}, "got")
}
