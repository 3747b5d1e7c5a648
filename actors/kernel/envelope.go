package kernel

import (
	"reflect"
	"strings"
)

// Keyed is a message of which only the newest counts. If one of the same type and key waits in the
// mailbox, the newer one replaces it and takes over its place in the queue and its age.
type Keyed interface{ MailboxKey() string }

// mailboxKey identifies a Keyed message. Messages of timers have keys of their own, because they
// die with their incarnation.
type mailboxKey struct {
	sort  reflect.Type
	key   string
	timer uint32
}

// envelope is a message in a mailbox.
type envelope struct {
	msg any
	// key is the key of a Keyed message.
	key string
	// at is when it arrived, in Unix nanoseconds.
	at int64
	// timer is the incarnation whose timer sent it; 0 for none.
	timer uint32
	keyed bool
}

// index is the key of a Keyed message in a queue.
func (e *envelope) index() mailboxKey {
	return mailboxKey{reflect.TypeOf(e.msg), e.key, e.timer}
}

// owed says that the actor asked for this message itself, by a timer, an effect or a subscription. Their number is
// bounded by what it asked for, so a full mailbox does not drop them.
func (e *envelope) owed() bool {
	if e.timer != 0 {
		return true
	}
	switch e.msg.(type) {
	case result, *effectPanic, news:
		return true
	}
	return false
}

// payload is the message without its wrapping as a result; nil for one of the kernel.
func (e *envelope) payload() any {
	switch m := e.msg.(type) {
	case result:
		return m.payload()
	case resync:
		return nil
	}
	return e.msg
}

// messageName is the type of a message in readable form: podactor.Observed.
func messageName(m any) string {
	switch m := m.(type) {
	case nil:
		return "nil"
	case result:
		return messageName(m.payload())
	case *effectPanic:
		return m.what
	case resync:
		return "Resync"
	}
	return strings.TrimPrefix(reflect.TypeOf(m).String(), "*")
}
