package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestAddresses: a machine gets its address after the agent has started, and another one later.
func TestAddresses(t *testing.T) {
	var routed, other string
	var has []string
	a := addressesOf([]netip.Addr{netip.IPv4Unspecified()})
	a.has = func(ip string) bool { return slices.Contains(has, ip) }
	a.find = func(bool) (string, bool) {
		if routed != "" {
			return routed, true
		}
		return other, false
	}
	for _, c := range []struct{ what, routed, other, has, want string }{
		{"there is none", "", "", "", "[]"},
		{"a bridge has one", "", "172.17.0.1", "172.17.0.1", "[172.17.0.1]"},
		{"another bridge", "", "172.18.0.1", "172.17.0.1", "[172.17.0.1]"},
		{"the network is up", "192.0.2.7", "172.17.0.1", "172.17.0.1 192.0.2.7", "[192.0.2.7]"},
		{"another route", "192.0.2.8", "172.17.0.1", "192.0.2.7 192.0.2.8", "[192.0.2.7]"},
		{"the network is down", "", "", "", "[192.0.2.7]"},
		{"and a bridge is still there", "", "172.17.0.1", "172.17.0.1", "[192.0.2.7]"},
		{"the other family has a route", "2001:db8::7", "", "172.17.0.1 2001:db8::7", "[192.0.2.7]"},
		{"a new lease", "192.0.2.9", "", "192.0.2.9", "[192.0.2.9]"},
	} {
		routed, other, has = c.routed, c.other, strings.Fields(c.has)
		if got := fmt.Sprint(a.now()); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	a.worth, a.last = 0, ""
	for _, c := range []struct{ what, routed, want string }{
		{"IPv6 comes first at boot", "2001:db8::7", "[2001:db8::7]"},
		{"IPv4 is preferred", "192.0.2.7", "[192.0.2.7]"},
	} {
		routed, has = c.routed, []string{"2001:db8::7", "192.0.2.7"}
		if got := fmt.Sprint(a.now()); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	given := addressesOf([]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")})
	if got := fmt.Sprint(given.now()); got != "[192.0.2.1 2001:db8::1]" {
		t.Errorf("--node-ip: %s", got)
	}
}
