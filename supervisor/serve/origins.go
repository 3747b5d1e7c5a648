package serve

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// origins are the strangers by where they come from. The first is the address that holds the most connections, of
// several the one whose oldest came first: a flood of strangers has each of them ask for it, under the lock that each
// request of a known client takes as well.
type origins struct {
	of     map[netip.Prefix]*address
	inTurn byMost
}

// address are the strangers of one origin, the oldest first.
type address struct {
	guests list.List
	at     int // its place in byMost
}

func (a *address) oldest() *guest { return a.guests.Front().Value.(*guest) }

// add adds the newest of all strangers.
func (o *origins) add(g *guest) {
	a := o.of[g.origin]
	if a == nil {
		a = &address{}
		g.place = a.guests.PushBack(g)
		o.of[g.origin] = a
		heap.Push(&o.inTurn, a)
		return
	}
	g.place = a.guests.PushBack(g)
	heap.Fix(&o.inTurn, a.at)
}

// remove removes a stranger that was added.
func (o *origins) remove(g *guest) {
	a := o.of[g.origin]
	a.guests.Remove(g.place)
	if a.guests.Len() == 0 {
		delete(o.of, g.origin)
		heap.Remove(&o.inTurn, a.at) // it compares none with the one that goes, which has no oldest guest
		return
	}
	heap.Fix(&o.inTurn, a.at)
}

// oldestOfMost is the oldest stranger of the address that holds the most. There must be one.
func (o *origins) oldestOfMost() *guest { return o.inTurn[0].oldest() }

// byMost is a heap of addresses.
type byMost []*address

// Len implements heap.Interface.
func (b byMost) Len() int { return len(b) }

// Less implements heap.Interface.
func (b byMost) Less(i, j int) bool {
	x, y := b[i], b[j]
	if x.guests.Len() != y.guests.Len() {
		return x.guests.Len() > y.guests.Len()
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
