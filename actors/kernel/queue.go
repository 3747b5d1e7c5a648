package kernel

import "reflect"

// queue holds the waiting messages of a mailbox. An idle actor has none, because a simulation has
// 150,000 of them.
type queue struct {
	// user[head:] waits. first is the number of user[head], counted since the queue was made; keyed
	// holds such numbers.
	user  []envelope
	head  int
	first uint64
	// keyed finds waiting Keyed messages by their keys. It is nil while the queue is short enough for
	// a search.
	keyed map[mailboxKey]uint64
}

const (
	// indexFrom is the length from which an index of keys pays.
	indexFrom = 12
	// keepQueue is the largest capacity of a queue that is kept for reuse.
	keepQueue = 64
)

// depth is the number of waiting messages. A nil queue is empty.
func (q *queue) depth() int {
	if q == nil {
		return 0
	}
	return len(q.user) - q.head
}

// oldest is when the first message arrived, in Unix nanoseconds. The queue must not be empty.
func (q *queue) oldest() int64 { return q.user[q.head].at }

// find returns the waiting Keyed message with e's type, key and timer.
func (q *queue) find(e *envelope) *envelope {
	if q == nil {
		return nil
	}
	if q.keyed != nil {
		if n, waits := q.keyed[e.index()]; waits {
			return &q.user[q.head+int(n-q.first)]
		}
		return nil
	}
	sort := reflect.TypeOf(e.msg)
	for i := q.head; i < len(q.user); i++ {
		if w := &q.user[i]; w.keyed && w.key == e.key && w.timer == e.timer && reflect.TypeOf(w.msg) == sort {
			return w
		}
	}
	return nil
}

func (q *queue) push(e envelope) {
	q.user = append(q.user, e)
	switch {
	case q.keyed != nil:
		if e.keyed {
			q.keyed[e.index()] = q.first + uint64(len(q.user)-1-q.head)
		}
	case len(q.user)-q.head >= indexFrom:
		q.keyed = map[mailboxKey]uint64{}
		for i := q.head; i < len(q.user); i++ {
			if w := &q.user[i]; w.keyed {
				q.keyed[w.index()] = q.first + uint64(i-q.head)
			}
		}
	}
}

func (q *queue) pop() envelope {
	e := q.user[q.head]
	q.user[q.head] = envelope{}
	q.head++
	q.first++
	if e.keyed && q.keyed != nil {
		delete(q.keyed, e.index())
	}
	switch {
	case q.head == len(q.user):
		q.user, q.head, q.keyed = q.user[:0], 0, nil
	case q.head > keepQueue && q.head*2 > len(q.user):
		n := copy(q.user, q.user[q.head:])
		clear(q.user[n:])
		q.user, q.head = q.user[:n], 0
	}
	return e
}

// lendQueue gives an empty queue.
func (s *System) lendQueue() *queue {
	if q, ok := s.queues.Get().(*queue); ok {
		return q
	}
	return &queue{}
}

// returnQueue takes back an empty queue.
func (s *System) returnQueue(q *queue) {
	if cap(q.user) <= keepQueue {
		s.queues.Put(q)
	}
}
