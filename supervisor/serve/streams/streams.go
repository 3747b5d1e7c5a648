// Package streams serves what of the node's HTTPS API streams: /exec, /attach and /portForward, and
// /run, which is an exec whose output is collected.
//
//	client ──WebSocket, SPDY──► node ──────────────────────────► streaming server of the runtime
//	                              1. which pod, which container
//	                              2. CRI Exec, Attach, PortForward: a URL
//	                              3. carry bytes between the two
//
// SPDY and the older WebSocket protocols (channel.k8s.io to v4.channel.k8s.io) are spoken by runtimes
// themselves: bytes are carried as they are, but for the pings of SPDY, which are answered here. What
// runtimes do not speak is translated here to SPDY: v5.channel.k8s.io, in which stdin can end before the
// rest, and port forwarding that is tunneled through a WebSocket (KEP-4006). A node that does so says
// ExtendWebSocketsToKubelet among the features of its status, and the apiserver sends WebSockets on to it.
//
// Nothing is kept of a stream but two buffers of 32 KiB: a side that does not read makes the other one
// wait. How long a stream may be idle is up to the runtime (stream_idle_timeout of containerd). When one side ends, the
// other one gets what is on the way to it (linger).
package streams

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// Feature is what a node that serves WebSockets here says in status.declaredFeatures (KEP-4006).
const Feature = "ExtendWebSocketsToKubelet"

// Runtime is what is needed of a container runtime. See port.Runtime for the calls that it has too.
type Runtime interface {
	port.Streams
	List(ctx context.Context, uid string, done func(observed.Runtime, error))
}

// Config is what streams are connected to. All must be set.
type Config struct {
	Runtime Runtime
	// Pods are the pods of this name that the node has, the newest first: there may be one that ends
	// and one that comes. They are not changed.
	Pods func(ctx context.Context, namespace, name string) ([]*v1.Pod, error)
	// WebSocket is told of each WebSocket that the runtime does not speak, for metrics. subresource is exec, attach or
	// portforward.
	WebSocket func(subresource string)
	Log       zerolog.Logger
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	switch {
	case c.Runtime == nil:
		return errors.New("streams: Runtime is not set")
	case c.Pods == nil:
		return errors.New("streams: Pods is not set")
	case c.WebSocket == nil:
		return errors.New("streams: WebSocket is not set")
	}
	return nil
}

// Streams are the handlers. They read the path values namespace, pod, container and, if there is one,
// uid of the request (http.Request.PathValue).
type Streams struct {
	config Config

	// closing ends all streams.
	closing context.Context
	close   context.CancelFunc
	// mu guards the order of open.Add against open.Wait.
	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
}

// New makes the handlers.
func New(c Config) (*Streams, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Streams{config: c}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Close ends all streams and waits until each has ended. http.Server.Shutdown does not do that: it
// knows nothing of connections that have changed their protocol. Later requests get 503.
func (s *Streams) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.close()
	s.open.Wait()
}

// enter counts a request in; false if the streams are closed.
func (s *Streams) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.open.Add(1)
	}
	return !s.closed
}

// Route is a path of the API, as net/http.ServeMux takes it, and the methods that it answers to.
type Route struct {
	Path    string
	Methods []string
	Handler http.Handler
}

// Routes are all of them. They take as long as their clients like.
func (s *Streams) Routes() []Route {
	const pod, uid, container = "/{namespace}/{pod}", "/{uid}", "/{container}"
	post, both := []string{http.MethodPost}, []string{http.MethodGet, http.MethodPost}
	exec, attach := s.handler(s.exec), s.handler(s.attach)
	forward, run := s.handler(s.portForward), s.handler(s.run)
	return []Route{
		{"/exec" + pod + container, both, exec},
		{"/exec" + pod + uid + container, both, exec},
		{"/attach" + pod + container, both, attach},
		{"/attach" + pod + uid + container, both, attach},
		{"/portForward" + pod, both, forward},
		{"/portForward" + pod + uid, both, forward},
		{"/run" + pod + container, post, run},
		{"/run" + pod + uid + container, post, run},
	}
}

// handler makes a handler of what answers with an error as long as nothing was written.
func (s *Streams) handler(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			refuse(w, errStopping)
			return
		}
		defer s.open.Done()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.closing, cancel)()
		if err := serve(w, r.WithContext(ctx)); err != nil {
			refuse(w, err)
		}
	})
}
