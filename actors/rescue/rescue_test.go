package rescue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/rescue"
)

func TestCall(t *testing.T) {
	var short []int
	for _, c := range []struct {
		name string
		work func()
		want []string
	}{
		{"nothing", func() {}, nil},
		{"a text", func() { panic("no such thing") }, []string{"panic: no such thing (rescue_test.go:"}},
		{"an index", func() { _ = short[len(short)] }, []string{"index out of range [0] with length 0 (rescue_test.go:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told, failed []string
			ctx := context.WithValue(t.Context(), rescue.Key, rescue.Told(func(reason string, stack []byte) {
				told = append(told, reason)
				if !strings.Contains(string(stack), "rescue_test.go") {
					t.Errorf("the stack has no frame of the work: %s", stack)
				}
			}))
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			func() {
				defer rescue.Call(ctx, func(reason string) { failed = append(failed, reason) })
				c.work()
			}()
			if len(told) != len(c.want) || len(failed) != len(c.want) {
				t.Fatalf("told %q, failed with %q; want %q", told, failed, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(failed[i], want) {
					t.Errorf("failed with %q; want %q", failed[i], want)
				}
			}
		})
	}
}

func TestWithoutEffect(t *testing.T) {
	failed := ""
	func() {
		defer rescue.Call(t.Context(), func(reason string) { failed = reason })
		panic("alone")
	}()
	if !strings.HasPrefix(failed, "panic: alone (rescue_test.go:") {
		t.Error(failed)
	}
}

// TestAnswer: a call is answered once, also if what takes the answer panics.
func TestAnswer(t *testing.T) {
	answered := func(work func() (int, error), after func()) (got []string) {
		defer func() { _ = recover() }()
		rescue.Answer(t.Context(), work, func(reason string) error { return errors.New(reason) }, func(n int, err error) {
			got = append(got, fmt.Sprint(n, " ", err != nil))
			after()
		})
		return got
	}
	works, breaks := func() (int, error) { return 1, nil }, func() (int, error) { panic("no such thing") }
	nothing, panics := func() {}, func() { panic("after it") }
	for name, got := range map[string][]string{
		"1 false": answered(works, nothing), "0 true": answered(breaks, nothing),
	} {
		if len(got) != 1 || got[0] != name {
			t.Errorf("answered with %q, want %s", got, name)
		}
	}
	if got := answered(works, panics); len(got) != 1 {
		t.Errorf("answered with %q, want once", got)
	}
}

// TestGo: a panic of what is to fail the call is told too, and ends nothing.
func TestGo(t *testing.T) {
	told := make(chan string, 2)
	ctx := rescue.With(t.Context(), func(reason string, _ []byte) { told <- reason })
	rescue.Go(ctx, func() { panic("the work") }, func(string) { panic("the failing") })
	for _, want := range []string{"the work", "the failing"} {
		if got := <-told; got != want {
			t.Errorf("told of %q, want %q", got, want)
		}
	}
}

// TestAsk: a call on a goroutine of its own is answered, also by its panic.
func TestAsk(t *testing.T) {
	failed := func(reason string) error { return errors.New(reason) }
	for _, c := range []struct {
		name, want string
		work       func() error
	}{
		{"works", "", func() error { return nil }},
		{"fails", "no", func() error { return errors.New("no") }},
		{"panics", "panic: no such thing (rescue_test.go:", func() error { panic("no such thing") }},
	} {
		got := make(chan error, 1)
		rescue.Do(t.Context(), c.work, failed, func(err error) { got <- err })
		if err := <-got; (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: answered with %v, want %q", c.name, err, c.want)
		}
	}
}

// TestTry: the goroutine goes on after a step that panicked.
func TestTry(t *testing.T) {
	if n, err := rescue.Try(t.Context(), func() (int, error) { return 1, nil }); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	n, err := rescue.Try(t.Context(), func() (int, error) { panic("no such thing") })
	if n != 0 || err == nil || !strings.HasPrefix(err.Error(), "panic: no such thing (rescue_test.go:") {
		t.Errorf("%d, %v", n, err)
	}
}
