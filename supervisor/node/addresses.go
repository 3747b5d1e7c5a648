package node

import (
	"net"
	"net/netip"
	"slices"
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

	mu     sync.Mutex
	last   string
	routed bool
}

func addressesOf(configured []netip.Addr) *addresses {
	a := &addresses{given: given(configured), find: ownAddress, has: ofInterface}
	if len(a.given) == 0 && len(configured) > 0 {
		a.six = configured[0].Is6() // the family that is preferred
	}
	return a
}

// now are the addresses. One that was found is kept as long as an interface has it, so a change of routes does not move
// the node; one that no route has gives way to one that a route has. While there is none, the last one stays.
func (a *addresses) now() []string {
	if a == nil {
		return nil // nobody has looked around
	}
	if len(a.given) > 0 {
		return a.given
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	keeps := a.last != "" && a.has(a.last)
	if !keeps || !a.routed {
		if ip, routed := a.find(a.six); ip != "" && (routed || !keeps) {
			a.last, a.routed = ip, routed
		}
	}
	if a.last == "" {
		return nil
	}
	return []string{a.last}
}

// ofInterface says whether an interface that is up has an address.
func ofInterface(ip string) bool {
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().String() == ip
	})
}

// ownAddress is the one that packets to the world have (routed), or else the first global one of an interface that is
// up; IPv4 first, unless six.
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
