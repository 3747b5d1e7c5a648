package kernel

import (
	"strconv"
	"sync"
)

// Published is a value that one actor owns and others follow, such as what a node has for pods. Nobody asks for it,
// and nobody misses it: each follower receives it as a message of its own, in Receive, and again after each of its
// restarts.
//
//	owner ──Publish──► value ──a message──► each follower, in the order in which they were spawned
//	                     └─────a message──► a follower that starts or restarts, if there is a value
//
// Only the newest value counts. What waits in a mailbox is only that there is a newer one: which one is found when the
// message is received, so a full mailbox drops none, and no follower goes back to an older one. While the owner is
// restarting, the last value stays. The zero Published has none yet.
type Published[T any] struct {
	mu        sync.Mutex
	value     T
	is        bool
	followers []interface{ tell() }
}

// Publish replaces the value, and tells all followers. Only the owner calls it, while it handles a message. The value
// is never changed afterwards.
func (p *Published[T]) Publish(v T) {
	p.mu.Lock()
	p.value, p.is = v, true
	all := p.followers // which are only ever added to
	p.mu.Unlock()
	for _, f := range all {
		f.tell()
	}
}

// Subscription is that of one actor to one value: see Spec.Follows.
type Subscription[M any] interface{ follow(c *cell, key string) }

// Follow makes a subscription, for the Spec of one actor. as makes the message with which the actor is told of a value;
// it must only do that.
func Follow[T, M any](p *Published[T], as func(T) M) Subscription[M] {
	return &subscription[T, M]{of: p, as: as}
}

// news are what waits in the mailbox of a follower: newest is the message for the value as it is now.
type news interface{ newest() any }

type subscription[T, M any] struct {
	of *Published[T]
	as func(T) M
	// to is who follows, nil until it is spawned, and key which of its values this is.
	to  *cell
	key string
}

// follow is called when the follower is spawned, and at each start.
func (s *subscription[T, M]) follow(c *cell, key string) {
	p := s.of
	p.mu.Lock()
	if s.to == nil {
		s.to, s.key, p.followers = c, key, append(p.followers, s)
	}
	is := p.is
	p.mu.Unlock()
	if is {
		c.deliver(envelope{msg: s})
	}
}

func (s *subscription[T, M]) tell() { s.to.send(envelope{msg: s}) }

// MailboxKey implements Keyed: one that waits is enough.
func (s *subscription[T, M]) MailboxKey() string { return s.key }

func (s *subscription[T, M]) newest() any {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.as(s.of.value)
}

// reader is how an actor that follows values is made.
type reader[M any] struct {
	construct func() Behavior[M]
	follows   []Subscription[M]
}

func (r *reader[M]) follow(c *cell) {
	for i, s := range r.follows {
		s.follow(c, strconv.Itoa(i))
	}
}

// construct makes the behavior of this incarnation, which then receives all that it follows.
func (a *adapter[M]) construct() Behavior[M] {
	if r, ok := a.cell.construct.(*reader[M]); ok {
		r.follow(a.cell)
		return r.construct()
	}
	return a.cell.construct.(func() Behavior[M])()
}
