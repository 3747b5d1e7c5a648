package hostcall

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnEndedContextIsToldOnce(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	got := make(chan error, 2)
	begun, release := make(chan struct{}), make(chan struct{})
	Do(ended, "Verb", "object", func(context.Context) error {
		close(begun)
		<-release
		return nil
	}, func(err error) { got <- err })
	<-begun
	cancel()
	hosttest.WantError(t, <-got, port.Canceled, "Verb object")
	close(release)
	Do(ended, "Verb", "object", func(context.Context) error {
		t.Error("it was begun although nobody waits")
		return nil
	}, func(err error) { got <- err })
	hosttest.WantError(t, <-got, port.Canceled)
	check.Equal(t, len(got), 0, "done was called twice")
}

func TestPanicIsAnError(t *testing.T) {
	got := make(chan error, 2)
	Do(t.Context(), "Verb", "object", func(context.Context) error { panic("in the call") }, func(err error) { got <- err })
	hosttest.WantError(t, <-got, port.Panic, "Verb object", "panic: in the call (call_test.go:")
	Do(t.Context(), "Verb", "object", func(context.Context) error { return nil }, func(err error) {
		got <- err
		panic("after it")
	})
	if err := <-got; err != nil || len(got) != 0 {
		t.Error("not answered once:", err)
	}
}
