package serve

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestServed: clients can't make up labels.
func TestServed(t *testing.T) {
	s := &Server{roots: map[string]bool{}}
	for _, path := range []string{"/pods", "/metrics", "/metrics/cadvisor", "/exec/{namespace}/{pod}/{container}", "/logs/"} {
		s.roots[rootOf(path)] = true
	}
	for _, tt := range []struct{ method, path, wantMethod, wantPath string }{
		{"GET", "/pods", "GET", "pods"},
		{"GET", "/pods/", "GET", "pods"},
		{"HEAD", "/metrics", "HEAD", "metrics"},
		{"GET", "/metrics/cadvisor", "GET", "metrics/cadvisor"},
		{"GET", "/metrics/cadvisor/x", "GET", "metrics/cadvisor"},
		{"GET", "/metrics/mine", "GET", "other"},
		{"POST", "/exec/default/web/app?command=id", "POST", "exec"},
		{"GET", "/logs/syslog", "GET", "logs"},
		{"BREW", "/mine", "other", "other"},
		{"GET", "/", "GET", "other"},
		{"GET", "//pods", "GET", "other"},
		// A label that is not UTF-8 would be a panic.
		{"GET", "/%ff%fe", "GET", "other"},
		{"GET", "/pods%ff", "GET", "other"},
		{"GET", "/metrics/%c0%ae", "GET", "other"},
		{"GET", "/metrics%2fcadvisor%2f%ff", "GET", "metrics/cadvisor"},
		{"GET", "/logs/%ff", "GET", "logs"},
		{"GET", "/%00%0a%22", "GET", "other"},
		{"GET", "/" + strings.Repeat("%f0", 5000), "GET", "other"},
	} {
		got := s.served(httptest.NewRequest(tt.method, "http://node"+tt.path, nil))
		if want := (Served{ReadOnly: true, Method: tt.wantMethod, Path: tt.wantPath}); got != want {
			t.Errorf("%s %s: %+v, want %+v", tt.method, tt.path, got, want)
		}
	}
}
