package node

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// addresses are those of this machine: the configured ones, or else one that is looked for. A machine may get it after
// the agent has started, and another one with a new lease (DHCP).
type addresses struct {
	given []string
	six   bool
	// find looks for one; routed says that packets to the world have it. has says whether an interface has one.
	find func(six bool) (ip string, routed bool)
	has  func(ip string) bool

	mu    sync.Mutex
	last  string
	worth worth
}

// worth is how good an address is.
type worth int

const (
	// guessed: some interface has it. reached: a route has it. preferred: and it is of the preferred family.
	guessed worth = iota + 1
	reached
	preferred
)

func addressesOf(configured []netip.Addr) *addresses {
	a := &addresses{given: given(configured), find: ownAddress, has: ofInterface}
	if len(a.given) == 0 && len(configured) > 0 {
		a.six = configured[0].Is6() // the family that is preferred
	}
	return a
}

// now are the addresses. One that was found is kept as long as an interface has it, so a change of routes does not move
// the node. It gives way to a better one only, and one that is gone to one that is as good: while the network is down,
// a bridge still has an address, and so may the other family, and neither is where the node can be reached.
func (a *addresses) now() []string {
	if a == nil {
		return nil // nobody has looked around
	}
	if len(a.given) > 0 {
		return a.given
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if keeps := a.last != "" && a.has(a.last); !keeps || a.worth < preferred {
		ip, routed := a.find(a.six)
		worth := guessed
		if is6 := strings.Contains(ip, ":"); routed && is6 == a.six {
			worth = preferred
		} else if routed {
			worth = reached
		}
		if ip != "" && (worth > a.worth || !keeps && worth == a.worth) {
			a.last, a.worth = ip, worth
		}
	}
	if a.last == "" {
		return nil
	}
	return []string{a.last}
}

// ofInterface says whether an interface has an address.
func ofInterface(ip string) bool {
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().String() == ip
	})
}

// ownAddress is the one that packets to the world have (routed), or else the first global one of an interface; IPv4
// first, unless six.
func ownAddress(six bool) (found string, routed bool) {
	families := []string{"udp4", "udp6"}
	if six {
		families = []string{"udp6", "udp4"}
	}
	for _, family := range families {
		to := "192.0.2.1:9" // nothing is sent: these are for documentation (RFC 5737, RFC 3849)
		if family == "udp6" {
			to = "[2001:db8::1]:9"
		}
		conn, err := net.Dial(family, to)
		if err != nil {
			continue // no route
		}
		from, err := netip.ParseAddrPort(conn.LocalAddr().String())
		conn.Close() //nolint:errcheck // it was not used
		if err == nil && from.Addr().IsGlobalUnicast() {
			return from.Addr().String(), true
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", false
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() {
			continue
		}
		if p.Addr().Is4() != six {
			return p.Addr().String(), false
		}
		if found == "" {
			found = p.Addr().String()
		}
	}
	return found, false
}
