package node

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	netutils "k8s.io/utils/net"
)

// addresses are those of this machine: the configured ones, or else one that is looked for. A machine may get it after
// the agent has started, and another one with a new lease (DHCP).
type addresses struct {
	given []string
	six   bool
	// name is that of the node, which /etc/hosts or DNS may give an address. resolve asks them; not ok: they don't answer.
	name    string
	resolve func(name string) (ips []netip.Addr, ok bool)
	// find looks for one; routed says that packets to the world have it. has says whether an interface has one.
	find func(six bool) (ip string, routed bool)
	has  func(ip string) bool
	// clouds: the controller of a cloud says which addresses the node has, and nobody before it.
	clouds bool

	mu sync.Mutex
	// named are the last answer of resolve. gone counts the looks at which no interface had the last address.
	named []string
	last  string
	worth worth
	gone  int
}

// staleName is at how many looks, one a minute, no interface has an address before the name does not keep it any more.
const staleName = 10

// worth is how good an address is.
type worth int

const (
	// guessed: some interface has it. reached: a route has it. preferred: and it is of the preferred family. namedOther:
	// the node's name has it. named: and it is of the preferred family.
	guessed worth = iota + 1
	reached
	preferred
	namedOther
	named
)

// resolvePatience is how long the node's name is looked up for. A start waits for that.
const resolvePatience = 2 * time.Second

// addressesOf are those of a node with these --node-ip and that name, which may be an address itself
// (--hostname-override).
func addressesOf(configured []netip.Addr, name string, cloud bool) *addresses {
	a := &addresses{
		given: given(configured), name: name, resolve: lookUp, find: ownAddress, has: ofInterface,
		clouds: cloud && len(configured) == 0,
	}
	if len(a.given) > 0 {
		return a
	}
	if ip := netutils.ParseIPSloppy(name); ip != nil {
		a.given = []string{ip.String()}
	} else if len(configured) > 0 {
		a.six = configured[0].Is6() // the family that is preferred
	}
	return a
}

// nodeIPWarnings name the addresses of --node-ip that no interface has: a machine behind NAT shows one, and it may come
// later, or be mistyped. has says whether an interface has one. A loopback address is meant as it is.
func nodeIPWarnings(configured []netip.Addr, has func(ip string) bool) (out []string) {
	for _, ip := range configured {
		if !ip.IsUnspecified() && !ip.IsLoopback() && !has(ip.String()) {
			out = append(out, "--node-ip "+ip.String()+": no interface of this machine has it; the Node shows it all the "+
				"same, and is reached only if it leads here")
		}
	}
	return out
}

// look asks for the node's name, which may take a moment, and returns the addresses that the node shows.
func (a *addresses) look() []string {
	if a != nil && len(a.given) == 0 && !a.clouds {
		ips, ok := a.resolve(a.name)
		a.mu.Lock()
		if ok {
			a.named = nil
			for _, ip := range ips {
				if ip.IsGlobalUnicast() {
					a.named = append(a.named, ip.String())
				}
			}
		}
		if a.gone++; a.last == "" || a.has(a.last) {
			a.gone = 0
		}
		a.mu.Unlock()
	}
	return a.shown()
}

// shown are the addresses that the node shows, and its pods have. None while a cloud has not said them.
func (a *addresses) shown() []string {
	if a != nil && a.clouds {
		return nil
	}
	return a.now()
}

// now are the addresses. One that was found is kept as long as an interface has it, so a change of routes does not move
// the node; only its name does. It gives way to a better one, and one that is gone to one that is as good: while the
// network is down, a bridge still has an address, and so may the other family, and neither is where the node can be
// reached. One that the name still has is not gone for good, unless it stays away: then the name is stale.
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
	ip, worth := a.byName()
	if ip == "" && (!keeps || a.worth < preferred) {
		ip, worth = a.byRoute()
	}
	better := worth > a.worth || !keeps && worth == a.worth
	free := !slices.Contains(a.named, a.last) || a.gone >= staleName
	moved := free && (worth >= namedOther || !keeps && worth >= preferred)
	if ip != "" && (better || moved) {
		a.last, a.worth = ip, worth
	}
	if a.last == "" {
		return nil
	}
	return []string{a.last}
}

// byName is the best address that the name has and an interface too: of those that are as good, the one that the node
// has.
func (a *addresses) byName() (best string, is worth) {
	for _, ip := range a.named {
		worth := namedOther
		if strings.Contains(ip, ":") == a.six {
			worth = named
		}
		if (worth > is || worth == is && ip == a.last) && a.has(ip) {
			best, is = ip, worth
		}
	}
	return best, is
}

// byRoute is the best address that is looked for.
func (a *addresses) byRoute() (string, worth) {
	ip, routed := a.find(a.six)
	switch {
	case !routed:
		return ip, guessed
	case strings.Contains(ip, ":") == a.six:
		return ip, preferred
	}
	return ip, reached
}

// lookUp asks /etc/hosts and DNS.
func lookUp(name string) ([]netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), resolvePatience)
	defer cancel()
	ips, err := (&net.Resolver{StrictErrors: true}).LookupNetIP(ctx, "ip", name)
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	var unknown *net.DNSError
	return ips, err == nil || errors.As(err, &unknown) && unknown.IsNotFound
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
