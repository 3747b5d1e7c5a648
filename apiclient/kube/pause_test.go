package kube

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/internal/patience"
)

func TestPauses(t *testing.T) {
	silent, refused := syscall.ECONNREFUSED, apierrors.NewUnauthorized("no")
	broken := apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	for _, c := range []struct {
		name            string
		kind            port.APIKind
		err             error
		lasted          time.Duration
		tries           int
		atLeast, atMost time.Duration
	}{
		{"nobody answers, first", port.PodKind, silent, 0, 1, 100 * time.Millisecond, 150 * time.Millisecond},
		{"nobody answers, for long", port.PodKind, silent, 0, 1000, time.Second, 1500 * time.Millisecond},
		{"503 is nobody", port.PodKind, apierrors.NewServiceUnavailable("no"), 0, 1000, time.Second, 1500 * time.Millisecond},
		{"an end without an error", port.PodKind, nil, 0, 1, 100 * time.Millisecond, 150 * time.Millisecond},
		{"refused, first", port.PodKind, refused, 0, 1, 500 * time.Millisecond, 750 * time.Millisecond},
		{"refused, for long", port.PodKind, refused, 0, 1000, 15 * time.Second, 23 * time.Second},
		{"something went wrong, for long", port.PodKind, broken, 0, 1000, 2 * time.Second, 3 * time.Second},
		{"too much to do, for long", port.NodeKind, apierrors.NewTooManyRequestsError("later"), 0, 1000, 2 * time.Second, 3 * time.Second},
		{"something went wrong, for whom there are many", port.SecretKind, broken, 0, 1000, 15 * time.Second, 23 * time.Second},
		{"something else, for long", port.PodKind, errors.New("what"), 0, 1000, 2 * time.Second, 3 * time.Second},
		{"after it went well", port.PodKind, refused, patience.Settled, 1000, 500 * time.Millisecond, 750 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := patience.Pauses{}
			var d time.Duration
			for range c.tries {
				d = pause(&p, c.kind, c.err, c.lasted)
			}
			if d < c.atLeast || d > c.atMost {
				t.Errorf("try %d waits %v, want %v to %v", c.tries, d, c.atLeast, c.atMost)
			}
		})
	}
	// What came while nobody answered does not count against the one who does.
	p := patience.Pauses{}
	for range 100 {
		pause(&p, port.PodKind, silent, 0)
	}
	if d := pause(&p, port.PodKind, refused, 0); d > 750*time.Millisecond {
		t.Errorf("the first refusal after an outage waits %v", d)
	}
}

func TestEndingClock(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := endingClock{ctx: ctx}
	<-c.After(time.Millisecond)
	long := c.After(time.Hour)
	cancel()
	<-long
	<-c.After(time.Hour)
	if sleep(ctx, time.Hour) || !sleep(t.Context(), time.Nanosecond) {
		t.Error("sleep says the wrong thing")
	}
}
