package apicontract

import (
	"context"
	"errors"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// pending is a call that was made. Its fields belong to the suite's lock.
type pending[T any] struct {
	s       *suite
	what    string
	answers int
	value   T
	err     error
}

// begin makes a call. Its answer must not come before the call returns: an
// actor that makes a call is not ready for a result.
func begin[T any](s *suite, what string, call func(done func(T, error))) *pending[T] {
	p := &pending[T]{s: s, what: what}
	inside := s.Until != nil // where time stands still, inside can be told from later
	call(func(v T, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if inside {
			s.Errorf("%s: done was called inside the call", what)
		}
		if p.answers++; p.answers > 1 {
			s.Errorf("%s: done was called %d times", what, p.answers)
			return
		}
		p.value, p.err = v, err
	})
	if s.Until != nil { // elsewhere another goroutine may be reading it
		inside = false
	}
	return p
}

// result waits for the answer.
func (p *pending[T]) result() (T, error) {
	p.s.Helper()
	p.s.eventually(p.what+" is answered", func() bool { return p.answers > 0 })
	if p.err != nil {
		if e, ok := errors.AsType[*port.Error](p.err); !ok {
			p.s.Errorf("%s: error is a %T, want *port.Error: %v", p.what, p.err, p.err)
		} else if e.Verb == "" || e.Object == "" {
			p.s.Errorf("%s: error does not say what was tried on what: %v", p.what, p.err)
		}
	}
	return p.value, p.err
}

// ok fails the test if the call failed.
func (p *pending[T]) ok() T {
	p.s.Helper()
	v, err := p.result()
	if err != nil {
		p.s.Fatalf("%s: %v", p.what, err)
	}
	return v
}

// fails fails the test unless the call failed with one of the kinds.
func (p *pending[T]) fails(kinds ...port.ErrorKind) {
	p.s.Helper()
	v, err := p.result()
	switch {
	case err == nil:
		p.s.Errorf("%s: worked and gave %v, want an error of kind %v", p.what, v, kinds)
	case !slices.Contains(kinds, port.KindOf(err)):
		p.s.Errorf("%s: %v (kind %v), want kind %v", p.what, err, port.KindOf(err), kinds)
	}
}

func (s *suite) get(k port.APIKey) *pending[port.APIObject] {
	return begin(s, "Get "+k.String(), func(done func(port.APIObject, error)) {
		s.API.Get(context.Background(), k, done)
	})
}

func (s *suite) create(o port.APIObject) *pending[port.APIObject] {
	return begin(s, "Create "+port.APIKeyOf(o).String(), func(done func(port.APIObject, error)) {
		s.API.Create(context.Background(), o, done)
	})
}

func (s *suite) update(o port.APIObject) *pending[port.APIObject] {
	return begin(s, "Update "+port.APIKeyOf(o).String(), func(done func(port.APIObject, error)) {
		s.API.Update(context.Background(), o, done)
	})
}

// patch turns from into to, without their status.
func (s *suite) patch(from, to port.APIObject) *pending[port.APIObject] {
	return s.patchAs(port.APIPatch{Key: port.APIKeyOf(from), From: from, To: to})
}

// patchStatus turns the status of from into that of to.
func (s *suite) patchStatus(from, to port.APIObject) *pending[port.APIObject] {
	return s.patchAs(port.APIPatch{Key: port.APIKeyOf(from), From: from, To: to, Status: true})
}

func (s *suite) patchAs(p port.APIPatch) *pending[port.APIObject] {
	return begin(s, "Patch "+p.Key.String(), func(done func(port.APIObject, error)) {
		s.API.Patch(context.Background(), p, done)
	})
}

func (s *suite) delete(d port.APIDelete) *pending[struct{}] {
	return begin(s, "Delete "+d.Key.String(), func(done func(struct{}, error)) {
		s.API.Delete(context.Background(), d, func(err error) { done(struct{}{}, err) })
	})
}

// deleteNow deletes with no grace.
func (s *suite) deleteNow(o port.APIObject) *pending[struct{}] {
	return s.delete(port.APIDelete{Key: port.APIKeyOf(o), UID: o.GetUID(), Grace: new(int64)})
}

func (s *suite) token(account string, spec authenticationv1.TokenRequestSpec) *pending[authenticationv1.TokenRequestStatus] {
	return begin(s, "CreateToken "+account, func(done func(authenticationv1.TokenRequestStatus, error)) {
		s.API.CreateToken(context.Background(), s.Namespace, account, spec, done)
	})
}

// otherPatch changes an object through the other client.
func (s *suite) otherPatch(p port.APIPatch) port.APIObject {
	s.Helper()
	return begin(s, "Patch by another "+p.Key.String(), func(done func(port.APIObject, error)) {
		s.other().Patch(context.Background(), p, done)
	}).ok()
}

func (s *suite) otherCreate(o port.APIObject) port.APIObject {
	s.Helper()
	s.removeLater(o)
	return begin(s, "Create by another "+port.APIKeyOf(o).String(), func(done func(port.APIObject, error)) {
		s.other().Create(context.Background(), o, done)
	}).ok()
}

func (s *suite) otherDelete(o port.APIObject) {
	s.Helper()
	begin(s, "Delete by another "+port.APIKeyOf(o).String(), func(done func(struct{}, error)) {
		d := port.APIDelete{Key: port.APIKeyOf(o), UID: o.GetUID(), Grace: new(int64)}
		s.other().Delete(context.Background(), d, func(err error) { done(struct{}{}, err) })
	}).ok()
}

// made creates an object, and removes it when the test is over.
func (s *suite) made(o port.APIObject) port.APIObject {
	s.Helper()
	s.removeLater(o)
	return s.create(o).ok()
}

// removeLater removes whatever has o's name when the test is over.
func (s *suite) removeLater(o port.APIObject) {
	k := port.APIKeyOf(o)
	s.Cleanup(func() { s.remove(k) })
}

// remove removes an object if it is there, its finalizers first.
func (s *suite) remove(k port.APIKey) {
	s.Helper()
	o, err := s.get(k).result()
	if port.KindOf(err) == port.NotFound {
		return
	}
	if err != nil {
		s.Errorf("%s: can't be removed: %v", k, err)
		return
	}
	s.unfinalized(o)
	if _, err := s.delete(port.APIDelete{Key: k, Grace: new(int64)}).result(); err != nil && port.KindOf(err) != port.NotFound {
		s.Errorf("%s: can't be removed: %v", k, err)
	}
}

// unfinalized takes the finalizers off an object that is being deleted, or of
// which the apiserver protects every one (StorageObjectInUseProtection).
func (s *suite) unfinalized(o port.APIObject) {
	s.Helper()
	if len(o.GetFinalizers()) == 0 {
		return
	}
	to := clone(o)
	to.SetFinalizers(nil)
	if _, err := s.patch(o, to).result(); err != nil && port.KindOf(err) != port.NotFound {
		s.Errorf("%s: its finalizers can't be removed: %v", port.APIKeyOf(o), err)
	}
}

// clone is a copy that may be changed.
func clone[T port.APIObject](o T) T { return o.DeepCopyObject().(T) }

// with is a changed copy.
func with[T port.APIObject](o T, change func(T)) T {
	c := clone(o)
	change(c)
	return c
}

// as is what a call gave, by its own type.
func as[T port.APIObject](s *suite, o port.APIObject) T {
	s.Helper()
	v, ok := o.(T)
	if !ok {
		s.Fatalf("got a %T, want a %T", o, v)
	}
	return v
}
