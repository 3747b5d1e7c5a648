package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/troupe-dev/troupe/supervisor/internal/serving"
)

const (
	// headerTimeout bounds the TLS handshake, and the header of a request.
	headerTimeout = 10 * time.Second
	// shortTimeout bounds a request that is not Long: reading its body, and writing the answer.
	shortTimeout = 30 * time.Second
	idleTimeout  = 90 * time.Second // the limit of Go's clients
	endTimeout   = time.Second
	// headerLimit leaves room for the command of an exec, which is in the query: one argument may have 128 KiB, and is up
	// to three times as long when it is escaped. It is that of an apiserver and a kubelet.
	headerLimit = http.DefaultMaxHeaderBytes
	bodyLimit   = 1 << 20
	// shortSlots and longSlots bound concurrent requests, userShare those of one user, and namespaceShare those about one
	// namespace: see slots.
	shortSlots     = 128
	longSlots      = 2048
	userShare      = 3
	namespaceShare = 3
	// streamLimit bounds the concurrent requests of one HTTP/2 connection: an apiserver uses one
	// for all.
	streamLimit = 1024
)

// Config is what a server needs.
type Config struct {
	// Address is host:port.
	Address string
	// Node is the node's name: clients must have access to its subresources.
	Node string
	// TLS has the server's certificate; see Certificate. Nil: HTTP without TLS, for the read-only
	// port, or for tests.
	TLS *tls.Config
	// Authenticator and Authorizer check clients; see Access. Without them there is no
	// authentication, and only ReadOnly routes exist.
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	Routes        []Route
	// Observe is called for each request, and its result when the request has ended; nil if
	// unused.
	Observe func(Served) (ended func())
	// Around, if not nil, wraps the handler of all requests. name is the method and the first element of the
	// path, as in Served.
	Around func(h http.Handler, name func(*http.Request) string) http.Handler
	Log    zerolog.Logger
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Address == "":
		return errors.New("serve: Address is not set")
	case c.Node == "":
		return errors.New("serve: Node is not set")
	case (c.Authenticator == nil) != (c.Authorizer == nil):
		return errors.New("serve: authenticator and authorizer belong together")
	}
	return nil
}

// Server listens at once, and answers while Serve runs.
type Server struct {
	config      Config
	http        *http.Server
	listener    net.Listener
	mux         *http.ServeMux
	roots       map[string]bool // of the paths of routes
	short, long slots
	limiter     *connLimiter
}

// Listen opens the listener.
func Listen(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		config: c, short: slots{most: shortSlots}, long: slots{most: longSlots}, limiter: newConnLimiter(usualBounds, c.Log),
	}
	routes := c.Routes
	if c.Authenticator == nil {
		routes = nil
		for _, r := range c.Routes {
			if r.ReadOnly {
				routes = append(routes, r)
			}
		}
	}
	s.roots = map[string]bool{}
	for _, r := range routes {
		s.roots[rootOf(r.Path)] = true
	}
	var err error
	if s.mux, err = s.bind(routes); err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", c.Address); err != nil {
		return nil, fmt.Errorf(
			"server on %s: %w: stop the process that uses the port, or choose another port (port, readOnlyPort)", c.Address, err,
		)
	}
	var handler http.Handler = s
	if c.Around != nil {
		handler = c.Around(s, func(r *http.Request) string {
			of := s.served(r)
			return of.Method + " /" + of.Path
		})
	}
	s.http = &http.Server{
		Handler: handler, TLSConfig: c.TLS,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: shortTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerLimit,
		// A client that stops reading must not block all its streams.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: streamLimit, WriteByteTimeout: shortTimeout},
		ConnContext: remember, ConnState: s.limiter.state,
		ErrorLog: stdlog.New(quiet{c.Log}, "", 0),
	}
	if c.TLS != nil && len(c.TLS.NextProtos) > 0 && !slices.Contains(c.TLS.NextProtos, "h2") {
		s.http.Protocols = &http.Protocols{}
		s.http.Protocols.SetHTTP1(true)
	}
	return s, nil
}

// Address is the address of the listener.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve answers until ctx ends. Running streams are then closed.
func (s *Server) Serve(ctx context.Context) error {
	base, cancel := context.WithCancel(ctx) // it ends the streams, including hijacked ones
	defer cancel()
	s.http.BaseContext = func(net.Listener) context.Context { return base }
	err := serving.HTTP(ctx, s.http, endTimeout, func() error {
		in := limitedListener{s.listener, s.limiter}
		if s.config.TLS != nil {
			return s.http.ServeTLS(in, "", "")
		}
		return s.http.Serve(in)
	})
	if err != nil {
		return fmt.Errorf("server on %s: %w", s.Address(), err)
	}
	return nil
}

// Close closes the listener of a server that never ran.
func (s *Server) Close() error { return s.listener.Close() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.config.Observe != nil {
		defer s.config.Observe(s.served(r))()
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// Nobody needs cookies here, and a megabyte of them is one string that takes a kilobyte to send (HPACK).
	r.Header.Del("Cookie")
	if g := connIn(r.Context()); g != nil {
		defer s.limiter.beginRequest(g)()
	}
	// Until a request is authorized: a refused client might not read the answer, and so hold its
	// stream.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(shortTimeout)) //nolint:errcheck // see answer
	if h, _ := s.mux.Handler(r); isBound(h) {
		s.mux.ServeHTTP(w, r) // not h: only the mux gives the request its values
		return
	}
	// No such path, or one with .. in it, which the mux would redirect.
	if _, ok := s.admit(w, r, verb(r.Method), Proxy); ok {
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

func isBound(h http.Handler) bool {
	_, is := h.(*bound)
	return is
}

// answer calls a route's handler for a user, within the limits.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, b *bound, user string) {
	slots := &s.short
	if b.Long {
		slots = &s.long
	}
	give, ok := slots.take(user, r.PathValue("namespace"))
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests of this kind are in progress: try again", http.StatusTooManyRequests)
		return
	}
	defer give()
	control := http.NewResponseController(w)
	var read, write time.Time // none
	if !b.Long {
		write = time.Now().Add(shortTimeout)
		read = write
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
		ctx, cancel := context.WithDeadline(r.Context(), write)
		defer cancel()
		r = r.WithContext(ctx)
	}
	// A test's connection may have no deadlines.
	control.SetReadDeadline(read)   //nolint:errcheck // see above
	control.SetWriteDeadline(write) //nolint:errcheck // see above
	b.Handler.ServeHTTP(w, r)
}

// slots bound the requests of a kind that are answered at a time. A user may have three times as many as are left, so
// that some are left for others, whatever users do who are let in: they may read slowly. Most come through an
// apiserver, which is one user: requests about the pods of one namespace may have a third of what is left.
type slots struct {
	most int

	mu  sync.Mutex
	all int
	// of are those of a user, about those about a namespace.
	of, about map[string]int
}

// take takes a slot; false if there is none for that user, or for pods of that namespace, which is empty for none.
func (s *slots) take(user, namespace string) (give func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.most - s.all
	if s.of[user] >= userShare*left || namespace != "" && s.about[namespace]*namespaceShare >= left {
		return nil, false
	}
	if s.of == nil {
		s.of, s.about = map[string]int{}, map[string]int{}
	}
	s.all++
	s.of[user]++
	s.about[namespace]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[user]--; s.of[user] == 0 {
			delete(s.of, user)
		}
		if s.about[namespace]--; s.about[namespace] == 0 {
			delete(s.about, namespace)
		}
	}, true
}

// quiet receives net/http's complaints about clients, which any client can cause.
type quiet struct{ log zerolog.Logger }

var _ io.Writer = quiet{}

// Write implements io.Writer.
func (q quiet) Write(b []byte) (int, error) {
	q.log.Debug().Msg(string(b))
	return len(b), nil
}
