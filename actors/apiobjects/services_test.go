package apiobjects_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/port"
)

const servicesBegun = "watch Service"

// service has an address and one port.
func service(namespace, name string, change ...func(s *v1.Service)) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1"},
		Spec:       v1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []v1.ServicePort{{Port: 80}}},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// withPods is a node with the pod web in the namespace default and the pod shop in shop.
func withPods(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, withServices)
	r.actor.Tell(r.need("web", in("default")))
	r.actor.Tell(r.need("shop", in("shop")))
	r.want("one watch for all", 0, servicesBegun, "web: services unknown", "shop: services unknown")
	return r
}

// TestServices: a pod gets the services of its namespace, and kubernetes. It is told of what changes for it.
func TestServices(t *testing.T) {
	r := withPods(t)
	r.Tell(listed(service("default", "kubernetes"), service("shop", "db"), service("shop", "cart"), service("other", "x"),
		service("shop", "headless", func(s *v1.Service) { s.Spec.ClusterIP = v1.ClusterIPNone }),
		service("shop", "none", func(s *v1.Service) { s.Spec.ClusterIP = "" }),
		service("shop", "external", func(s *v1.Service) { s.Spec.Ports = nil })))
	r.want("the list", 0, "web: services found kubernetes", "shop: services found kubernetes cart db")
	for _, step := range []struct {
		what   string
		change port.APIChange
		want   []string
	}{
		{"a new one", port.APISet{Object: service("shop", "ads")}, []string{"shop: services found kubernetes ads cart db"}},
		{"of another namespace", port.APISet{Object: service("other", "y")}, nil},
		{"the same again", port.APISet{Object: service("shop", "ads")}, nil},
		{"what pods do not see", port.APISet{Object: service("shop", "ads", func(s *v1.Service) {
			s.ResourceVersion, s.Spec.Ports[0].NodePort = "2", 30000
		})}, nil},
		{"another port", port.APISet{Object: service("shop", "ads", func(s *v1.Service) { s.Spec.Ports[0].Port = 81 })},
			[]string{"shop: services found kubernetes ads cart db"}},
		{"another address", port.APISet{Object: service("shop", "ads", func(s *v1.Service) { s.Spec.ClusterIP = "10.0.0.2" })},
			[]string{"shop: services found kubernetes ads cart db"}},
		{"it loses its address", port.APISet{Object: service("shop", "ads", func(s *v1.Service) { s.Spec.ClusterIP = v1.ClusterIPNone })},
			[]string{"shop: services found kubernetes cart db"}},
		{"one is gone", port.APIDeleted{Object: service("shop", "db")}, []string{"shop: services found kubernetes cart"}},
		{"a stranger is gone", port.APIDeleted{Object: service("shop", "stranger")}, nil},
		{"all see the one of all", port.APISet{Object: service("default", "kubernetes", func(s *v1.Service) { s.Spec.ClusterIP = "10.0.0.3" })},
			[]string{"shop: services found kubernetes cart", "web: services found kubernetes"}},
		{"the watch breaks: they stay known", port.APIBroken{Err: errAway}, nil},
		{"another list", listed(service("shop", "db")), []string{"shop: services found db", "web: services found"}},
	} {
		r.Tell(step.change)
		r.want(step.what, 0, step.want...)
	}
}

// TestServicesCannotBeRead: pods are told, until there is a list.
func TestServicesCannotBeRead(t *testing.T) {
	r := withPods(t)
	r.Tell(port.APIBroken{Err: errAway})
	r.want("it fails", 0, "web: services failed, connection refused", "shop: services failed, connection refused")
	r.actor.Tell(r.need("late", in("shop")))
	r.want("another pod", time.Hour, "late: services failed, connection refused")
	r.Tell(listed(service("shop", "db")))
	r.want("the list", 0, "web: services found", "shop: services found db", "late: services found db")
}

// TestServicesAreKept: the watch goes on when no pod is there, for the next one.
func TestServicesAreKept(t *testing.T) {
	r := withPods(t)
	r.Tell(listed(service("shop", "db")))
	r.Forget()
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.actor.Tell(apiobjects.Forget{UID: "u-shop"})
	r.Tell(port.APISet{Object: service("shop", "cart")})
	r.want("nobody is there", time.Hour)
	r.actor.Tell(r.need("next", in("shop")))
	r.want("the next pod", 0, "next: services found cart db")
	r.actor.Tell(apiobjects.Forget{UID: "u-next"})
	r.actor.Tell(r.need("last", in("shop")))
	r.Tell(port.APIDeleted{Object: service("shop", "db")})
	r.want("the next pod but one", 0, "last: services found cart db", "last: services found cart")
}

// TestWatchOfServices: one that is silent or ends is replaced, and what it says then is late.
func TestWatchOfServices(t *testing.T) {
	for name, stop := range map[string]func(r *rig){
		"silent": func(r *rig) { r.Advance(patience) },
		"ended":  func(r *rig) { r.Newest().Ended(errAway) },
	} {
		t.Run(name, func(t *testing.T) {
			r := withPods(t)
			stop(r)
			r.want("another one", 0, servicesBegun)
			if name == "silent" && r.ended() != 1 {
				t.Error("the silent one goes on")
			}
			r.All[0].Change(listed(service("shop", "old")))
			r.All[0].Ended(errAway)
			r.want("the old one is late", 0)
			r.Tell(listed(service("shop", "db")))
			r.want("the new one stands", time.Hour, "web: services found", "shop: services found db")
		})
	}
}

// TestLostChangeOfServices: a change that does not fit into the mailbox is lost, so that the pods are asked to
// repeat, and all is listed again for them.
func TestLostChangeOfServices(t *testing.T) {
	r := withPods(t)
	r.Tell(listed(service("shop", "db")))
	r.Forget()
	old := r.Newest()
	for range 5 { // the mailbox has room for four
		old.Change(port.APISet{Object: service("shop", "cart")})
	}
	r.want("lost", time.Second, "pods: repeat", "shop: services found cart db")
	old.Change(port.APISet{Object: service("shop", "late")})
	r.actor.Tell(r.need("again", in("shop")))
	r.want("the old watch is late", 0, servicesBegun, "again: services unknown")
	r.Tell(listed(service("shop", "cart")))
	r.want("the list", 0, "again: services found cart")
}

// TestWithoutServices: a node that gives pods no service variables does not watch services.
func TestWithoutServices(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.need("web", in("default")))
	r.want("nothing to ask for", time.Hour, "web: ")
}
