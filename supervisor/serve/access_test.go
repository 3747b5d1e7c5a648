package serve_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	authn "k8s.io/api/authentication/v1"
	authz "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/cert"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/tests/check"
)

// reviews is an apiserver that knows the token "good" as user alice, who may get
// nodes/pods, as cert-user may; and counts what it is asked.
type reviews struct{ asked atomic.Int32 }

func (r *reviews) ReviewToken(_ context.Context, review *authn.TokenReview, _ bool) error {
	r.asked.Add(1)
	review.Status = authn.TokenReviewStatus{Authenticated: review.Spec.Token == "good", User: authn.UserInfo{Username: "alice"}}
	return nil
}

func (r *reviews) ReviewAccess(_ context.Context, review *authz.SubjectAccessReview, _ bool) error {
	r.asked.Add(1)
	wish := review.Spec.ResourceAttributes
	review.Status.Allowed = wish.Resource == "nodes" && wish.Name == "n1" && wish.Verb == "get" && wish.Subresource == "pods" &&
		(review.Spec.User == "alice" || review.Spec.User == "cert-user")
	return nil
}

func access(change func(*serve.AccessConfig)) (*serve.Access, error) {
	on := true
	c := serve.AccessConfig{}
	c.Authentication.Webhook.Enabled = &on
	c.Authentication.Webhook.CacheTTL.Duration = time.Minute
	c.Authorization.Mode = kubelet.KubeletAuthorizationModeWebhook
	c.Authorization.Webhook.CacheAuthorizedTTL.Duration = time.Minute
	c.Authorization.Webhook.CacheUnauthorizedTTL.Duration = 30 * time.Second
	change(&c)
	return serve.NewAccess(c)
}

// TestOverTLS: a server with all that a node's has, and clients of several kinds.
func TestOverTLS(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	dir := t.TempDir()
	caFile, clientPair, serverPair := clientAuthority(t, dir)
	by := &reviews{}
	a := check.Value(access(func(c *serve.AccessConfig) {
		c.Reviewer = by
		c.Authentication.X509.ClientCAFile = caFile
	}))(t)
	certificate := check.Value(serve.SelfSigned(dir, "n1", func() []string { return []string{"127.0.0.1", "n1"} }, nil))(t)
	conf := check.Value(serve.TLS(certificate, &kubelet.KubeletConfiguration{}))(t)
	a.Ask(conf)
	s := check.Value(serve.Listen(serve.Config{
		Address: "127.0.0.1:0", Node: "n1", TLS: conf, Routes: someRoutes, Log: zerolog.Nop(),
		Authenticator: a.Authenticator, Authorizer: a.Authorizer,
	}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	defer func() {
		cancel()
		check.Error(t, <-ended)
	}()
	roots := check.Value(cert.NewPool(filepath.Join(dir, "kubelet.crt")))(t)
	_, strangerPair, _ := clientAuthority(t, t.TempDir())
	for _, tt := range []struct {
		name, path, token string
		pair              *tls.Certificate
		status, questions int
	}{
		{"nobody", "/pods", "", nil, 401, 0},
		{"a wrong token", "/pods", "bad", nil, 401, 1},
		{"a wrong token again", "/pods", "bad", nil, 401, 0},
		{"a good token", "/pods", "good", nil, 200, 2},
		{"a good token again", "/pods", "good", nil, 200, 0},
		{"a good token, not allowed", "/logs/x", "good", nil, 403, 1},
		{"a good token, not allowed, again", "/logs/x", "good", nil, 403, 0},
		{"a certificate", "/pods", "", clientPair, 200, 1},
		{"a certificate, not allowed", "/exec/a/b/c", "", clientPair, 403, 1},
		{"a certificate of another authority", "/pods", "", strangerPair, 401, 0},
		{"a certificate for servers", "/pods", "", serverPair, 401, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf := &tls.Config{RootCAs: roots, ServerName: "n1"}
			if tt.pair != nil {
				conf.Certificates = []tls.Certificate{*tt.pair}
			}
			transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			r := check.Value(http.NewRequestWithContext(t.Context(), "GET", "https://"+s.Address()+tt.path, nil))(t)
			if tt.token != "" {
				r.Header.Set("Authorization", "Bearer "+tt.token)
			}
			before := int(by.asked.Load())
			answer := check.Value((&http.Client{Transport: transport}).Do(r))(t)
			answer.Body.Close()
			if answer.StatusCode != tt.status || int(by.asked.Load())-before != tt.questions {
				t.Errorf("%d after %d questions, want %d after %d", answer.StatusCode, int(by.asked.Load())-before, tt.status, tt.questions)
			}
		})
	}
}

// TestWrongCredential: a client without a credential is anonymous, one with a wrong credential is refused.
func TestWrongCredential(t *testing.T) {
	on := true
	a, err := access(func(c *serve.AccessConfig) { c.Reviewer, c.Authentication.Anonymous.Enabled = &reviews{}, &on })
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/pods", nil)
	if who, ok, err := a.Authenticator.AuthenticateRequest(r); !ok || err != nil || who.User.GetName() != user.Anonymous {
		t.Errorf("without a credential: %v %t %v", who, ok, err)
	}
	r.Header.Set("Authorization", "Bearer bad")
	if who, ok, err := a.Authenticator.AuthenticateRequest(r); ok {
		t.Errorf("with a wrong one: %v %v", who.User, err)
	}
}

// clientAuthority is a CA in a file, with a certificate of it for cert-user, and one for a server.
func clientAuthority(t *testing.T, dir string) (file string, pair, server *tls.Certificate) {
	t.Helper()
	ca := newPair(t, "test-ca", nil)
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate[0]})
	file = filepath.Join(dir, "client-ca.crt")
	check.Fatal(t, os.WriteFile(file, caPEM, 0o644))
	return file, newPair(t, "cert-user", ca), newPair(t, "server", ca, x509.ExtKeyUsageServerAuth)
}

func TestNobodyToAsk(t *testing.T) {
	off := false
	for name, change := range map[string]func(*serve.AccessConfig){
		"tokens": func(c *serve.AccessConfig) { c.Authorization.Mode = kubelet.KubeletAuthorizationModeAlwaysAllow },
		"rights": func(c *serve.AccessConfig) { c.Authentication.Webhook.Enabled = &off },
		"all":    func(*serve.AccessConfig) {},
	} {
		if _, err := access(change); !errors.Is(err, serve.ErrNobodyToAsk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := check.Value(access(func(c *serve.AccessConfig) {
		c.Authentication.Webhook.Enabled, c.Authorization.Mode = &off, kubelet.KubeletAuthorizationModeAlwaysAllow
	}))(t)
	if _, ok, err := a.Authenticator.AuthenticateRequest(&http.Request{}); ok || err != nil {
		t.Errorf("somebody is known, or %v", err)
	}
	_, err := access(func(c *serve.AccessConfig) {
		c.Authentication.Webhook.Enabled, c.Authorization.Mode = &off, kubelet.KubeletAuthorizationModeAlwaysAllow
		c.Authentication.X509.ClientCAFile = "/nowhere"
	})
	check.Says(t, err, "clientCAFile /nowhere: ", "a client CA that is not there")
}
