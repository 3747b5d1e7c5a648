package serve

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// origins are the unauthenticated connections by remote address. The first is the address that holds the most
// connections, of several the one whose oldest came first: in a flood each new connection asks for it, under the lock
// that each request of an authenticated client takes as well.
type origins struct {
	of     map[netip.Prefix]*address
	inTurn byMost
}

// address are the unauthenticated connections of one origin, the oldest first.
type address struct {
	conns list.List
	at    int // its place in byMost
}

func (a *address) oldest() *limitedConn { return a.conns.Front().Value.(*limitedConn) }

// add adds the newest of all connections.
func (o *origins) add(g *limitedConn) {
	a := o.of[g.origin]
	if a == nil {
		a = &address{}
		g.element = a.conns.PushBack(g)
		o.of[g.origin] = a
		heap.Push(&o.inTurn, a)
		return
	}
	g.element = a.conns.PushBack(g)
	heap.Fix(&o.inTurn, a.at)
}

// remove removes a connection that was added.
func (o *origins) remove(g *limitedConn) {
	a := o.of[g.origin]
	a.conns.Remove(g.element)
	if a.conns.Len() == 0 {
		delete(o.of, g.origin)
		heap.Remove(&o.inTurn, a.at) // it compares none with the one that goes, which has no oldest connection
		return
	}
	heap.Fix(&o.inTurn, a.at)
}

// oldestOfMost is the oldest connection of the address that holds the most. There must be one.
func (o *origins) oldestOfMost() *limitedConn { return o.inTurn[0].oldest() }

// byMost is a heap of addresses.
type byMost []*address

// Len implements heap.Interface.
func (b byMost) Len() int { return len(b) }

// Less implements heap.Interface.
func (b byMost) Less(i, j int) bool {
	x, y := b[i], b[j]
	if x.conns.Len() != y.conns.Len() {
		return x.conns.Len() > y.conns.Len()
	}
	return x.oldest().number < y.oldest().number
}

// Swap implements heap.Interface.
func (b byMost) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].at, b[j].at = i, j
}

// Push implements heap.Interface.
func (b *byMost) Push(x any) {
	a := x.(*address)
	a.at = len(*b)
	*b = append(*b, a)
}

// Pop implements heap.Interface.
func (b *byMost) Pop() any {
	old := *b
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*b = old[:len(old)-1]
	return last
}
