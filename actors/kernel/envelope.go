package kernel

import (
	"reflect"
	"strings"
)

// Keyed is a message of which only the newest counts: while one of the same
// type and key waits in the mailbox, a newer one takes its place in the queue,
// and its age.
type Keyed interface{ MailboxKey() string }

// mailboxKey is by what Keyed messages are told apart. Those of timers are
// apart from those of others, because they die with their incarnation.
type mailboxKey struct {
	sort  reflect.Type
	key   string
	timer uint32
}

// envelope is a message in a mailbox.
type envelope struct {
	msg any
	// key is that of a Keyed message, which keyed says that it is.
	key string
	// at is when it came, in Unix nanoseconds.
	at int64
	// timer is the incarnation that set the timer which sent it; 0 for none.
	timer uint32
	keyed bool
}

// index is what a Keyed message is found by.
func (e *envelope) index() mailboxKey {
	return mailboxKey{reflect.TypeOf(e.msg), e.key, e.timer}
}

// owed says that the actor asked for this message itself, by a timer or an
// effect: as many as it asks for come, and a full mailbox does not drop them.
func (e *envelope) owed() bool {
	if e.timer != 0 {
		return true
	}
	switch e.msg.(type) {
	case result, *effectPanic:
		return true
	}
	return false
}

// payload is the message as its sender and receiver know it.
func (e *envelope) payload() any {
	if r, ok := e.msg.(result); ok {
		return r.payload()
	}
	return e.msg
}

// messageName is the type of a message as people read it: podactor.Observed.
func messageName(m any) string {
	switch m := m.(type) {
	case nil:
		return "nil"
	case result:
		return messageName(m.payload())
	case *effectPanic:
		return m.what
	}
	return strings.TrimPrefix(reflect.TypeOf(m).String(), "*")
}
