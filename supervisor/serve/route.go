package serve

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

// The access that a request requires on its node: one of these subresources of nodes, checked in
// this order (KEP-2862, KubeletFineGrainedAuthz).
var (
	// Proxy is for everything without a subresource of its own.
	Proxy      = []string{"proxy"}
	Pods       = []string{"pods", "proxy"}
	Healthz    = []string{"healthz", "proxy"}
	Configz    = []string{"configz", "proxy"}
	Log        = []string{"log"}
	Stats      = []string{"stats"}
	Metrics    = []string{"metrics"}
	Checkpoint = []string{"checkpoint"}
	Statusz    = []string{"statusz"}
)

// Route is one path of the server, with the access that it requires.
type Route struct {
	// Path is a pattern of net/http.ServeMux without method and host:
	// /exec/{namespace}/{pod}/{container}, or /logs/ for all paths below it.
	Path string
	// Methods are the allowed methods. GET includes HEAD.
	Methods []string
	// Subresources of the node: the user must have access to one of them, with the verb of the
	// method, or with Verb if it is set; see Proxy and the others.
	Subresources []string
	Verb         string
	// Long requests take as long as the client likes (logs -f, exec): the server sets no
	// deadline, and they have their own slots.
	Long bool
	// ReadOnly is true if the route is also on the read-only port, which has no authentication.
	ReadOnly bool
	Handler  http.Handler
}

// Validate returns what is wrong with it: a programming error.
func (r Route) Validate() error {
	switch {
	case !strings.HasPrefix(r.Path, "/") || path.Clean(r.Path) != strings.TrimSuffix(r.Path, "/") && r.Path != "/":
		return fmt.Errorf("route %q: must be a clean absolute path", r.Path)
	case len(r.Methods) == 0:
		return fmt.Errorf("route %s: no methods", r.Path)
	case len(r.Subresources) == 0:
		return fmt.Errorf("route %s: no authorization subresource", r.Path)
	case r.Handler == nil:
		return fmt.Errorf("route %s: no handler", r.Path)
	}
	return nil
}

// answers reports whether a method is allowed.
func (r Route) answers(method string) bool {
	return slices.Contains(r.Methods, method) || method == http.MethodHead && slices.Contains(r.Methods, http.MethodGet)
}

// verb is the authorization verb of a method (verbs of the Kubernetes API). It is empty for a
// method without one, which only a rule for all verbs allows.
func verb(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return ""
	}
}

// verb is what a user must be allowed to.
func (r Route) verb(method string) string {
	if r.Verb != "" {
		return r.Verb
	}
	return verb(method)
}

// Disabled replaces a route that the configuration has turned off.
func Disabled(r Route, why string) Route {
	r.Methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions}
	r.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, why, http.StatusMethodNotAllowed)
	})
	r.Long = false
	return r
}

// bound is a route in the mux of a server.
type bound struct {
	Route
	server *Server
}

// ServeHTTP implements http.Handler. The mux has set the path's values.
func (b *bound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, ok := b.server.admit(w, r, b.verb(r.Method), b.Subresources)
	if !ok {
		return
	}
	if !b.answers(r.Method) {
		w.Header().Set("Allow", strings.Join(b.Methods, ", "))
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	b.server.answer(w, r, b, user)
}

// bind makes the mux of routes.
func (s *Server) bind(routes []Route) (*http.ServeMux, error) {
	mux := http.NewServeMux()
	var errs []error
	for _, r := range routes {
		if err := r.Validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		b := &bound{Route: r, server: s}
		mux.Handle(r.Path, b)
		// A kubelet answers /pods/ as well, and some tools use that.
		below := r.Path + "/"
		if !strings.HasSuffix(r.Path, "/") && !slices.ContainsFunc(routes, func(o Route) bool { return o.Path == below }) {
			mux.Handle(below+"{$}", b)
		}
	}
	return mux, errors.Join(errs...)
}

// Served describes a request, for metrics.
type Served struct {
	// ReadOnly is the server without authentication.
	ReadOnly bool
	// Method is an HTTP method, Path the first element of the route's path, with metrics/ the
	// first two; "other" for all else, so that clients cannot add values.
	Method, Path string
}

var methods = []string{
	http.MethodOptions, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
	http.MethodTrace, http.MethodConnect,
}

const otherLabel = "other"

// served describes a request for metrics.
func (s *Server) served(r *http.Request) Served {
	out := Served{ReadOnly: s.config.Authenticator == nil, Method: r.Method, Path: rootOf(r.URL.Path)}
	if !slices.Contains(methods, out.Method) {
		out.Method = otherLabel
	}
	if !s.roots[out.Path] {
		out.Path = otherLabel
	}
	return out
}

// rootOf is the first element of a path, with metrics/ the first two.
func rootOf(path string) string {
	first, rest, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if first != "metrics" || !more {
		return first
	}
	second, _, _ := strings.Cut(rest, "/")
	return first + "/" + second
}
