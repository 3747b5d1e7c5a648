package serve

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestRequest: which of a node's addresses a certificate is requested for.
func TestRequest(t *testing.T) {
	for _, c := range []struct {
		addresses string
		dnsOnly   bool
		want      string
	}{
		{"", true, ""},
		{"Hostname=n1", false, ""},
		{"Hostname=n1", true, "n1"},
		{"ExternalDNS=n1.example InternalIP=x", false, ""},
		{"InternalIP=192.0.2.1 Hostname=n1", false, "n1 192.0.2.1"},
		{"Hostname=192.0.2.1", false, "192.0.2.1"},
		{
			"InternalIP=192.0.2.9 ExternalIP=192.0.2.1 InternalDNS=n1.internal ExternalDNS=n1.example Hostname=n1.internal",
			false, "n1.example n1.internal 192.0.2.1 192.0.2.9",
		},
		{"Hostname=n1.internal ExternalIP=192.0.2.1 InternalIP=192.0.2.9 InternalIP=192.0.2.1 InternalIP=", false,
			"n1.internal 192.0.2.1 192.0.2.9"},
		{"InternalIP=2001:db8::1 InternalIP=n1 ExternalDNS=", false, "2001:db8::1"},
	} {
		var list []v1.NodeAddress
		for text := range strings.FieldsSeq(c.addresses) {
			kind, address, _ := strings.Cut(text, "=")
			list = append(list, v1.NodeAddress{Type: v1.NodeAddressType(kind), Address: address})
		}
		got := ""
		if r := request("n1", list, c.dnsOnly); r != nil {
			all := r.DNSNames
			for _, ip := range r.IPAddresses {
				all = append(all, ip.String())
			}
			got = strings.Join(all, " ")
			if r.Subject.CommonName != "system:node:n1" {
				t.Errorf("%q: for %s", c.addresses, r.Subject)
			}
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.addresses, got, c.want)
		}
	}
}
