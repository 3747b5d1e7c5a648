package check

import (
	"errors"
	"testing"
)

// recorder is a test that notes how it fails. Its Fatal panics, for which it needs no goroutine.
type recorder struct {
	testing.TB
	errors []error
	ended  bool
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, args[0].(error)) }
func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	r.ended = true
	panic("ended")
}

func TestCheck(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		do            func(t testing.TB)
		failed, ended bool
	}{
		"fatal, none": {func(t testing.TB) { Fatal(t, nil) }, false, false},
		"fatal":       {func(t testing.TB) { Fatal(t, broken) }, true, true},
		"error, none": {func(t testing.TB) { Error(t, nil) }, false, false},
		"error":       {func(t testing.TB) { Error(t, broken) }, true, false},
		"value, none": {func(t testing.TB) {
			if Value(1, nil)(t) != 1 {
				panic("another value")
			}
		}, false, false},
		"value":       {func(t testing.TB) { Value(1, broken)(t) }, true, true},
		"that, holds": {func(t testing.TB) { Error(t, That(true, "%w", broken)) }, false, false},
		"that":        {func(t testing.TB) { Error(t, That(false, "%w", broken)) }, true, false},
	} {
		r, passed := &recorder{}, false
		func() {
			defer func() { _ = recover() }() // seen by passed
			c.do(r)
			passed = true
		}()
		if (len(r.errors) == 1) != c.failed || r.ended != c.ended || passed == c.ended || c.failed && !errors.Is(r.errors[0], broken) {
			t.Errorf("%s: it has %v, and has ended: %t; after it the test went on: %t", name, r.errors, r.ended, passed)
		}
	}
}
