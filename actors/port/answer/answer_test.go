package answer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/actors/port/answer"
)

func TestOf(t *testing.T) {
	failure := errors.New("no")
	if got, err := answer.Of(t.Context(), func(done func(int, error)) { go done(7, failure) }); got != 7 || !errors.Is(err, failure) {
		t.Errorf("%d, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var late func(int, error)
	got, err := answer.Of(ctx, func(done func(int, error)) { late = done; cancel() })
	if got != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v of a port that keeps silent", got, err)
	}
	late(7, nil) // and it does not block
}
