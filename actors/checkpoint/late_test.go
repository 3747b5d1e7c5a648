package checkpoint

import (
	"context"
	"testing"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// aside notes what is set aside.
type aside struct {
	port.Checkpoints
	names []string
}

func (a *aside) SetAside(_ context.Context, name string, done func(string, error)) {
	a.names = append(a.names, name)
	done(name+".damaged", nil)
}

// TestReadTooLate: a damaged file that a disk gives only after the deadline is not set aside. Its actor has gone on
// without it, so that a good one may be in its place.
func TestReadTooLate(t *testing.T) {
	f := &File[struct{}]{Name: "x"}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		data string
		want []string
		err  error
	}{
		{"damaged", t.Context(), "damaged", []string{"x"}, nil},
		{"damaged, and too late", over, "damaged", nil, context.Canceled},
		{"whole, and too late", over, string(Seal([]byte("{}"))), nil, context.Canceled},
	} {
		store := &aside{}
		f.read(tt.ctx, store, []byte(tt.data), nil, func(_ Content, err error) {
			check.Equal(t, err, tt.err, "%s: the error", tt.name)
		})
		check.Same(t, store.names, tt.want, "%s: set aside were", tt.name)
	}
}
