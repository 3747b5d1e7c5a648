package apicontract

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/contract"
)

// Measure makes n pods live and go, one after another, and says how long each
// call took of an apiserver that has nothing else to do: what the simulated
// one's latencies are made of. List is from a watch's beginning to its Replaced;
// WatchLag is how long after a patch was answered the watch told of it, 0 if it
// was told before. It is for the machine's clock.
func Measure(t *testing.T, subject Subject, n int) []contract.Measured {
	s := &suite{T: t, Subject: subject, name: fmt.Sprintf("measure-%x", time.Now().UnixNano()&0xffffff)}
	m := &measure{suite: s}
	s.made(&v1.ServiceAccount{ObjectMeta: s.meta("sa")})
	lease := s.made(s.lease("l"))
	told := make(chan port.APIObject, 1000)
	ctx, cancel := s.context()
	defer cancel()
	s.API.Watch(ctx, port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + s.name + "-node"}, func(c port.APIChange) {
		switch c := c.(type) {
		case port.APISet:
			told <- c.Object
		case port.APIReplaced: // the first list may be as late as that
			for _, o := range c.Objects {
				told <- o
			}
		case port.APIDeleted, port.APIBroken:
		}
	}, func(error) {})
	for i := range n {
		p := s.bound(fmt.Sprint("p", i))
		p.Spec.ServiceAccountName = s.name + "-sa"
		made := m.took("Create", func(done func(port.APIObject, error)) { s.API.Create(ctx, p, done) }).(*v1.Pod)
		k := port.APIKeyOf(made)
		m.took("Get", func(done func(port.APIObject, error)) { s.API.Get(ctx, k, done) })
		patch := port.APIPatch{Key: k, From: made, To: with(made, running(s)), Status: true}
		patched := m.took("Patch", func(done func(port.APIObject, error)) { s.API.Patch(ctx, patch, done) })
		m.until("WatchLag", told, patched)
		next := with(lease, label("i", fmt.Sprint(i)))
		lease = m.took("Update", func(done func(port.APIObject, error)) { s.API.Update(ctx, next, done) })
		m.took("CreateToken", func(done func(port.APIObject, error)) {
			s.API.CreateToken(ctx, s.Namespace, s.name+"-sa", tokenFor(made, 3600), func(_ authenticationv1.TokenRequestStatus, err error) { done(nil, err) })
		})
		m.took("List", func(done func(port.APIObject, error)) {
			listing, end := context.WithCancel(ctx)
			first := true
			s.API.Watch(listing, port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + s.name + "-node"}, func(port.APIChange) {
				if first {
					first = false
					done(nil, nil)
					end()
				}
			}, func(error) {})
		})
		for _, grace := range []int64{30, 0} { // marked first, gone then
			m.took("Delete", func(done func(port.APIObject, error)) {
				s.API.Delete(ctx, port.APIDelete{Key: k, UID: made.UID, Grace: &grace}, func(err error) { done(nil, err) })
			})
		}
	}
	for _, a := range m.all {
		slices.Sort(a.Took)
	}
	return m.all
}

// measure is what was measured so far.
type measure struct {
	*suite
	all []contract.Measured
}

func (m *measure) add(method string, d time.Duration) {
	i := slices.IndexFunc(m.all, func(a contract.Measured) bool { return a.Method == method })
	if i < 0 {
		i = len(m.all)
		m.all = append(m.all, contract.Measured{Method: method})
	}
	m.all[i].Took = append(m.all[i].Took, d)
}

// took makes a call and notes how long it takes.
func (m *measure) took(method string, call func(done func(port.APIObject, error))) port.APIObject {
	m.Helper()
	type answer struct {
		o   port.APIObject
		err error
	}
	answered := make(chan answer, 1)
	begun := time.Now()
	call(func(o port.APIObject, err error) { answered <- answer{o, err} })
	select {
	case a := <-answered:
		if a.err != nil {
			m.Fatalf("%s: %v", method, a.err)
		}
		m.add(method, time.Since(begun))
		return a.o
	case <-time.After(time.Minute):
		m.Fatalf("%s is not answered", method)
		return nil
	}
}

// until notes how long it takes until the watch tells of that version.
func (m *measure) until(method string, told <-chan port.APIObject, o port.APIObject) {
	m.Helper()
	begun := time.Now()
	for {
		select {
		case is := <-told:
			if is.GetUID() == o.GetUID() && versionOf(m.suite, is) >= versionOf(m.suite, o) {
				m.add(method, time.Since(begun))
				return
			}
		case <-time.After(time.Minute):
			m.Fatalf("the watch doesn't tell of version %s", o.GetResourceVersion())
		}
	}
}
