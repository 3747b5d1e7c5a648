package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Registry is an image registry in this process, on a free port of 127.0.0.1. It serves an image
// under its path and tag, whatever registry's name stands before them: what was pushed as
// troupe.local/demo/web:v1 is pulled by that name through containerd's mirror configuration.
type Registry struct {
	listener net.Listener
	server   *http.Server
	pulls    atomic.Int64
	mu       sync.Mutex
	pushed   []string                                    // sorted
	guards   map[string]func(user, password string) bool // by path
	holds    sync.Map                                    // path to *hold
	wrap     atomic.Pointer[func(http.Handler) http.Handler]
}

// NewRegistry starts an empty registry.
func NewRegistry() (*Registry, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start registry: %w", err)
	}
	r := &Registry{listener: listener}
	blobs := registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/") {
			r.pulls.Add(1)
		}
		if r.refuses(req) {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		r.hold(req)
		if wrap := r.wrap.Load(); wrap != nil {
			(*wrap)(blobs).ServeHTTP(w, req)
			return
		}
		blobs.ServeHTTP(w, req)
	})}
	go r.server.Serve(listener) // ends with Close
	return r, nil
}

// Address is the host:port at which the registry listens.
func (r *Registry) Address() string { return r.listener.Addr().String() }

// BlobReads counts the blobs asked for so far: a pull that was answered from containerd's store
// does not move it.
func (r *Registry) BlobReads() int64 { return r.pulls.Load() }

// Intercept puts a handler in front of the registry, from the next request on, to delay or fail
// requests. Nil takes it away.
func (r *Registry) Intercept(wrap func(http.Handler) http.Handler) {
	if wrap == nil {
		r.wrap.Store(nil)
		return
	}
	r.wrap.Store(&wrap)
}

// Push serves image under ref, such as troupe.local/demo/web:v1.
func (r *Registry) Push(ctx context.Context, ref string, image v1.Image) error {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return fmt.Errorf("push image: %w", err)
	}
	local := r.Address() + "/" + parsed.Context().RepositoryStr() + ":" + parsed.Identifier()
	to, err := name.ParseReference(local, name.Insecure)
	if err != nil {
		return fmt.Errorf("push image %s: %w", ref, err)
	}
	if err := remote.Write(to, image, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("push image %s: %w", ref, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, found := slices.BinarySearch(r.pushed, ref); !found {
		r.pushed = slices.Insert(r.pushed, at, ref)
	}
	return nil
}

// Images are the names pushed so far, sorted.
func (r *Registry) Images() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pushed)
}

// Close stops the registry.
func (r *Registry) Close() error {
	if err := r.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stop registry: %w", err)
	}
	return nil
}

// hold is a path whose requests wait.
type hold struct {
	over  chan struct{}
	asked atomic.Int64
}

// Hold has each request for an image under a path, such as demo/slow, wait until release is called. asked counts them.
func (r *Registry) Hold(path string) (asked func() int64, release func()) {
	h := &hold{over: make(chan struct{})}
	r.holds.Store(path, h)
	return h.asked.Load, sync.OnceFunc(func() { close(h.over) })
}

func (r *Registry) hold(req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return
	}
	r.holds.Range(func(path, of any) bool {
		if h := of.(*hold); strings.HasPrefix(req.URL.Path, "/v2/"+path.(string)+"/") {
			h.asked.Add(1)
			select {
			case <-h.over:
			case <-req.Context().Done():
			}
		}
		return true
	})
}

// Guard asks for a name and a password for the images under a path, such as demo/private, from the next request on.
func (r *Registry) Guard(path string, may func(user, password string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guards == nil {
		r.guards = map[string]func(user, password string) bool{}
	}
	r.guards[path] = may
}

// refuses says that a request is for an image under a guarded path, and has not what it needs.
func (r *Registry) refuses(req *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, may := range r.guards {
		if strings.HasPrefix(req.URL.Path, "/v2/"+path+"/") && (req.Method == http.MethodGet || req.Method == http.MethodHead) {
			user, password, _ := req.BasicAuth()
			return !may(user, password)
		}
	}
	return false
}
