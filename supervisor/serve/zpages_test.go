package serve_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	flagz "k8s.io/apiserver/pkg/server/flagz/api/v1beta1"
	statusz "k8s.io/apiserver/pkg/server/statusz/api/v1beta1"

	"github.com/troupe-dev/troupe/supervisor/serve"
)

func TestZPages(t *testing.T) {
	flags := serve.FlagzRoute(map[string]string{"v": "2", "config": "/etc/c.yaml"})
	status := serve.StatuszRoute("v1.36.6+troupe.devel", time.Now().Add(-3661*time.Second), someRoutes)
	get := func(r serve.Route, accept string) *httptest.ResponseRecorder {
		w, request := httptest.NewRecorder(), httptest.NewRequest("GET", r.Path, nil)
		request.Header.Set("Accept", accept)
		r.Handler.ServeHTTP(w, request)
		return w
	}
	for _, accept := range []string{"", "*/*", "text/plain", "application/json, text/plain", "application/json;g=config.k8s.io;v=v2;as=Flagz,text/*"} {
		if w := get(flags, accept); w.Code != 200 || !strings.HasSuffix(w.Body.String(), "\nconfig=/etc/c.yaml\nv=2\n") {
			t.Errorf("Accept %q: %d %q", accept, w.Code, w.Body)
		}
	}
	for _, accept := range []string{"application/json", "image/png", ";;", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", "application/vnd.kubernetes.protobuf"} {
		if w := get(flags, accept); w.Code != 406 || !strings.Contains(w.Body.String(), "as=Flagz") {
			t.Errorf("Accept %q: %d %q", accept, w.Code, w.Body)
		}
	}
	var f flagz.Flagz
	w := get(flags, "application/json;g=config.k8s.io;v=v1beta1;as=Flagz")
	if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil || f.Flags["v"] != "2" || f.APIVersion != "config.k8s.io/v1beta1" || f.Kind != "Flagz" || f.Name != "kubelet" {
		t.Errorf("%v: %+v", err, f)
	}
	if w := get(flags, "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz"); w.Header().Get("Warning") == "" || !strings.Contains(w.Body.String(), "apiVersion: config.k8s.io/v1alpha1") {
		t.Errorf("%v %q", w.Header(), w.Body)
	}
	if w := get(status, ""); !strings.Contains(w.Body.String(), "Up: 1 hr 01 min 01 sec") || !strings.Contains(w.Body.String(), "Paths: /attach /debug /echo /exec /logs /off /pods /statusz\n") {
		t.Errorf("%q", w.Body)
	}
	var s statusz.Statusz
	w = get(status, "application/json;as=Statusz;v=v1beta1;g=config.k8s.io")
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.EmulationVersion != "1.36" || s.BinaryVersion != "1.36.6+troupe.devel" || s.UptimeSeconds < 3661 || len(s.Paths) != 8 {
		t.Errorf("%v: %+v", err, s)
	}
}
