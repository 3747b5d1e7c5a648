package serve

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/linear"
)

// TestOldestOfMost: whoever comes and goes, it is the one that a search among all finds.
func TestOldestOfMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, number := origins{of: map[netip.Prefix]*address{}}, uint64(0)
		var there []*limitedConn
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				ip := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"}).Draw(t, "ip")
				number++
				g := &limitedConn{origin: origin(from(ip).from), number: number}
				o.add(g)
				there = append(there, g)
			},
			"go": func(t *rapid.T) {
				if len(there) > 0 {
					i := rapid.IntRange(0, len(there)-1).Draw(t, "who")
					o.remove(there[i])
					there = slices.Delete(there, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				of := map[netip.Prefix]int{}
				for _, g := range there {
					of[g.origin]++
				}
				if len(o.of) != len(of) || len(o.inTurn) != len(of) {
					t.Fatalf("%d addresses, and %d in turn, want %d", len(o.of), len(o.inTurn), len(of))
				}
				var want *limitedConn
				for _, g := range there { // the oldest first
					if want == nil || of[g.origin] > of[want.origin] {
						want = g
					}
				}
				if want != nil && o.oldestOfMost() != want {
					t.Fatalf("it is number %d, want %d", o.oldestOfMost().number, want.number)
				}
			},
		})
	})
}

// TestFloodIsLinear: a stranger costs the same however many are there, whether they come from one address or from
// everywhere: known clients wait for it.
func TestFloodIsLinear(t *testing.T) {
	for name, ip := range map[string]func(i int) string{
		"from one address": func(int) string { return "198.51.100.7" },
		"from everywhere":  func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) },
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, usualBounds.unauthenticated, func(n int) func() {
				b := usualBounds
				b.unauthenticated = n
				c := newConnLimiter(b, zerolog.Nop())
				for i := range n {
					c.add(from(ip(i)))
				}
				var late []*fake
				for i := range n {
					late = append(late, from(ip(n+i)))
				}
				return func() {
					for _, conn := range late {
						c.add(conn)
					}
				}
			})
		})
	}
}
