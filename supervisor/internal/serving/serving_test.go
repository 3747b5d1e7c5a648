package serving_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/internal/serving"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestUntil: a server that fails or panics before its end says so; one that is ended has no error, and is waited for.
func TestUntil(t *testing.T) {
	failure := errors.New("the port is gone")
	check.Equal(t, serving.Until(t.Context(), func() error { return failure }, nil), failure, "it failed")
	err := serving.Until(t.Context(), func() error { panic("no such thing") }, nil)
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("it panicked: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	over, served := make(chan struct{}), false
	check.Error(t, serving.Until(ctx, func() error { <-over; served = true; return failure }, func() { close(over) }))
	check.Equal(t, served, true, "it was waited for")
}

// TestHTTP: a request under way is answered within the grace, and cut off after it.
func TestHTTP(t *testing.T) {
	for grace, whole := range map[time.Duration]bool{time.Minute: true, 0: false} {
		begun, release := make(chan struct{}), make(chan struct{})
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			select {
			case <-release:
			case <-r.Context().Done():
			}
			io.WriteString(w, "done") //nolint:errcheck // the client may be cut off
		})}
		l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended, answer := make(chan error, 1), make(chan string, 1)
		go func() { ended <- serving.HTTP(ctx, s, grace, func() error { return s.Serve(l) }) }()
		go func() {
			text := ""
			if r, err := http.Get("http://" + l.Addr().String()); err == nil {
				b, _ := io.ReadAll(r.Body) //nolint:errcheck // it may be cut off
				r.Body.Close()
				text = string(b)
			}
			answer <- text
		}()
		check.Receive(t, begun)
		cancel()
		if whole {
			close(release)
		}
		check.Equal(t, check.Receive(t, answer) == "done", whole, "with a grace of %s it is answered", grace)
		check.Error(t, check.Receive(t, ended))
	}
}
