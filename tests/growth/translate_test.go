package growth

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestTranslate: what a real runtime is asked for grows no faster than the pod. A simulated one is given the pod as it is.
func TestTranslate(t *testing.T) {
	node := &translate.Node{
		RootDir: "/var/lib/kubelet", MemoryCapacity: 1 << 34, ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
	}
	for _, s := range Shapes() {
		t.Run(strings.ReplaceAll(s.Name, " ", "_"), func(t *testing.T) {
			linear.Held(t, s.Most/16, func(n int) func() {
				p := Base("greedy")
				s.Make(p, n)
				return func() {
					check.Value(translate.Sandbox(node, &port.RunPodSandbox{Pod: p}))(t)
					translate.DNSNotices(node, p)
					check.Value(containerplan.HostsFile(p, []string{"10.0.0.1"}, node.ClusterDomain))(t)
					for c := range podspec.All(&p.Spec) { // one is made at a time, and each request has the sandbox
						check.Value(translate.Container(node, &port.CreateContainer{Pod: p, Container: c}))(t)
						break
					}
				}
			})
		})
	}
}
