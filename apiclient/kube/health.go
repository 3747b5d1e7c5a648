package kube

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
)

// health logs whether the apiserver is reachable: one line when it is not, one when the reason
// changes, one when it is back. Each watch detects that for itself; one line stands for all.
type health struct {
	log  zerolog.Logger
	host string

	mu sync.Mutex
	// silent are the watches that do not reach the apiserver.
	silent map[*watch]struct{}
	since  time.Time
	kind   port.ErrorKind
}

func newHealth(log zerolog.Logger, host string) *health {
	return &health{log: log, host: host, silent: map[*watch]struct{}{}}
}

// broke is called by a watch that fails, once for each reason.
func (h *health) broke(w *watch, err error) {
	kind := port.KindOf(err)
	switch kind {
	case port.Unavailable, port.Deadline, port.Unauthorized:
	default: // it concerns this watch only
		h.log.Warn().Str("apiserver", h.host).Str("error", err.Error()).Msg("watch failed; retrying")
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first := len(h.silent) == 0
	h.silent[w] = struct{}{}
	if first {
		h.since = time.Now()
	} else if h.kind == kind {
		return
	}
	h.kind = kind
	line, what := h.log.Warn(), "the apiserver does not answer; pods keep running; retrying"
	if kind == port.Unauthorized {
		line, what = h.log.Error(), "the apiserver rejects the credential of this node; pods keep running; retrying"
	}
	line.Str("apiserver", h.host).Str("error", err.Error()).Msg(what)
}

// heard is called by a watch that continues.
func (h *health) heard(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, was := h.silent[w]; !was {
		return
	}
	delete(h.silent, w)
	if len(h.silent) == 0 {
		h.log.Info().Str("apiserver", h.host).Dur("after", time.Since(h.since)).Msg("the apiserver answers again")
	}
}

// ended is called by a watch that ends, which says nothing about the apiserver.
func (h *health) ended(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.silent, w)
}
