package unixsocket_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/supervisor/internal/unixsocket"
)

// TestContained: a handler that panics fails its own call.
func TestContained(t *testing.T) {
	answer, err := unixsocket.Contained(t.Context(), 1, nil, func(_ context.Context, n any) (any, error) { return n, nil })
	if answer != 1 || err != nil {
		t.Errorf("%v, %v", answer, err)
	}
	answer, err = unixsocket.Contained(t.Context(), 1, nil, func(context.Context, any) (any, error) { panic("no such thing") })
	if answer != nil || status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "panic: no such thing (") {
		t.Errorf("%v, %v", answer, err)
	}
}
