package actortest_test

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// word is a message with a text, and ended the result of a call.
type (
	word  struct{ Text string }
	ended struct{}
	talk  interface{ isTalk() }
)

func (word) isTalk()  {}
func (ended) isTalk() {}

// teller passes words on, and makes a call of each.
type teller struct{ to kernel.Ref[talk] }

func (*teller) Start(*kernel.Context[talk]) {}

func (a *teller) Receive(ctx *kernel.Context[talk], m talk) {
	w, is := m.(word)
	if !is {
		return
	}
	a.to.Tell(w)
	ctx.Do(kernel.Effect[talk]{Kind: "Say", Object: w.Text, Lane: w.Text, Deadline: time.Minute,
		Run:     func(_ context.Context, _ kernel.EffectID, done func(talk)) { done(ended{}) },
		Expired: func(kernel.EffectID) talk { return ended{} }})
}

// TestConversation: what an actor hears, calls and says is written down, and nothing of others; what is repeated once.
func TestConversation(t *testing.T) {
	c := actortest.NewConversation("a")
	c.Know("b", "the other")
	r := actortest.New(t, func(k *kernel.Config) {
		k.Tracer = c
		k.Intercept = func(from, to string, m any) kernel.Fate {
			c.Sent(from, to, m)
			return kernel.Fate{}
		}
	})
	spawn := func(name string, to kernel.Ref[talk]) kernel.Ref[talk] {
		return actortest.Spawn(r, kernel.Spec[talk]{Name: name, New: func() kernel.Behavior[talk] { return &teller{to} }}).Ref
	}
	a := spawn("a", spawn("b", spawn("c", kernel.Ref[talk]{})))
	tells := func(text string) {
		spawn("from-"+text, a).Tell(word{text})
		r.Settle()
	}
	tells("x")
	const x = "from-x ──word──► a: text x\na ──word──► the other: text x\na calls Say x\nanswer of Say x: done\n"
	check.Equal(t, c.String(), x, "of one word")
	c.Without = []string{"Say"}
	for range 2 {
		a.Tell(word{"y"})
		r.Settle()
	}
	const y = "· ──word──► a: text y\na ──word──► the other: text y (2 times, with the line before)\n"
	check.Equal(t, c.String(), x+y, "and of another, twice")
	c.From = time.Hour
	tells("z")
	check.Equal(t, c.String(), x+y, "nothing is added before its time")
	c.From, c.To = 0, time.Minute
	r.Advance(time.Hour)
	tells("late")
	check.Equal(t, c.String(), x+y, "nor after it")
}
