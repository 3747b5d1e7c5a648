package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an apiserver with answers of the test's own, over HTTP/2.
func server(t *testing.T, handler http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(s.Certificate().Raw)}}
}

// newClient makes a client that ends with the test, before its server does.
func newClient(t *testing.T, config Config) *Client {
	t.Helper()
	config.Version = "1.2.3"
	c := check.Value(New(config))(t)
	t.Cleanup(c.Close)
	return c
}

// give answers with an object, as JSON.
func give(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(o); err != nil {
		panic(err)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	give(w, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message,
	})
}

type answer[T any] struct {
	value T
	err   error
}

func result[T any](t *testing.T, call func(done func(T, error))) (T, error) {
	t.Helper()
	got := make(chan answer[T], 1)
	call(func(v T, err error) { got <- answer[T]{v, err} })
	a := check.Receive(t, got)
	return a.value, a.err
}

func getOf(t *testing.T, c *Client, k port.APIKey) (port.APIObject, error) {
	t.Helper()
	return result(t, func(done func(port.APIObject, error)) { c.Get(context.Background(), k, done) })
}

var web = port.APIKey{Kind: port.ConfigMapKind, Namespace: "default", Name: "web"}
