package apiproxy

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/troupe-dev/troupe/tests/check"
)

// through is a proxy to a server that answers with the path, and a client of the kubeconfig that the proxy writes.
func through(t *testing.T) (*Proxy, func(path string) string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	check.Fatal(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: server.URL, CertificateAuthorityData: ca}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, from))
	p := check.Value(New(from))(t)
	t.Cleanup(p.Close)
	check.Fatal(t, p.Kubeconfig(from, to))
	config := check.Value(clientcmd.BuildConfigFromFlags("", to))(t)
	client := check.Value(rest.HTTPClientFor(config))(t)
	return p, func(path string) string {
		answer, err := client.Get("https://" + p.Address() + path)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return err.Error()
		}
		return answer.Status + " " + string(text)
	}
}

// TestPassesOn: what is asked comes through, an interceptor sees it, and an answer replaces it.
func TestPassesOn(t *testing.T) {
	p, get := through(t)
	check.Fatal(t, check.Is(get("/api"), "200 OK /api", "it"))
	var seen []string
	p.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if seen = append(seen, r.URL.Path); r.URL.Path != "/refused" {
			next.ServeHTTP(w, r)
			return
		}
		Status(http.StatusServiceUnavailable, "ServiceUnavailable", "no", 0)(w, r)
	})
	check.Equal(t, get("/passed"), "200 OK /passed", "it")
	if got := get("/refused"); got[:3] != "503" || len(seen) != 2 {
		t.Error(got, seen)
	}
	p.Begin(Page(http.StatusBadGateway))
	if got := get("/"); got[:3] != "502" || p.Asked() != 1 {
		t.Error(got, p.Asked())
	}
	p.End()
	check.Equal(t, get("/again"), "200 OK /again", "it")
}
