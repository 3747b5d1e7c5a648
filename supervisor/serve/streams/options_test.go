package streams

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestPorts: an apiserver sends all ports in one parameter.
func TestPorts(t *testing.T) {
	for query, want := range map[string]string{
		"port=80": "[80] <nil>", "port=80&port=443": "[80 443] <nil>", "port=80,443&port=8080": "[80 443 8080] <nil>",
		"port=80,": `[] unable to parse "" as a port: it must be a number from 1 to 65535`,
	} {
		r := httptest.NewRequest(http.MethodGet, "/portForward/ns/web?"+query, nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		got, err := ports(r)
		if text := fmt.Sprint(got, err); !strings.HasPrefix(text, want) {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
}

// FuzzOptions: what is taken of a query is something that a runtime may be asked for.
func FuzzOptions(f *testing.F) {
	for _, q := range []string{"input=1&output=1&tty=1", "error=1&tty=1", "port=80&port=443", "port=0", "port=65536&port=+1", "port=%31&output=1;tty=1", "output=true"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, _ := url.ParseQuery(query)
		if o, err := streamOptions(values); err == nil && (!o.Stdin && !o.Stdout && !o.Stderr || o.TTY && o.Stderr) {
			t.Errorf("%q: %+v", query, o)
		}
		r := httptest.NewRequest(http.MethodGet, "/portForward/ns/web", nil)
		r.URL.RawQuery = query
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		named, err := ports(r)
		if err == nil && len(named) == 0 {
			t.Errorf("%q: no port, and no error", query)
		}
		for _, p := range named {
			if p < 1 || p > maxPort {
				t.Errorf("%q: port %d", query, p)
			}
		}
	})
}
