package actortest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Conversation writes down what one actor hears, calls and says, a line for each, in words that are the same in each
// run. It is the tracer of a system of which Config.Intercept calls Sent.
//
//	pods ──Assign──► pod web: pod web, rank 1              a message that it hears, or one that it sends
//	· ──Wake──► pod web                                    its own timer, a stream, or whoever is no actor
//	pod web calls RunPodSandbox web                        a call begins
//	answer of RunPodSandbox web: new id #1                 and is answered
type Conversation struct {
	// Actor is whose it is: images, or pod web.
	Actor string
	// From and To are the times after the start between which it is written down; To is zero for no end.
	From, To time.Duration
	// Without are kinds of messages and calls that are left out.
	Without []string
	words
	begun, now time.Time
	// senders are those of messages on their way, by the receiver and the type, in order.
	senders map[[2]string][]string
	// answered are the calls of the actor whose results are on their way.
	answered []kernel.EffectInfo
	lines    []line
}

// line is one of a conversation. times is how often in a row it came, pairs how often in a row it came with the one before.
type line struct {
	text         string
	times, pairs int
}

// NewConversation makes one that is empty.
func NewConversation(actor string) *Conversation {
	return &Conversation{Actor: actor, words: words{names: map[string]string{}}, senders: map[[2]string][]string{}}
}

// Know gives a name to an ID, or to the last part of the path of an actor.
func (c *Conversation) Know(id, name string) { c.names[id] = name }

// String is what was written down.
func (c *Conversation) String() string {
	var b strings.Builder
	for _, l := range c.lines {
		b.WriteString(l.text)
		if l.times > 1 {
			fmt.Fprintf(&b, " (%d times)", l.times)
		}
		if l.pairs > 1 {
			fmt.Fprintf(&b, " (%d times, with the line before)", l.pairs)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Sent is told of each message from one actor to another, by their paths, before it is on its way.
func (c *Conversation) Sent(from, to string, m any) {
	name, key := nameOf(m), [2]string{to, fmt.Sprintf("%T", m)}
	if _, keyed := m.(kernel.Keyed); keyed {
		c.senders[key] = nil // only the newest comes
	}
	c.senders[key] = append(c.senders[key], c.actorAt(from))
	if c.actorAt(from) == c.Actor {
		c.say(name, "%s ──%s──► %s%s", c.Actor, name, c.actorAt(to), c.of(m))
	}
}

// Deliver implements kernel.Tracer.
func (c *Conversation) Deliver(at time.Time, path, _ string, m any) {
	if c.begun.IsZero() {
		c.begun = at
	}
	c.now = at
	if m == nil { // Start and its like
		return
	}
	key, from := [2]string{path, fmt.Sprintf("%T", m)}, "·"
	if of := c.senders[key]; len(of) > 0 {
		from, c.senders[key] = of[0], of[1:]
	}
	if c.actorAt(path) != c.Actor {
		return
	}
	name := nameOf(m)
	if i := c.answers(m, from != "·"); i >= 0 {
		e := c.answered[i]
		c.answered = slices.Delete(c.answered, i, i+1)
		c.say(e.Kind, "answer of %s%s", c.call(&e), cmp.Or(c.of(m), ": done"))
		return
	}
	c.say(name, "%s ──%s──► %s%s", from, name, c.Actor, c.of(m))
}

// answers is which of the calls that have ended a message is the result of, -1 for none. One that does not say its
// number is that of the first, unless others may send it.
func (c *Conversation) answers(m any, sent bool) int {
	if o, is := m.(kernel.Outcome); is {
		id, _ := o.Outcome()
		return slices.IndexFunc(c.answered, func(e kernel.EffectInfo) bool { return e.ID == id })
	}
	if name := nameOf(m); sent || len(c.answered) == 0 || name == "" || strings.ToLower(name[:1]) != name[:1] {
		return -1
	}
	return 0
}

// Effect implements kernel.Tracer.
func (c *Conversation) Effect(at time.Time, path string, phase kernel.EffectPhase, e kernel.EffectInfo) {
	if c.now = at; c.actorAt(path) != c.Actor {
		return
	}
	switch phase {
	case kernel.EffectStarted:
		c.say(e.Kind, "%s calls %s", c.Actor, c.call(&e))
	case kernel.EffectFinished, kernel.EffectLate, kernel.EffectExpired:
		c.answered = append(c.answered, e)
	case kernel.EffectDropped:
		c.say(e.Kind, "%s gives up %s", c.Actor, c.call(&e))
	case kernel.EffectQueued:
	}
}

// Crash implements kernel.Tracer.
func (c *Conversation) Crash(_ time.Time, path string, r *kernel.CrashReport) {
	c.say("", "%s crashes: %s", c.actorAt(path), r)
}

// DeadLetter implements kernel.Tracer.
func (c *Conversation) DeadLetter(time.Time, string, string) {}

// actorAt is an actor by its path.
func (c *Conversation) actorAt(path string) string {
	parts := strings.Split(path, "/")
	name := c.plain(parts[len(parts)-1])
	if known := c.names[name]; known != "" {
		name = known
	}
	if len(parts) == 3 && parts[1] == "pods" {
		return "pod " + name
	}
	return name
}

func (c *Conversation) call(e *kernel.EffectInfo) string {
	return strings.TrimSpace(e.Kind + " " + c.plain(e.Object))
}

func (c *Conversation) say(kind, format string, args ...any) {
	at := c.now.Sub(c.begun)
	if at < c.From || c.To > 0 && at > c.To || slices.Contains(c.Without, kind) {
		return
	}
	text := fmt.Sprintf(format, args...)
	if n := len(c.lines); n > 0 && c.lines[n-1].text == text && c.lines[n-1].pairs == 1 {
		c.lines[n-1].times++
		return
	}
	c.lines = append(c.lines, line{text, 1, 1})
	if n := len(c.lines); n >= 4 && c.lines[n-4].text == c.lines[n-2].text && c.lines[n-3].text == text &&
		c.lines[n-4].times+c.lines[n-3].times+c.lines[n-2].times == 3 {
		c.lines = c.lines[:n-2]
		c.lines[n-3].pairs++
	}
}
