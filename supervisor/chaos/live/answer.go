package live

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/apiproxy"
)

// answer is that of an apiserver, kept.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) { a.code = code }

func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// send gives it to the client, which may have gone.
func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body.Bytes())
}

// detach is a request that is made whether its client waits or not.
func detach(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = nil // the client has gone while it sent it, and the apiserver refuses the rest
	}
	d := r.Clone(context.WithoutCancel(r.Context()))
	d.Body = io.NopCloser(bytes.NewReader(body))
	return d
}

// begin makes a request and keeps the answer.
func begin(r *http.Request, next http.Handler) *answer {
	a := &answer{header: http.Header{}, code: http.StatusOK}
	defer func() {
		if recover() != nil { // the proxy can't reach the apiserver
			a.code = http.StatusBadGateway
		}
	}()
	next.ServeHTTP(a, detach(r))
	return a
}

// unavailable is how an apiserver answers that has no time.
var unavailable = apiproxy.Status(http.StatusServiceUnavailable, "ServiceUnavailable", chaos.Planted, 0)
