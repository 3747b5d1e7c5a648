package cluster

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestNodesProxy is what accounts may do that have one verb of nodes/proxy, at the port of the node and through the
// apiserver. Who may get it reads logs, and runs no command, whatever protocol a stream begins with. Through the
// apiserver a GET that begins an exec arrives with the apiserver's own rights, but without its query, so it names no
// command: docs/operating.md, "Rights on nodes". Who may create it runs commands both ways. An account that may
// pods/exec, and has no rights on nodes, does so through the apiserver.
//
//tier:real
func TestNodesProxy(t *testing.T) {
	t.Parallel()
	p, address := plane(t), ownAddress(t)
	b := started(t, "nodes-proxy", func(s *setup) {
		s.plane = p
		serves(s)
		s.agent.Flags = append(s.agent.Flags, "--node-ip", address)
	})
	b.create(t, b.pod("app", work("print hello then sleep")))
	b.awaitPod(t, "app", "is ready", ready)
	b.await(t, "it has said hello", func() error {
		return check.Is(check.Must(b.logs(t.Context(), "app", "app")), "hello\n", "its log")
	})
	may := func(name, of string, verbs ...string) string {
		return "Authorization: Bearer " + b.account(t, t.Context(), name, of, verbs...)
	}
	gets, creates := may("reader", "nodes/proxy", "get"), may("runner", "nodes/proxy", "create")
	execs := may("user", "pods/exec", "create", "get")
	stranger := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its token is looked at, and not the server
	server := check.Value(url.Parse(b.plane.AdminConfig().Host))(t)
	direct := newFoe(t, b)
	direct.known = stranger
	through := &foe{bed: b, at: server.Host, known: stranger}
	const (
		container = "/app/app"
		command   = "&command=/work&command=print&command=begun"
	)
	ask := func(t *testing.T, f *foe, method, path string, headers ...string) string {
		t.Helper()
		status, body, err := f.ask(t.Context(), stranger, request(method, path, headers...))
		check.Error(t, err)
		return fmt.Sprint(status, " ", body)
	}
	// stream begins one, and has the command run if it may.
	stream := func(t *testing.T, f *foe, path, protocol, token string, want int) {
		t.Helper()
		conn, line, err := f.upgrade(t.Context(), path, append([]string{token}, ways[protocol]...)...)
		check.Fatal(t, err)
		defer conn.Close()
		check.Equal(t, line, fmt.Sprintf("HTTP/1.1 %d %s", want, http.StatusText(want)), "a stream, %s", protocol)
		if want == http.StatusSwitchingProtocols && line == "HTTP/1.1 101 Switching Protocols" {
			check.Error(t, begun(conn, protocol))
		}
	}
	protocols := []string{"WebSocket v4", "WebSocket v5", "SPDY"}
	for _, way := range []struct {
		name, prefix string
		foe          *foe
		gets         int            // the answer to a GET that begins a stream, for who may get
		creates      map[string]int // and to each protocol, for who may create
	}{
		{"at the node", "", direct, http.StatusForbidden, map[string]int{
			"WebSocket v4": http.StatusSwitchingProtocols, "WebSocket v5": http.StatusSwitchingProtocols,
			"SPDY": http.StatusSwitchingProtocols,
		}},
		{"through the apiserver", "/api/v1/nodes/" + b.name + "/proxy", through, http.StatusBadRequest, map[string]int{
			"WebSocket v4": http.StatusForbidden, "WebSocket v5": http.StatusForbidden, "SPDY": http.StatusBadRequest,
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			logs := way.prefix + "/containerLogs/" + b.name + container
			check.Equal(t, ask(t, way.foe, http.MethodGet, logs, gets), "200 hello\n", "logs")
			if got := ask(t, way.foe, http.MethodGet, logs); !strings.HasPrefix(got, "401 ") && !strings.HasPrefix(got, "403 ") {
				t.Errorf("logs, without a token: %s", got)
			}
			if got := ask(t, way.foe, http.MethodGet, logs, creates); !strings.HasPrefix(got, "403 ") {
				t.Errorf("logs, for who may only create: %s", got)
			}
			exec := way.prefix + "/exec/" + b.name + container + "?output=1&error=1" + command
			run := way.prefix + "/run/" + b.name + container + "?cmd=/work+print+begun"
			attach := way.prefix + "/attach/" + b.name + container + "?output=1"
			for _, path := range []string{exec, attach, run} {
				if got := ask(t, way.foe, http.MethodPost, path, gets); !strings.HasPrefix(got, "403 ") {
					t.Errorf("POST %s, for who may only get: %s", path, got)
				}
			}
			for _, protocol := range protocols {
				want := way.gets
				if protocol == "SPDY" {
					want = http.StatusForbidden // its clients POST
				}
				stream(t, way.foe, exec, protocol, gets, want)
				stream(t, way.foe, exec, protocol, creates, way.creates[protocol])
			}
			got := ask(t, way.foe, http.MethodGet, exec, append([]string{gets, "Connection: Upgrade"}, ways["SPDY"]...)...)
			if !strings.HasPrefix(got, fmt.Sprint(way.gets, " ")) {
				t.Errorf("SPDY with GET, for who may only get: %s, want %d", got, way.gets)
			}
			check.Equal(t, ask(t, way.foe, http.MethodPost, run, creates), "200 begun\n", "a command, for who may create")
		})
	}
	t.Run("by pods/exec", func(t *testing.T) {
		exec := "/api/v1/namespaces/" + b.name + "/pods/app/exec?container=app&stdout=1&stderr=1" + command
		for _, protocol := range protocols {
			stream(t, through, exec, protocol, execs, http.StatusSwitchingProtocols)
			for _, token := range []string{gets, creates} {
				stream(t, through, exec, protocol, token, http.StatusForbidden)
			}
		}
		own := "/exec/" + b.name + container + "?output=1&error=1" + command
		for _, protocol := range protocols {
			stream(t, direct, own, protocol, execs, http.StatusForbidden)
		}
	})
}
