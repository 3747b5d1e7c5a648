// Package patience is how long a node's client of the apiserver waits: until it counts a connection as dead, and
// before a broken watch retries. The real client (apiclient/kube) and the simulated one (apiclient/simapi) wait
// for the same time, so what a simulation says about an outage is true of a real node.
package patience

import (
	"time"

	"github.com/troupe-dev/troupe/actors/port"
)

// How long it may take to detect that the apiserver does not answer. An agent must be back within
// 5 s of its apiserver, but a connection that died silently (a cable, a firewall, a host without
// power) gives no sign.
//
// While packets are lost, TCP resends at growing intervals: after an outage of length t the next
// resend is up to t away. So what was lost for t < ReadIdle+Ping comes back within t of the end
// of the outage, or when the connection is detected as dead, whichever is first: at worst half of
// the two together, 4 s. client-go's own 30 s + 15 s would make it 22 s. A ping costs next to
// nothing, and is sent only on a silent connection.
//
// A lost SYN is resent after 1, 3, 7, 15 s. A dial that restarts after 3 s is never more than 2 s
// from its next packet; client-go's 30 s could be 8 s away.
const (
	ReadIdle = 5 * time.Second
	Ping     = 3 * time.Second
	Dial     = 3 * time.Second
)

// growth is a pause that doubles with each failure, up to most. Half of it may be added at random.
type growth struct{ first, most time.Duration }

// How long a watch waits before it retries. client-go waits up to 60 s, to protect an apiserver
// from many clients; an agent must be back within 5 s. So the pause depends on the failure:
//
//   - No answer: at most 1.5 s. There is no apiserver to overload. When it is back, all is read
//     again within 5 s, including a lost dial and the list.
//   - The apiserver refused (the credential has expired, the node may not): up to 22 s. Each
//     request costs the apiserver something, and frequent ones gain nothing.
//   - It answered with an internal error (its store does not answer), with overload, or with
//     an answer that is not an apiserver's: at most 3 s for the pods and the node itself,
//     which have one watch each; for all others as if it had refused.
var (
	silent  = growth{100 * time.Millisecond, time.Second}
	broken  = growth{250 * time.Millisecond, 2 * time.Second}
	refused = growth{500 * time.Millisecond, 15 * time.Second}
)

// Settled is how long a watch must have worked before its next pause is the shortest again.
const Settled = 10 * time.Second

// Pauses are those of one watch. The zero value is that of a watch that has not failed yet.
type Pauses struct{ silent, broken, refused uint8 }

// Next is the pause of a watch for a kind of object that lasted so long and ended with an error of that kind;
// failed is false for an end without an error, such as an expired history (410). random gives a number from 0
// to n, exclusively.
func (p *Pauses) Next(
	of port.APIKind, failed bool, kind port.ErrorKind, lasted time.Duration, random func(n int64) int64,
) time.Duration {
	if lasted >= Settled {
		*p = Pauses{}
	}
	switch {
	case !failed, kind == port.Unavailable, kind == port.Deadline:
		return silent.next(&p.silent, random)
	case kind == port.Other, kind == port.TooManyRequests, kind == port.Unsupported:
		if of == port.PodKind || of == port.NodeKind {
			return broken.next(&p.broken, random)
		}
		return refused.next(&p.broken, random)
	default:
		return refused.next(&p.refused, random)
	}
}

func (g growth) next(failures *uint8, random func(n int64) int64) time.Duration {
	d := g.first << *failures
	if d >= g.most {
		d = g.most
	} else {
		*failures++
	}
	return d + time.Duration(random(int64(d/2)+1))
}
