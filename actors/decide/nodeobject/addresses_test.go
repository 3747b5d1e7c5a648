package nodeobject

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestCloudAddresses: what the controller of a cloud has set stays, and pods have it.
func TestCloudAddresses(t *testing.T) {
	o, f := own(), facts()
	o.Cloud = true
	n := New(o, f, t0)
	if !slices.Equal(n.Status.Addresses, f.Addresses) {
		t.Errorf("it registers with %v", n.Status.Addresses)
	}
	cloud := []v1.NodeAddress{
		{Type: v1.NodeInternalDNS, Address: "n1.internal"}, {Type: v1.NodeExternalIP, Address: "203.0.113.1"},
		{Type: v1.NodeInternalIP, Address: "198.51.100.1"}, {Type: v1.NodeInternalIP, Address: "198.51.100.2"},
		{Type: v1.NodeExternalIP, Address: "2001:db8::1"},
	}
	n.Status.Addresses = cloud
	if s, differs := Status(o, f, &n.Status, t0); differs || !slices.Equal(s.Addresses, cloud) {
		t.Errorf("differs %v: %v", differs, s.Addresses)
	}
	for _, f := range []Facts{*f, {}} {
		if got := IPs(Shown(o, n, f).Status.Addresses, nil); !slices.Equal(got, []string{"198.51.100.1", "2001:db8::1"}) {
			t.Errorf("pods have %v", got)
		}
	}
	o.Cloud = false
	if s, differs := Status(o, f, &n.Status, t0); !differs || !slices.Equal(s.Addresses, f.Addresses) {
		t.Errorf("without a cloud: %v", s.Addresses)
	}
}

// TestIPs: which of a node's addresses pods have.
func TestIPs(t *testing.T) {
	of := func(texts ...string) (out []v1.NodeAddress) {
		for _, text := range texts {
			kind, address, _ := strings.Cut(text, "=")
			out = append(out, v1.NodeAddress{Type: v1.NodeAddressType(kind), Address: address})
		}
		return out
	}
	for _, c := range []struct {
		have []v1.NodeAddress
		want string
	}{
		{of("Hostname=n1"), "[at]"},
		{of("InternalIP=192.0.2.1", "Hostname=192.0.2.2"), "[192.0.2.1]"},
		{of("InternalIP=2001:db8::1", "InternalIP=192.0.2.1"), "[2001:db8::1 192.0.2.1]"},
		{of("ExternalIP=192.0.2.1", "InternalIP=x"), "[192.0.2.1]"},
		{of("InternalIP=192.0.2.1", "InternalIP=192.0.2.2"), "[192.0.2.1]"},
	} {
		if got := fmt.Sprint(IPs(c.have, []string{"at"})); got != c.want {
			t.Errorf("%v: %s, want %s", c.have, got, c.want)
		}
	}
}
