package node

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/serve"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// routesOf are those of a node with these lines of configuration, and flags.
func routesOf(t *testing.T, lines string, flags ...string) []serve.Route {
	t.Helper()
	rt, err := simcri.New(simcri.Config{Clock: kernel.WallClock{}, Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }})
	if err != nil {
		t.Fatal(err)
	}
	system := must.Value(kernel.NewSystem(kernel.Config{Clock: kernel.WallClock{}, Log: zerolog.Nop()}))(t)
	d := &nodeDaemon{
		Options: Options{Config: clustered(t, lines, flags...), Log: zerolog.Nop()}, name: "n1", machine: machine{cpus: 1},
		runtime: &containerRuntime{Runtime: streaming{rt}}, system: system, agent: &agent.Agent{},
	}
	into := must.Value(d.openStreams())(t)
	t.Cleanup(func() { must.Error(t, release(d.servers)) })
	d.counters = must.Value(counters(&d.machine, "n1"))(t)
	read := must.Value(d.metricRoutes())(t)
	return slices.Concat(d.routes(), into, read)
}

// streaming is a runtime that has streams, but never opens one, nor makes a
// checkpoint.
type streaming struct{ port.Runtime }

func (streaming) CheckpointContainer(context.Context, port.CheckpointContainer, func(error)) {}

func (streaming) Exec(context.Context, port.ExecStream, func(string, error))               {}
func (streaming) Attach(context.Context, port.AttachStream, func(string, error))           {}
func (streaming) PortForward(context.Context, port.PortForwardStream, func(string, error)) {}
func (streaming) Run(context.Context, string, port.Command, func(port.ExecResult, error))  {}

// answerTo is what a server of routes answers a user who may do what is in rights (get/pods).
func answerTo(t *testing.T, routes []serve.Route, method, path, who, rights string) *httptest.ResponseRecorder {
	t.Helper()
	s := must.Value(serve.Listen(serve.Config{
		Address: "127.0.0.1:0", Node: "n1", Routes: routes, Log: zerolog.Nop(),
		Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: who}}, who != "", nil
		}),
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if strings.Contains(" "+rights+" ", " "+a.GetVerb()+"/"+a.GetSubresource()+" ") {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		}),
	}))(t)
	defer s.Close()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits for the answer of those that are let in
	s.ServeHTTP(w, r.WithContext(ctx))
	return w
}

// TestEveryRouteIsGuarded: a stranger gets 401 and a wrong role 403, whatever the
// path and the method.
func TestEveryRouteIsGuarded(t *testing.T) {
	all := routesOf(t, "")
	paths := []string{"/", "/nowhere", "/logs/../pods", "/pods/..", "//pods"}
	for _, r := range all {
		paths = append(paths, strings.NewReplacer("{namespace}", "ns", "{pod}", "web", "{container}", "c", "{uid}", "u-1").Replace(r.Path))
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "UNKNOWN"} {
			if w := answerTo(t, all, method, path, "", ""); w.Code != http.StatusUnauthorized {
				t.Errorf("%s %s: a stranger gets %d", method, path, w.Code)
			}
			if w := answerTo(t, all, method, path, "mallory", "get/status list/pods get/spec"); w.Code != http.StatusForbidden {
				t.Errorf("%s %s: a wrong role gets %d", method, path, w.Code)
			}
		}
	}
	if len(all) < 20 {
		t.Errorf("there are only %d routes", len(all))
	}
}

// TestWhatGuards: which right lets in, and that no other does.
func TestWhatGuards(t *testing.T) {
	all := routesOf(t, "")
	for path, right := range map[string]string{
		"/pods": "get/pods get/proxy", "/runningpods": "get/pods get/proxy", "/runningpods/": "get/pods get/proxy", "/healthz/ping": "get/healthz get/proxy",
		"/configz": "get/configz get/proxy",
		"/metrics": "get/metrics", "/metrics/cadvisor": "get/metrics", "/metrics/resource": "get/metrics", "/metrics/probes": "get/metrics", "/metrics/slis": "get/metrics",
		"/stats/summary": "get/stats",
		"/logs/":         "get/log", "/logs": "get/log", "/statusz": "get/statusz", "/flagz": "get/configz",
		"/exec/ns/web/c": "create/proxy", "/attach/ns/web/u-1/c": "create/proxy", "/portForward/ns/web": "create/proxy",
		"/containerLogs/ns/web/c": "get/proxy", "/debug/pprof/": "get/proxy", "/debug/pprof/cmdline": "get/proxy",
	} {
		for _, one := range strings.Fields("get/pods get/proxy get/healthz get/configz get/log get/statusz get/stats get/metrics create/proxy") {
			let := answerTo(t, all, "GET", path, "bob", one).Code != http.StatusForbidden
			if want := strings.Contains(" "+right+" ", " "+one+" "); let != want {
				t.Errorf("%s with %s: let in: %v", path, one, let)
			}
		}
	}
	asKubelet := routesOf(t, "", "--exec-by-get")
	for _, path := range []string{"/exec/ns/web/c", "/attach/ns/web/u-1/c", "/portForward/ns/web"} {
		if w := answerTo(t, asKubelet, "GET", path, "bob", "get/proxy"); w.Code == http.StatusForbidden {
			t.Errorf("%s with --exec-by-get: %d", path, w.Code)
		}
	}
	if w := answerTo(t, all, "POST", "/run/ns/web/c?cmd=id", "bob", "get/proxy"); w.Code != http.StatusForbidden {
		t.Errorf("a command is run for who may only read: %d", w.Code)
	}
	for _, one := range []string{"create/proxy", "get/checkpoint", "create/pods"} {
		if w := answerTo(t, all, "POST", "/checkpoint/ns/web/c", "bob", one); w.Code != http.StatusForbidden {
			t.Errorf("a checkpoint is made with %s: %d", one, w.Code)
		}
	}
	if w := answerTo(t, all, "POST", "/checkpoint/ns/web/c?timeout=x", "bob", "create/checkpoint"); w.Code != http.StatusBadRequest {
		t.Errorf("a checkpoint with the right to it: %d", w.Code)
	}
	if w := answerTo(t, all, "PUT", "/debug/flags/v", "bob", "get/proxy"); w.Code != http.StatusForbidden {
		t.Errorf("the verbosity is changed by who may only read: %d", w.Code)
	}
}

func TestWhatIsOff(t *testing.T) {
	const rights = "get/proxy get/log update/proxy get/configz create/proxy"
	for _, tt := range []struct {
		lines, method, path string
		status              int
		body                string
	}{
		{"enableDebuggingHandlers: false", "GET", "/containerLogs/ns/web/c", 405, debuggingOff},
		{"enableDebuggingHandlers: false", "GET", "/exec/ns/web/c", 405, debuggingOff},
		{"enableDebuggingHandlers: false", "GET", "/logs/x", 405, debuggingOff},
		{"enableDebuggingHandlers: false", "GET", "/configz", 404, "404 page not found"},
		{"enableSystemLogHandler: false", "GET", "/logs/x", 405, systemLogsOff},
		{"enableProfilingHandler: false", "GET", "/debug/pprof/heap", 405, profilingOff},
		{"enableDebugFlagsHandler: false", "PUT", "/debug/flags/v", 405, verbosityOff},
		{"featureGates: {ContainerCheckpoint: false}", "POST", "/checkpoint/ns/web/c", 404, "404 page not found"},
		{"featureGates: {ComponentFlagz: false}", "GET", "/flagz", 404, "404 page not found"},
		{"", "GET", "/flagz", 200, ""},
		{"", "GET", "/configz", 200, `{"kubeletconfig":{`},
		{"", "GET", "/logs/..%2f..%2fetc/passwd", 404, ""},
		{"", "GET", "/debug/pprof/cmdline", 200, ""},
	} {
		w := answerTo(t, routesOf(t, tt.lines), tt.method, tt.path, "bob", rights)
		if w.Code != tt.status || !strings.HasPrefix(w.Body.String(), tt.body) {
			t.Errorf("%s: %s %s: %d %q, want %d %q", tt.lines, tt.method, tt.path, w.Code, w.Body.String(), tt.status, tt.body)
		}
	}
}

// TestServerTTL: alerts go by when the serving certificate ends if the agent renews it. What writes tlsCertFile may renew
// it each day.
func TestServerTTL(t *testing.T) {
	dir := t.TempDir()
	must.Value(serve.SelfSigned(dir, "n1", func() []string { return nil }, nil))(t)
	for _, tt := range []struct {
		lines string
		want  bool
	}{
		{"", false},
		{"tlsCertFile: " + dir + "/kubelet.crt\ntlsPrivateKeyFile: " + dir + "/kubelet.key", false},
		{"serverTLSBootstrap: true\nfeatureGates: {RotateKubeletServerCertificate: true}", true},
	} {
		system := must.Value(kernel.NewSystem(kernel.Config{Clock: kernel.WallClock{}, Log: zerolog.Nop()}))(t)
		d := &nodeDaemon{
			Options: Options{Config: clustered(t, tt.lines, "--cert-dir="+dir), Log: zerolog.Nop()}, name: "n1",
			runtime: &containerRuntime{}, client: &kube.Client{},
			system: system, agent: &agent.Agent{Runner: must.Value(kernel.NewRunner(system))(t)},
		}
		d.counters = must.Value(counters(&d.machine, "n1"))(t)
		server := must.Value(d.listenSecurely("127.0.0.1:0", nil))(t).server
		must.Error(t, server.Close())
		text := answerTo(t, must.Value(d.metricRoutes())(t), "GET", "/metrics", "bob", "get/metrics").Body.String()
		must.Has(t, text, "troupe_scrape_error", "the metrics")
		must.Equal(t, strings.Contains(text, "kubelet_certificate_manager_server_ttl_seconds"), tt.want, "it is there with %q", tt.lines)
	}
}

// TestShownCgroupDriver: /configz says which cgroup driver the node has: the runtime's, whatever the configuration says.
func TestShownCgroupDriver(t *testing.T) {
	for _, c := range []struct {
		own  *podCgroups
		want string
	}{
		{nil, "cgroupfs"}, // pods have no cgroups of their own
		{&podCgroups{settings: &podcgroup.Settings{Driver: podcgroup.Cgroupfs}}, "cgroupfs"},
		{&podCgroups{settings: &podcgroup.Settings{Driver: podcgroup.Systemd}}, "systemd"},
	} {
		d := &nodeDaemon{Options: Options{Config: configOf(t, "cgroupDriver: cgroupfs")}, own: c.own}
		must.Equal(t, d.shownConfig().CgroupDriver, c.want, "the driver of %v", c.own)
	}
}

// TestSayConfig: the log has the configuration, with what follows from defaults, and without secrets.
func TestSayConfig(t *testing.T) {
	var log bytes.Buffer
	c := configOf(t, "eventBurst: 101\nstaticPodURLHeader: {a: [hunter2]}")
	must.Error(t, (&nodeDaemon{Options: Options{Config: c, Log: zerolog.New(&log)}}).sayConfig(t.Context()))
	for _, part := range []string{
		`"message":"Effective KubeletConfiguration"`, "kind: KubeletConfiguration", "eventBurst: 101", "maxPods: 110", "<masked>",
	} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("no %s in %s", part, log.String())
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("a secret is in the log: %s", log.String())
	}
}
