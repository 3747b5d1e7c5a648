package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// TestAddresses: a machine gets its address after the agent has started, and another one later.
func TestAddresses(t *testing.T) {
	var routed, other string
	var has []string
	a := addressesOf([]netip.Addr{netip.IPv4Unspecified()}, "n1", true)
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
}

// TestAddressOfTheName: what /etc/hosts or DNS say of the node's name comes before its default route.
func TestAddressOfTheName(t *testing.T) {
	var answer, has []string
	answers := true
	a := addressesOf(nil, "n1", false)
	a.has = func(ip string) bool { return slices.Contains(has, ip) }
	a.find = func(bool) (string, bool) { return "10.0.2.15", true }
	a.resolve = func(name string) (ips []netip.Addr, ok bool) {
		if name != "n1" {
			t.Errorf("%s is asked for", name)
		}
		for _, ip := range answer {
			ips = append(ips, netip.MustParseAddr(ip))
		}
		return ips, answers
	}
	const nat, all = "10.0.2.15", "10.0.2.15 192.0.2.7 192.0.2.8 2001:db8::7 127.0.1.1"
	for _, c := range []struct{ what, answer, has, want string }{
		{"DNS does not answer", "?", all, nat},
		{"nobody knows the name", "", all, nat},
		{"Debian", "127.0.1.1", all, nat},
		{"a router has the name", "203.0.113.9", all, nat},
		{"only the other family", "2001:db8::7", all, "2001:db8::7"},
		{"both", "2001:db8::7 192.0.2.7", all, "192.0.2.7"},
		{"in turns", "192.0.2.8 192.0.2.7", all, "192.0.2.7"},
		{"DNS is down", "?", all, "192.0.2.7"},
		{"a lease is lost for a moment", "?", nat, "192.0.2.7"},
		{"and the other family is left", "192.0.2.7 2001:db8::7", nat + " 2001:db8::7", "192.0.2.7"},
		{"the name moves", "192.0.2.8", all, "192.0.2.8"},
		{"its line is taken out", "", all, "192.0.2.8"},
		{"and its interface", "", nat, nat},
		{"the line is there again", "192.0.2.7", all, "192.0.2.7"},
		{"its interface goes, another has the name", "192.0.2.7 192.0.2.8", nat + " 192.0.2.8", "192.0.2.8"},
		{"and comes back", "192.0.2.7 192.0.2.8", all, "192.0.2.8"},
	} {
		answers = c.answer != "?"
		answer, has = strings.Fields(strings.Trim(c.answer, "?")), strings.Fields(c.has)
		if got := fmt.Sprint(a.look()); got != "["+c.want+"]" {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestStaleName: another lease, and the name has the address of the one before.
func TestStaleName(t *testing.T) {
	has := "192.0.2.7"
	a := addressesOf(nil, "n1", false)
	a.has = func(ip string) bool { return ip == has }
	a.find = func(bool) (string, bool) { return has, true }
	a.resolve = func(string) ([]netip.Addr, bool) { return []netip.Addr{netip.MustParseAddr("192.0.2.7")}, true }
	must.Equal(t, fmt.Sprint(a.look()), "[192.0.2.7]", "at first")
	has = "192.0.2.9"
	for range staleName - 1 {
		must.Equal(t, fmt.Sprint(a.look()), "[192.0.2.7]", "for a while")
	}
	must.Equal(t, fmt.Sprint(a.look()), "[192.0.2.9]", "then")
	has = "192.0.2.7"
	must.Equal(t, fmt.Sprint(a.look()), "[192.0.2.7]", "and back")
}

// TestAddressesOf: where the addresses of a node come from.
func TestAddressesOf(t *testing.T) {
	for _, c := range []struct{ what, flag, name, cloud, shown, own string }{
		{"--node-ip", "192.0.2.1,2001:db8::1", "n1", "", "[192.0.2.1 2001:db8::1]", "[192.0.2.1 2001:db8::1]"},
		{"of a cloud", "192.0.2.1", "n1", "external", "[192.0.2.1]", "[192.0.2.1]"},
		{"a name that is an address", "", "192.0.2.9", "", "[192.0.2.9]", "[192.0.2.9]"},
		{"and the other family is preferred", "::", "192.0.2.9", "", "[192.0.2.9]", "[192.0.2.9]"},
		{"the flag comes first", "192.0.2.1", "192.0.2.9", "", "[192.0.2.1]", "[192.0.2.1]"},
		{"looked for", "0.0.0.0", "n1", "", "[192.0.2.7]", "[192.0.2.7]"},
		{"looked for until the cloud knows", "0.0.0.0", "n1", "external", "[192.0.2.7]", "[192.0.2.7]"},
		{"only the cloud knows", "", "n1", "external", "[]", "[192.0.2.7]"},
		{"also with such a name", "", "192.0.2.9", "external", "[]", "[192.0.2.9]"},
	} {
		args := []string{"--node-ip=" + c.flag, "--cloud-provider=" + c.cloud}
		config := clustered(t, "", args...)
		a := addressesOf(config.NodeIPs(), c.name, config.ExternalCloud())
		a.find = func(bool) (string, bool) { return "192.0.2.7", true }
		a.has = func(string) bool { return true }
		a.resolve = func(string) ([]netip.Addr, bool) { return nil, true }
		if got := fmt.Sprint(a.look()); got != c.shown {
			t.Errorf("%s: shows %s, want %s", c.what, got, c.shown)
		}
		if got := fmt.Sprint(a.now()); got != c.own {
			t.Errorf("%s: has %s, want %s", c.what, got, c.own)
		}
	}
}

// TestLookUp: an address is one, without a question to others.
func TestLookUp(t *testing.T) {
	if ips, ok := lookUp("192.0.2.7"); !ok || fmt.Sprint(ips) != "[192.0.2.7]" {
		t.Errorf("got %v, %v", ips, ok)
	}
}

// TestNodeIPWarnings: an address that may be mistyped is shown, and said to be nobody's.
func TestNodeIPWarnings(t *testing.T) {
	var ips []netip.Addr
	for _, ip := range []string{"0.0.0.0", "127.0.0.9", "192.0.2.1", "192.0.2.2", "fd00::1"} {
		ips = append(ips, netip.MustParseAddr(ip))
	}
	got := nodeIPWarnings(ips, func(ip string) bool { return ip == "192.0.2.1" })
	must.Equal(t, len(got), 2, "warnings of %q", got)
	must.Has(t, got[0], "--node-ip 192.0.2.2: no interface", "the first")
	must.Has(t, got[1], "--node-ip fd00::1: no interface", "the second")
}
