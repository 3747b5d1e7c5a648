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

// TestNodesProxy is what an account may do that may get nodes/proxy, and no more: at the port of the node it reads logs
// and runs no command. Through the apiserver a GET that begins an exec arrives with the apiserver's own rights, but without
// its query, so that it names no command: docs/operating.md, "Rights on nodes".
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
	token := "Authorization: Bearer " + b.reader(t, t.Context(), "nodes/proxy")
	stranger := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its token is looked at, and not the server
	server := check.Value(url.Parse(b.plane.AdminConfig().Host))(t)
	direct := newFoe(t, b)
	direct.known = stranger
	through := &foe{bed: b, at: server.Host, known: stranger}
	const container = "/app/app"
	command := "?output=1&error=1&command=/work&command=print&command=begun&command=then&command=sleep"
	for _, way := range []struct {
		name, prefix string
		foe          *foe
		streams      int // the answer to a GET that begins a stream
	}{
		{"at the node", "", direct, http.StatusForbidden},
		{"through the apiserver", "/api/v1/nodes/" + b.name + "/proxy", through, http.StatusBadRequest},
	} {
		t.Run(way.name, func(t *testing.T) {
			ask := func(method, path string, headers ...string) string {
				t.Helper()
				status, body, err := way.foe.ask(t.Context(), stranger, request(method, way.prefix+path, headers...))
				check.Error(t, err)
				return fmt.Sprint(status, " ", body)
			}
			logs := "/containerLogs/" + b.name + container
			check.Equal(t, ask(http.MethodGet, logs, token), "200 hello\n", "logs")
			for _, path := range []string{"/exec/", "/attach/", "/run/"} {
				if got := ask(http.MethodPost, path+b.name+container+command, token); !strings.HasPrefix(got, "403 ") {
					t.Errorf("POST %s: %s", path, got)
				}
			}
			if got := ask(http.MethodGet, logs); !strings.HasPrefix(got, "401 ") && !strings.HasPrefix(got, "403 ") {
				t.Errorf("logs, without the token: %s", got)
			}
			for _, protocol := range []string{"WebSocket v4", "WebSocket v5"} {
				headers := append([]string{token}, ways[protocol]...)
				conn, line, err := way.foe.upgrade(t.Context(), way.prefix+"/exec/"+b.name+container+command, headers...)
				check.Fatal(t, err)
				defer conn.Close()
				check.Equal(t, line, fmt.Sprintf("HTTP/1.1 %d %s", way.streams, http.StatusText(way.streams)), "a stream, %s", protocol)
			}
		})
	}
}
