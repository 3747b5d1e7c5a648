package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// ownAddress is an address of this machine that the apiserver's proxy goes to: it refuses 127.0.0.1.
func ownAddress(t *testing.T) string {
	t.Helper()
	all := check.Value(net.InterfaceAddrs())(t)
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	hosttest.Need(t, "an address of this machine", errors.New("it has none but its loopback's"))
	return ""
}

// TestNodeLogQuery asks the apiserver for logs of the node, as kubectl get --raw does. The answers are the
// kubelet's.
//
//tier:real
func TestNodeLogQuery(t *testing.T) {
	t.Parallel()
	p, address := plane(t), ownAddress(t)
	b := started(t, "nodelog", func(s *setup) {
		s.plane = p
		serves(s)
		s.agent.Flags = append(s.agent.Flags, "--node-ip", address)
		s.agent.Settings += "enableSystemLogQuery: true\n"
	})
	b.awaitNode(t, "is usable", usable)
	name := "troupe-e2e-" + b.name
	for file, text := range map[string]string{name + ".log": "of a service\n", name + ".txt": "of a file\n"} {
		path := filepath.Join("/var/log", file)
		check.Fatal(t, os.WriteFile(path, []byte(text), 0o600))
		t.Cleanup(func() { check.Error(t, os.Remove(path)) })
	}
	link := filepath.Join("/var/log", name+".link")
	check.Fatal(t, os.Symlink("/etc/passwd", link))
	t.Cleanup(func() { check.Error(t, os.Remove(link)) })
	config := b.plane.AdminConfig()
	client := check.Value(rest.HTTPClientFor(config))(t)
	get := func(query string) string {
		at := check.Value(url.JoinPath(config.Host, "/api/v1/nodes", b.name, "proxy/logs"))(t)
		request := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/"+query, nil))(t)
		answer := check.Value(client.Do(request))(t)
		defer answer.Body.Close() //nolint:errcheck // it was read
		text := check.Value(io.ReadAll(answer.Body))(t)
		return fmt.Sprintf("%d %s", answer.StatusCode, strings.ReplaceAll(string(text), name, "NAME"))
	}
	for query, want := range map[string]string{
		"?query=" + name:                           "200 of a service\n",
		name + ".txt":                              "200 of a file\n",
		"?query=./" + name + ".txt":                "200 of a file\n",
		"?query=" + name + "-none":                 "200 \nlog not found for NAME-none\n",
		"?query=" + name + "&tailLines=1":          "200 \noptions present and query resolved to log files for [NAME]\ntry without specifying options\n",
		"?query=":                                  "400 query: Invalid value: [\"\"]: may not be empty\n",
		"?query=a%20b":                             "406 query: Invalid value: \"a b\": input contains unsupported characters\n",
		"?query=a&boot=1":                          "406 boot: Invalid value: 1: must be less than 1\n",
		"?query=a&boot=x":                          "400 boot: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax\n",
		"?query=a&tailLines=100001":                "406 tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive\n",
		"?query=a&sinceTime=1":                     "400 sinceTime: Invalid value: \"1\": invalid time format\n",
		"?query=a&pattern=(":                       "406 pattern: Invalid value: \"(\": error parsing regexp: missing closing ): `(`\n",
		"?tailLines=1":                             "406 query: Required value: cannot be empty with options\n",
		"?query=a&query=./b":                       "406 query: Invalid value: \"[./b], [a]\": cannot specify a file and service\n",
		"?query=./b&tailLines=1":                   "406 query: Invalid value: [\"./b\"]: cannot specify file with options\n",
		"?query=a&query=b&query=c&query=d&query=e": "406 query: Too many: 5: must have at most 4 items\n",
		name + ".txt?query=a":                      "406 path not allowed in query mode\n",
	} {
		check.Equal(t, get(query), want, "%s:\n got", query)
	}
	// What leads out is refused, not served.
	for _, query := range []string{"?query=./" + name + ".link", "?query=./../../etc/passwd", "?query=/../etc/passwd"} {
		if got := get(query); !strings.HasPrefix(got, "406 query: Invalid value: ") || strings.Contains(got, "root:") {
			t.Errorf("%s: %q", query, got)
		}
	}
	// This is how the documentation asks for a file.
	check.Equal(t, get("?query=/"+name+".txt"), "200 of a file\n", "with a leading slash")
}
