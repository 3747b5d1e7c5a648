package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/tests/check"
)

// byName knows who asks by a header, and allows what the user's name says:
// "get/pods create/proxy".
type byName struct{ asked []string }

func (b *byName) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	switch name := r.Header.Get("User"); name {
	case "":
		return nil, false, nil
	case "broken":
		return nil, false, errors.New("the apiserver does not answer")
	default:
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
	}
}

func (b *byName) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	wish := a.GetVerb() + "/" + a.GetSubresource()
	b.asked = append(b.asked, wish)
	if !a.IsResourceRequest() || a.GetResource() != "nodes" || a.GetName() != "n1" || a.GetAPIGroup() != "" {
		return authorizer.DecisionDeny, "", fmt.Errorf("asked of %s %s", a.GetResource(), a.GetName())
	}
	if a.GetUser().GetName() == "unknown-rights" {
		return authorizer.DecisionNoOpinion, "", errors.New("the apiserver does not answer")
	}
	for allowed := range strings.FieldsSeq(a.GetUser().GetName()) {
		if allowed == wish {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func said(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, text+r.PathValue("pod"))
	})
}

var someRoutes = []serve.Route{
	{Path: "/pods", Methods: []string{"GET"}, Subresources: serve.Pods, ReadOnly: true, Handler: said("pods")},
	{Path: "/exec/{namespace}/{pod}/{container}", Methods: []string{"GET", "POST"}, Subresources: serve.Proxy, Long: true, Handler: said("exec ")},
	{Path: "/attach/{pod}", Methods: []string{"GET", "POST"}, Subresources: serve.Proxy, Verb: "create", Handler: said("attach ")},
	serve.ProfilingRoute([]string{"kubelet", "--manifest-url-header=<masked>"}),
	{Path: "/logs/", Methods: []string{"GET"}, Subresources: serve.Log, Handler: said("logs")},
	serve.Disabled(serve.Route{Path: "/off/", Subresources: serve.Proxy}, "off is disabled."),
	{Path: "/echo", Methods: []string{"POST"}, Subresources: serve.Proxy, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		}
	})},
}

func server(t *testing.T, routes []serve.Route, access *byName) *serve.Server {
	t.Helper()
	c := serve.Config{Address: "127.0.0.1:0", Node: "n1", Routes: routes, Log: zerolog.Nop()}
	if access != nil {
		c.Authenticator, c.Authorizer = access, access
	}
	s := check.Value(serve.Listen(c))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestWhoMayAskWhat(t *testing.T) {
	for _, tt := range []struct {
		user, method, path string
		status             int
		body, asked        string
	}{
		{"", "GET", "/pods", 401, "Unauthorized", ""},
		{"", "GET", "/nowhere", 401, "Unauthorized", ""},
		{"", "GET", "/logs/../../etc/passwd", 401, "Unauthorized", ""},
		{"", "DELETE", "/pods", 401, "Unauthorized", ""},
		{"broken", "GET", "/pods", 401, "Unauthorized", ""},
		{"unknown-rights", "GET", "/pods", 500, "Authorization error (user=unknown-rights, verb=get, resource=nodes, subresource=pods)", "get/pods"},
		{"get/stats", "GET", "/pods", 403, "Forbidden (user=get/stats, verb=get, resource=nodes, subresource(s)=[pods proxy])", "get/pods get/proxy"},
		{"get/pods", "GET", "/pods", 200, "pods", "get/pods"},
		{"get/pods", "HEAD", "/pods", 200, "", "get/pods"},
		{"get/pods", "GET", "/pods/", 200, "pods", "get/pods"},
		{"get/stats", "GET", "/pods/", 403, "Forbidden (user=get/stats, verb=get, resource=nodes, subresource(s)=[pods proxy])", "get/pods get/proxy"},
		{"get/proxy", "GET", "/pods/web", 404, "404 page not found", "get/proxy"},
		{"get/proxy", "GET", "/pods", 200, "pods", "get/pods get/proxy"},
		{"get/pods", "POST", "/pods", 403, "Forbidden", "create/pods create/proxy"},
		{"create/pods", "POST", "/pods", 405, "Method Not Allowed", "create/pods"},
		{"get/pods", "TRACE", "/pods", 403, "Forbidden", "/pods /proxy"},
		{"get/log", "GET", "/logs/a", 200, "logs", "get/log"},
		{"get/proxy", "GET", "/logs/a", 403, "Forbidden", "get/log"},
		{"get/log", "GET", "/logs/../pods", 403, "Forbidden", "get/proxy"},
		{"get/proxy", "GET", "/logs/../pods", 404, "404 page not found", "get/proxy"},
		{"get/proxy", "GET", "//pods", 404, "404 page not found", "get/proxy"},
		{"get/proxy", "GET", "/nowhere", 404, "404 page not found", "get/proxy"},
		{"create/proxy", "POST", "/exec/ns/web/c", 200, "exec web", "create/proxy"},
		{"create/proxy", "POST", "/exec/ns/web/c/", 200, "exec web", "create/proxy"},
		{"create/proxy", "POST", "/exec/ns/..%2f../c", 200, "exec ../..", "create/proxy"},
		{"create/proxy", "POST", "/exec/ns/web", 404, "", "create/proxy"},
		{"get/proxy", "GET", "/exec/ns/web/c", 200, "exec web", "get/proxy"},
		{"get/proxy", "GET", "/attach/web", 403, "Forbidden (user=get/proxy, verb=create, resource=nodes, subresource(s)=[proxy])", "create/proxy"},
		{"get/proxy", "HEAD", "/attach/web", 403, "", "create/proxy"},
		{"create/proxy", "GET", "/attach/web", 200, "attach web", "create/proxy"},
		{"create/proxy", "POST", "/attach/web/", 200, "attach web", "create/proxy"},
		{"get/proxy", "GET", "/debug/pprof/cmdline", 200, "kubelet\x00--manifest-url-header=<masked>", "get/proxy"},
		{"get/proxy", "GET", "/off/x", 405, "off is disabled.", "get/proxy"},
	} {
		t.Run(tt.user+" "+tt.method+" "+tt.path, func(t *testing.T) {
			access := &byName{}
			w := httptest.NewRecorder()
			r := httptest.NewRequest(tt.method, "http://node"+tt.path, nil)
			r.Header.Set("User", tt.user)
			server(t, someRoutes, access).ServeHTTP(w, r)
			if body := strings.TrimSpace(w.Body.String()); w.Code != tt.status || !strings.HasPrefix(body, tt.body) {
				t.Errorf("answered %d %q, want %d %q", w.Code, body, tt.status, tt.body)
			}
			if got := strings.Join(access.asked, " "); got != tt.asked {
				t.Errorf("asked for %q, want %q", got, tt.asked)
			}
		})
	}
}

func TestReadOnlyPort(t *testing.T) {
	s := server(t, someRoutes, nil)
	for path, status := range map[string]int{"/pods": 200, "/exec/ns/web/c": 404, "/logs/a": 404, "/": 404} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != status {
			t.Errorf("%s: %d, want %d", path, w.Code, status)
		}
	}
}

func TestEndlessBody(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/echo", &endless{})
	r.Header.Set("User", "create/proxy")
	server(t, someRoutes, &byName{}).ServeHTTP(w, r)
	if got := w.Body.Len(); got > 2<<20 {
		t.Errorf("%d bytes of it were read", got)
	}
}

type endless struct{}

func (*endless) Read(b []byte) (int, error) { return len(b), nil }

func TestBadRoutes(t *testing.T) {
	good := someRoutes[0]
	for why, change := range map[string]func(*serve.Route){
		"clean absolute path":          func(r *serve.Route) { r.Path = "pods" },
		"clean absolute":               func(r *serve.Route) { r.Path = "/a/../b" },
		"no methods":                   func(r *serve.Route) { r.Methods = nil },
		"no authorization subresource": func(r *serve.Route) { r.Subresources = nil },
		"no handler":                   func(r *serve.Route) { r.Handler = nil },
	} {
		r := good
		change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %s", err, why)
		}
	}
	for want, c := range map[string]serve.Config{
		"Address is not set": {Node: "n"},
		"Node is not set":    {Address: ":0"},
		"belong":             {Address: ":0", Node: "n", Authenticator: &byName{}},
	} {
		if _, err := serve.Listen(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
