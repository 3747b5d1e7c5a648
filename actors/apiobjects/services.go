package apiobjects

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// services are those of the cluster. They are watched from the first pod until the agent ends:
// there is always a next pod.
type services struct {
	stream
	// known are the services that pods may get, by namespace and name: a cluster may have thousands, of which those of
	// one namespace are looked at together.
	known map[string]map[string]*v1.Service
	// lists are the services for the pods of each namespace.
	lists map[string]*list
}

type serviceKey struct{ namespace, name string }

// list has the services for the pods of a namespace.
type list struct {
	entry podobjects.Entry
	users map[types.UID]bool
}

// kubernetes is the service that the pods of all namespaces get.
var kubernetes = serviceKey{metav1.NamespaceDefault, "kubernetes"}

func (s *services) entry(r podobjects.Ref) podobjects.Entry { return s.lists[r.Namespace].entry }

func (a *apiobjects) useServices(ctx *kernel.Context[Message], uid types.UID, namespace string) {
	s := &a.services
	l := s.lists[namespace]
	if l == nil {
		l = &list{users: map[types.UID]bool{}}
		s.lists[namespace] = l
		l.entry = s.compute(namespace)
	}
	l.users[uid] = true
	if s.watch == 0 {
		a.follow(ctx, &s.stream)
	}
}

func (a *apiobjects) dropServices(_ *kernel.Context[Message], uid types.UID, namespace string) {
	l := a.services.lists[namespace]
	delete(l.users, uid)
	if len(l.users) == 0 {
		delete(a.services.lists, namespace)
	}
}

// giveUp ends the watch after lost messages. The next pod begins another.
func (s *services) giveUp(ctx *kernel.Context[Message]) {
	s.unfollow(ctx)
	clear(s.known)
}

// told applies an event of the watch.
func (s *services) told(ctx *kernel.Context[Message], a *apiobjects, change port.APIChange) {
	switch c := change.(type) {
	case port.APIReplaced:
		clear(s.known)
		for _, o := range c.Objects {
			s.set(o.(*v1.Service))
		}
		a.servicesChanged(ctx, serviceKey{})
	case port.APISet:
		if o := c.Object.(*v1.Service); s.set(o) {
			a.servicesChanged(ctx, serviceKey{o.Namespace, o.Name})
		}
	case port.APIDeleted:
		if of := (serviceKey{c.Object.GetNamespace(), c.Object.GetName()}); s.remove(of) {
			a.servicesChanged(ctx, of)
		}
	case port.APIBroken:
		a.servicesChanged(ctx, serviceKey{})
	}
}

// set stores one service, and reports whether that is something new for pods. They get it only if it has an address.
func (s *services) set(o *v1.Service) bool {
	if o.Spec.ClusterIP == "" || o.Spec.ClusterIP == v1.ClusterIPNone || len(o.Spec.Ports) == 0 {
		return s.remove(serviceKey{o.Namespace, o.Name})
	}
	of := s.known[o.Namespace]
	if of == nil {
		of = map[string]*v1.Service{}
		s.known[o.Namespace] = of
	}
	old := of[o.Name]
	of[o.Name] = o
	return old == nil || !sameService(old, o)
}

// remove takes out one service, and reports whether it was there.
func (s *services) remove(k serviceKey) bool {
	of := s.known[k.namespace]
	if of[k.name] == nil {
		return false
	}
	if delete(of, k.name); len(of) == 0 {
		delete(s.known, k.namespace)
	}
	return true
}

// compute lists the services for the pods of a namespace.
func (s *services) compute(namespace string) podobjects.Entry {
	e := podobjects.Entry{Ref: podobjects.Ref{Kind: podobjects.Services, Namespace: namespace}}
	switch {
	case s.seen:
	case s.broken != nil:
		e.State, e.Message = podobjects.Failed, s.broken.Error()
		return e
	default:
		return e
	}
	var items []*v1.Service
	for _, o := range s.known[namespace] { // order-free: sorted below
		items = append(items, o)
	}
	if o := s.known[kubernetes.namespace][kubernetes.name]; o != nil && namespace != kubernetes.namespace {
		items = append(items, o)
	}
	slices.SortFunc(items, func(a, b *v1.Service) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	e.State, e.Object = podobjects.Found, &podobjects.ServiceList{Items: items}
	return e
}

// servicesChanged sends pods their new services, if one has changed: those of its namespace, or of all if it is that of
// kubernetes, or if it has no name.
func (a *apiobjects) servicesChanged(ctx *kernel.Context[Message], of serviceKey) {
	s := &a.services
	namespaces := []string{of.namespace}
	if of == (serviceKey{}) || of == kubernetes {
		namespaces = slices.Sorted(maps.Keys(s.lists))
	}
	for _, ns := range namespaces {
		l := s.lists[ns]
		if l == nil {
			continue // no pod is there
		}
		e := s.compute(ns)
		if e.Same(l.entry) || sameServices(e, l.entry) {
			continue
		}
		l.entry = e
		for _, uid := range slices.Sorted(maps.Keys(l.users)) {
			a.tell(ctx, a.pods[uid])
		}
	}
}

// sameServices reports whether two lists are equal for pods.
func sameServices(a, b podobjects.Entry) bool {
	x, ok := a.Object.(*podobjects.ServiceList)
	y, too := b.Object.(*podobjects.ServiceList)
	return ok && too && slices.EqualFunc(x.Items, y.Items, sameService)
}

func sameService(s, t *v1.Service) bool {
	return s.Namespace == t.Namespace && s.Name == t.Name && s.Spec.ClusterIP == t.Spec.ClusterIP &&
		slices.EqualFunc(s.Spec.Ports, t.Spec.Ports, func(p, q v1.ServicePort) bool {
			return p.Name == q.Name && p.Protocol == q.Protocol && p.Port == q.Port
		})
}
