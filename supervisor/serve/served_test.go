package serve

import (
	"net/http/httptest"
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
	} {
		got := s.served(httptest.NewRequest(tt.method, "http://node"+tt.path, nil))
		if want := (Served{ReadOnly: true, Method: tt.wantMethod, Path: tt.wantPath}); got != want {
			t.Errorf("%s %s: %+v, want %+v", tt.method, tt.path, got, want)
		}
	}
}
