package translate

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestLongResolvConf: what a pod starts with grows with the node's resolver file, and no faster.
func TestLongResolvConf(t *testing.T) {
	for name, text := range map[string]func(n int) string{
		"domains": func(n int) string {
			line := "search"
			for i := range n {
				line += fmt.Sprintf(" %d.example", i)
			}
			return line
		},
		"lines of options": func(n int) (text string) {
			for i := range n {
				text += fmt.Sprintf("options %d\n", i)
			}
			return text
		},
		"nameservers": func(n int) (text string) {
			for i := range n {
				text += fmt.Sprintf("nameserver 10.0.%d.%d\n", i/256, i%256)
			}
			return text
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 1000, func(n int) func() {
				w := newWorld()
				w.node.ClusterDNS, w.node.ResolvConf, w.pod.Spec.DNSConfig = nil, text(n), &v1.PodDNSConfig{}
				return func() { resolver(w.node, w.pod) }
			})
		})
	}
}

// TestOptionsOfResolvConf: those of several lines add up, and the last one of a name counts, in the place of the first.
func TestOptionsOfResolvConf(t *testing.T) {
	c := parseResolvConf("options ndots:2 rotate\noptions timeout:1 ndots:3\noptions\n")
	check.Equal(t, strings.Join(c.Options, " "), "ndots:3 rotate timeout:1", "options")
}
