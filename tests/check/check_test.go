package check

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a test that notes how it fails. Its Fatal panics, for which it needs no goroutine.
type recorder struct {
	testing.TB
	errors []error
	ended  bool
}

func (r *recorder) Helper()                           {}
func (r *recorder) Error(args ...any)                 { r.errors = append(r.errors, args[0].(error)) }
func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Errorf(format, args...)) }
func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	r.ended = true
	panic("ended")
}

func TestCheck(t *testing.T) { synctest.Test(t, testCheck) }

func testCheck(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		do    func(t testing.TB)
		says  string
		ended bool
	}{
		"fatal, none": {func(t testing.TB) { Fatal(t, nil) }, "", false},
		"fatal":       {func(t testing.TB) { Fatal(t, broken) }, "broken", true},
		"error, none": {func(t testing.TB) { Error(t, nil) }, "", false},
		"error":       {func(t testing.TB) { Error(t, broken) }, "broken", false},
		"value, none": {func(t testing.TB) {
			if Value(1, nil)(t) != 1 {
				panic("another value")
			}
		}, "", false},
		"value": {func(t testing.TB) { Value(1, broken)(t) }, "broken", true},
		"values, none": {func(t testing.TB) {
			if one, other := Values(1, "2", nil)(t); one != 1 || other != "2" {
				panic("other values")
			}
		}, "", false},
		"values": {func(t testing.TB) { Values(1, 2, broken)(t) }, "broken", true},
		"receive": {func(t testing.TB) {
			if Receive(t, time.After(time.Minute)).IsZero() {
				panic("another value")
			}
		}, "", false},
		"receive, nothing": {func(t testing.TB) { Receive[int](t, nil) }, "nothing came", true},
		"until": {func(t testing.TB) {
			begin := time.Now()
			Until(t, "a minute", func() bool { return time.Since(begin) > time.Minute })
		}, "", false},
		"until, never": {func(t testing.TB) { Until(t, "never", func() bool { return false }) }, "never did not come", true},
		"equal":        {func(t testing.TB) { Equal(t, 1, 1, "it") }, "", false},
		"not equal":    {func(t testing.TB) { Equal(t, "a", "b", "pod %d", 1) }, `pod 1: "a", want "b"`, false},
		"same":         {func(t testing.TB) { Same(t, nil, []int{}, "it") }, "", false},
		"not same":     {func(t testing.TB) { Same(t, []string{"a"}, nil, "it") }, `it: ["a"], want []`, false},
		"deep":         {func(t testing.TB) { Deep(t, &[]int{1}, &[]int{1}, "it") }, "", false},
		"not deep":     {func(t testing.TB) { Deep(t, nil, map[string]int{"a": 1}, "it") }, "it: <nil>, want map[a:1]", false},
		"says":         {func(t testing.TB) { Says(t, Err(1, broken), "rok", "it") }, "", false},
		"says others":  {func(t testing.TB) { Says(t, broken, "whole", "it") }, `it: broken, want an error that says "whole"`, false},
		"says none":    {func(t testing.TB) { Says(t, nil, "", "it") }, `it: <nil>, want an error that says ""`, false},
		"fails":        {func(t testing.TB) { Fails(t, broken, "it") }, "", false},
		"goes well":    {func(t testing.TB) { Fails(t, nil, "pod %d", 1) }, "pod 1: no error", false},
		"that, holds":  {func(t testing.TB) { Error(t, That(true, "%w", broken)) }, "", false},
		"that":         {func(t testing.TB) { Error(t, That(false, "%w", broken)) }, "broken", false},
	} {
		r, passed := &recorder{}, false
		func() {
			defer func() { _ = recover() }() // seen by passed
			c.do(r)
			passed = true
		}()
		said := errors.Join(r.errors...)
		if (said == nil) != (c.says == "") || said != nil && said.Error() != c.says || r.ended != c.ended || passed == c.ended {
			t.Errorf("%s: it has %v, and has ended: %t; after it the test went on: %t", name, r.errors, r.ended, passed)
		}
	}
}
