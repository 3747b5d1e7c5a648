package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podset"
)

// busiest is how many messages the actors of a node may handle at one instant. An agent that finds
// six pods has some hundreds.
const busiest = 10_000

var messagesArrive = rule{
	Rule: Rule{
		ID: "I18",
		Text: fmt.Sprintf("Each message reaches its actor, no mailbox overflows, and at one instant of a clock that stands "+
			"at most %d messages are handled.", busiest),
		Excuses: "A message may find no actor after an actor crashed or an agent was killed, and if it is late. " +
			"The answer to a call that was given up with its pod.",
	},
	handled: func(n *Node) string {
		if n.timely && n.messages == busiest+1 { // told once
			return fmt.Sprintf("%d messages were handled at one instant", n.messages)
		}
		return ""
	},
}

// instant counts the messages that are handled at one instant.
type instant struct {
	at       time.Time
	messages int
}

// handle counts a message.
func (i *instant) handle(now time.Time) {
	if !now.Equal(i.at) {
		i.at, i.messages = now, 0
	}
	i.messages++
}

// Handled: an actor of the agent has handled a message. Only some tell something.
func (n *Node) Handled(m any) {
	n.handle(n.now())
	for i := range rules {
		if f := rules[i].handled; f != nil {
			if what := f(n); what != "" {
				n.violated(&rules[i], nil, what)
			}
		}
	}
	if f, is := m.(podset.Forced); is && n.pods[f.UID] != nil {
		n.endsIn(n.pods[f.UID], leastGrace)
	}
	if r, is := m.(podset.Remade); is {
		for _, uid := range r.UIDs {
			if p := n.pods[uid]; p != nil && p.spec != nil {
				n.endsIn(p, podspec.Grace(p.spec)) // it ends, though its source has not said so
			}
		}
	}
	if w, is := m.(podset.Wanted); is {
		n.Told(w.Source, w.Pods)
		if w.Seen && !w.Unread && !w.Unsure {
			n.reported(w.Source)
		}
	}
}

// Undelivered: so many messages were for actors that there are no more, or for mailboxes that were full.
func (n *Node) Undelivered(dead, dropped uint64) {
	switch {
	case dropped > 0:
		n.violated(&messagesArrive, nil, fmt.Sprintf("full mailboxes have dropped %d messages", dropped))
	case dead > 0 && n.timely && n.crashedAt.IsZero() && n.still.IsZero() && n.agents < 2:
		n.violated(&messagesArrive, nil, fmt.Sprintf("%d messages were for actors that had ended", dead))
	}
}
