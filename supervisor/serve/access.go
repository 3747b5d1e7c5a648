package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	certificates "k8s.io/apiserver/pkg/authentication/request/x509"
	tokens "k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/util/cert"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/apiclient/reread"
)

// ErrNobodyToAsk means that tokens or rights must be checked by an apiserver, and the node has
// none.
var ErrNobodyToAsk = errors.New("authentication and authorization of the HTTPS server need an apiserver, and there " +
	"is no --kubeconfig: " +
	"set authentication.webhook.enabled: false with a clientCAFile, and authorization.mode: AlwaysAllow; or " +
	"enableServer: false")

// Reviewer is an apiserver's review API. Both calls fill in the status of their argument, and end
// with ctx; errors are a *port.Error. known: for a client that was let in before. Such a call waits for none of others.
type Reviewer interface {
	ReviewToken(_ context.Context, _ *authentication.TokenReview, known bool) error
	ReviewAccess(_ context.Context, _ *authorization.SubjectAccessReview, known bool) error
}

// AccessConfig configures authentication and authorization.
type AccessConfig struct {
	// Authentication and Authorization are those of KubeletConfiguration, with their defaults.
	Authentication kubelet.KubeletAuthentication
	Authorization  kubelet.KubeletAuthorization
	// Reviewer is nil for a node without an apiserver.
	Reviewer Reviewer
}

// Asks says whether an apiserver is asked about clients.
func (c AccessConfig) Asks() bool {
	return is(c.Authentication.Webhook.Enabled) || c.Authorization.Mode != kubelet.KubeletAuthorizationModeAlwaysAllow
}

// Access authenticates and authorizes the clients of a server. Answers of the apiserver are
// cached for as long as the configuration says.
//
//	request ──► certificate ──► token ──► anonymous ──► Authorizer
//	            of clientCAFile │                       │
//	                            └──► TokenReview        └──► SubjectAccessReview
//
// It is made of parts of k8s.io/apiserver. That package's ready-made combination includes a
// compiler for unused rules and a client for every type of Kubernetes, which costs 20 MiB of
// memory per node (docs/decisions/0020).
type Access struct {
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	// clientCA is nil without a clientCAFile.
	clientCA *authority
}

// NewAccess reads the client CA. It makes no request yet.
func NewAccess(c AccessConfig) (*Access, error) {
	if c.Reviewer == nil && c.Asks() {
		return nil, ErrNobodyToAsk
	}
	a := &Access{}
	if err := a.authenticate(c); err != nil {
		return nil, err
	}
	if c.Authorization.Mode == kubelet.KubeletAuthorizationModeAlwaysAllow {
		a.Authorizer = authorizer.AuthorizerFunc(func(context.Context,
			authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionAllow, "", nil
		})
		return a, nil
	}
	a.Authorizer = newRights(c.Reviewer, c.Authorization.Webhook)
	return a, nil
}

func (a *Access) authenticate(c AccessConfig) error {
	var ways []authenticator.Request
	if path := c.Authentication.X509.ClientCAFile; path != "" {
		a.clientCA = &authority{roots: reread.Of(func() (*x509.CertPool, error) { return cert.NewPool(path) }, path)}
		if _, err := a.clientCA.roots.Look(); err != nil {
			return fmt.Errorf("authentication.x509.clientCAFile %s: %w", path, err)
		}
		ways = append(ways, certificates.NewDynamic(a.clientCA.options, certificates.CommonNameUserConversion))
	}
	if is(c.Authentication.Webhook.Enabled) {
		ttl := c.Authentication.Webhook.CacheTTL.Duration
		slots := newTokenSlots()
		known := slots.sent(tokens.New(reviewedTokens{c.Reviewer, slots}, false, ttl, ttl))
		ways = append(ways, bearertoken.New(known), websocket.NewProtocolAuthenticator(known))
	}
	a.Authenticator = group.NewAuthenticatedGroupAdder(union.New(ways...))
	if len(ways) == 0 {
		a.Authenticator = authenticator.RequestFunc(nobody)
	}
	if is(c.Authentication.Anonymous.Enabled) {
		// An invalid credential is refused, and not treated as anonymous.
		a.Authenticator = union.NewFailOnError(a.Authenticator, anonymous.NewAuthenticator(nil))
	}
	return nil
}

// nobody refuses all clients, for a configuration without any authentication.
func nobody(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil }

func is(b *bool) bool { return b != nil && *b }

// Ask makes a server request client certificates. The Authenticator verifies them: a client
// without one may have a token.
func (a *Access) Ask(c *tls.Config) {
	if a.clientCA == nil {
		return
	}
	c.ClientAuth = tls.RequestClientCert
	// A client with several certificates chooses by the CA names that it gets.
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.Clone()
		options, _ := a.clientCA.options()
		now.GetConfigForClient, now.ClientCAs = nil, options.Roots
		return now, nil
	}
}

// authority is a CA in a file, read again when the file changes. While the file is broken or
// gone, the old CA stays in use.
type authority struct {
	mu     sync.Mutex
	looked time.Time
	roots  reread.Files[*x509.CertPool]
}

// options has the verification options for client certificates.
func (a *authority) options() (x509.VerifyOptions, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.looked) >= reread.Period {
		a.looked = now
		a.roots.Look() //nolint:errcheck // the old CA stays in use
	}
	return x509.VerifyOptions{Roots: a.roots.Value, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}
