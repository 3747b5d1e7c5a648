package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/internal/serving"
	"github.com/troupe-dev/troupe/supervisor/internal/unixsocket"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

const (
	// pathLimit is the longest path of a unix socket, in bytes (unix(7)).
	pathLimit = 107
	// podsTimeout bounds the question to the podview actor.
	podsTimeout = 5 * time.Second
	// requestLimit is how many requests are answered at once.
	requestLimit = 16
	ioTimeout    = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	headerLimit  = 8 << 10
	dialTimeout  = 2 * time.Second
)

// Config is what the server shows.
type Config struct {
	// Socket is the path of the socket; see SocketIn.
	Socket string
	// Tree must not ask any actor: it shows the one that is stuck.
	Tree func() Tree
	// Pods asks the podview actor, which may not answer: it has to end with ctx.
	Pods func(ctx context.Context) (podview.View, error)
	// Events are the recent ones of a pod (namespace/name), of all if that is
	// empty, oldest first.
	Events func(pod string) []EventView
	// Timeline is what happened to a pod, named by namespace/name, name or UID. Its
	// errors are those of timeline.Recorder.Story.
	Timeline func(pod string) (timeline.View, error)
	// Gone are the ended pods that Timeline still has, the last one first.
	Gone func() []timeline.Listed
	// Letters are the newest dead letters, oldest first.
	Letters func() []timeline.Letter
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Tree == nil || c.Pods == nil || c.Events == nil || c.Timeline == nil || c.Gone == nil || c.Letters == nil:
		return errors.New("admin: Tree, Pods, Events, Timeline, Gone and Letters are required")
	case !filepath.IsAbs(c.Socket):
		return fmt.Errorf("admin socket %q: must be an absolute path", c.Socket)
	case len(c.Socket) > pathLimit:
		return fmt.Errorf("admin socket %s: the path has %d bytes, the limit is %d: choose a shorter --root-dir",
			c.Socket, len(c.Socket), pathLimit)
	}
	return nil
}

// Server listens, and answers once Serve runs.
type Server struct {
	http     *http.Server
	listener *unixsocket.Listener
	socket   string
}

// Listen takes the socket. It fails, and changes nothing, if a process answers
// there; a socket without a listener is replaced.
func Listen(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := free(c.Socket); err != nil {
		return nil, err
	}
	listener, err := unixsocket.Listen(c.Socket)
	if err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", c.Socket, err)
	}
	return &Server{
		http: &http.Server{
			Handler:           handler(c),
			ReadHeaderTimeout: ioTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, IdleTimeout: idleTimeout,
			MaxHeaderBytes: headerLimit,
		},
		listener: listener, socket: c.Socket,
	}, nil
}

// free returns why the socket's path cannot be used, if it cannot.
func free(socket string) error {
	info, err := os.Lstat(socket)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("admin socket: %w", err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("admin socket %s: the path exists and is not a socket: remove it", socket)
	}
	conn, err := net.DialTimeout("unix", socket, dialTimeout)
	if err == nil {
		return errors.Join(fmt.Errorf("admin socket %s: another agent answers there: stop it or choose another --root-dir",
			socket), conn.Close())
	}
	return nil
}

// Serve answers until ctx ends, lets the running requests finish, and removes the socket.
func (s *Server) Serve(ctx context.Context) error {
	err := serving.HTTP(ctx, s.http, time.Second, func() error { return s.http.Serve(s.listener) })
	if err = errors.Join(err, s.listener.Remove()); err != nil {
		return fmt.Errorf("admin socket %s: %w", s.socket, err)
	}
	return nil
}

// limit keeps a client in a loop from taking the agent's memory.
func limit(next http.Handler) http.Handler {
	slots := make(chan struct{}, requestLimit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			refuse(w, http.StatusTooManyRequests, fmt.Sprintf("too many requests: %d are in progress: try again", requestLimit))
		}
	})
}

func refuse(w http.ResponseWriter, status int, text string) {
	reply(w, status, map[string]string{"error": text})
}

func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}
