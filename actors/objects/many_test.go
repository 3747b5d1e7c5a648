package objects_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestManyServices: what is heard of one service costs the same however many there are, in other namespaces, and also in
// its own if pods see nothing new.
func TestManyServices(t *testing.T) {
	renewed := func(namespace, name string, i int) port.APISet {
		return port.APISet{Object: service(namespace, name, func(s *v1.Service) { s.ResourceVersion = fmt.Sprint(i) })}
	}
	for name, change := range map[string]func(i int) port.APIChange{
		"another one of the default namespace": func(i int) port.APIChange {
			return port.APISet{Object: service("default", "web", func(s *v1.Service) { s.Spec.Ports[0].Port = int32(i + 1) })}
		},
		"the same again": func(i int) port.APIChange { return renewed("shop", fmt.Sprint("s", i), i) },
		"of a namespace without pods": func(i int) port.APIChange {
			return port.APIDeleted{Object: service("other", fmt.Sprint("s", i))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 250, func(n int) func() {
				r := withPods(t)
				all := listed(service("default", "kubernetes"))
				for i := range n {
					all.Objects = append(all.Objects, service("shop", fmt.Sprint("s", i)), service("other", fmt.Sprint("s", i)))
				}
				r.Tell(all)
				return func() {
					for i := range n {
						r.Tell(change(i))
					}
				}
			})
		})
	}
}
