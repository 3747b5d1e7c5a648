package admin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/troupe-dev/troupe/supervisor/internal/serving"
)

// WebConfig is how the page is reached with a browser.
type WebConfig struct {
	// Address is host:port of the loopback interface; a port of 0 is any.
	Address string
	// Socket is the agent's.
	Socket string
}

// Web serves the page on the loopback interface, and relays its requests to the agent's socket.
// Any user of the machine can connect to such a port, so it answers only requests with a secret,
// which is new for each run. The secret follows the # of the page's address, which no browser
// sends anywhere. The page itself has no data, and sends the secret with each request. The secret
// is no cookie, so no other web site can make a browser send it.
type Web struct {
	http     *http.Server
	listener net.Listener
	secret   string
}

// ListenWeb opens the port.
func ListenWeb(c WebConfig) (*Web, error) {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w: give host:port, such as 127.0.0.1:0", c.Address, err)
	}
	if host == "" || host == clientHost || !local(host) {
		return nil, fmt.Errorf("address %q: the page is served on this machine only: give a loopback address, such as "+
			"127.0.0.1:0; "+
			"from another machine, forward the port (ssh -L)", c.Address)
	}
	if len(c.Socket) > pathLimit {
		return nil, fmt.Errorf("admin socket %s: the path has %d bytes, the limit is %d: choose a shorter --root-dir",
			c.Socket, len(c.Socket), pathLimit)
	}
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the page: %w: choose another --listen", err)
	}
	w := &Web{listener: l, secret: rand.Text()}
	w.http = &http.Server{
		Handler:           limit(localOnly(w.handler(Client{Socket: c.Socket}))),
		ReadHeaderTimeout: ioTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerLimit,
	}
	return w, nil
}

// URL is where the page is, with the secret.
func (w *Web) URL() string {
	return (&url.URL{Scheme: "http", Host: w.listener.Addr().String(), Path: "/", Fragment: "secret=" + w.secret}).String()
}

// Close closes the port of a Web that never served.
func (w *Web) Close() error { return w.listener.Close() }

// Serve answers until ctx ends.
func (w *Web) Serve(ctx context.Context) error {
	if err := serving.HTTP(ctx, w.http, 0, func() error { return w.http.Serve(w.listener) }); err != nil {
		return fmt.Errorf("cannot serve the page: %w", err)
	}
	return nil
}

func (w *Web) handler(agent Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", servePage)
	mux.Handle("GET /v1/", w.known(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			path, query := r.In.URL.Path, r.In.URL.RawQuery
			r.Out.URL = &url.URL{Scheme: "http", Host: clientHost, Path: path, RawQuery: query}
			r.Out.Host, r.Out.Header = clientHost, http.Header{}
		},
		Transport: agent.transport(),
		ModifyResponse: func(r *http.Response) error {
			for _, name := range guarded { // they are there already
				r.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(out http.ResponseWriter, _ *http.Request, err error) {
			refuse(out, http.StatusBadGateway, agent.explain(err).Error())
		},
	}))
	mux.HandleFunc("/", func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			out.Header().Set("Allow", "GET, HEAD")
			refuse(out, http.StatusMethodNotAllowed, "this endpoint is read-only")
			return
		}
		refuse(out, http.StatusNotFound, "not found: open /")
	})
	return mux
}

// errStranger is the answer to a request without the secret.
var errStranger = errors.New("the secret is missing or outdated: open the URL that `troupe web` prints")

// known admits only requests with the secret.
func (w *Web) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(given), []byte(w.secret)) != 1 {
			refuse(out, http.StatusUnauthorized, errStranger.Error())
			return
		}
		next.ServeHTTP(out, r)
	})
}
