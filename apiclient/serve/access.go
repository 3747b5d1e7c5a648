package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// ErrNobodyToAsk is that tokens or rights are to be asked of an apiserver, and
// the node has none.
var ErrNobodyToAsk = errors.New("without a --kubeconfig nobody can be asked who a user is and what they may: " +
	"set authentication.webhook.enabled: false with a clientCAFile, and authorization.mode: AlwaysAllow; or enableServer: false")

// AccessConfig says how it is found out who asks and what they may.
type AccessConfig struct {
	// Authentication and Authorization are as KubeletConfiguration has them, with
	// their defaults.
	Authentication kubelet.KubeletAuthentication
	Authorization  kubelet.KubeletAuthorization
	// Tokens and Rights are asked of the apiserver (TokenReview,
	// SubjectAccessReview). Nil for a node without one.
	Tokens authentication.AuthenticationV1Interface
	Rights authorization.AuthorizationV1Interface
}

// Access is who may use a server. Answers of the apiserver are remembered for as
// long as the configuration says.
type Access struct {
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	// clientCA is nil without a clientCAFile.
	clientCA *dynamiccertificates.DynamicFileCAContent
}

// NewAccess reads the client CA, and asks nobody yet.
func NewAccess(c AccessConfig) (*Access, error) {
	a := &Access{}
	authn := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                &apiserver.AnonymousAuthConfig{Enabled: is(c.Authentication.Anonymous.Enabled)},
		CacheTTL:                 c.Authentication.Webhook.CacheTTL.Duration,
		TokenAccessReviewTimeout: reviewTimeout / 3, // there is a second try
		WebhookRetryBackoff:      reviewRetry(),
	}
	if path := c.Authentication.X509.ClientCAFile; path != "" {
		var err error
		if a.clientCA, err = dynamiccertificates.NewDynamicCAContentFromFile("client-ca", path); err != nil {
			return nil, fmt.Errorf("authentication.x509.clientCAFile %s: %w", path, err)
		}
		authn.ClientCertificateCAContentProvider = a.clientCA
	}
	if is(c.Authentication.Webhook.Enabled) {
		if c.Tokens == nil {
			return nil, ErrNobodyToAsk
		}
		authn.TokenAccessReviewClient = c.Tokens
	}
	var err error
	if a.clientCA == nil && authn.TokenAccessReviewClient == nil && !authn.Anonymous.Enabled {
		a.Authenticator = authenticator.RequestFunc(nobody)
	} else if a.Authenticator, _, err = authn.New(); err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	if c.Authorization.Mode == kubelet.KubeletAuthorizationModeAlwaysAllow {
		a.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
		return a, nil
	}
	if c.Rights == nil {
		return nil, ErrNobodyToAsk
	}
	a.Authorizer = later{sync.OnceValues(authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: c.Rights,
		AllowCacheTTL:             c.Authorization.Webhook.CacheAuthorizedTTL.Duration,
		DenyCacheTTL:              c.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
		WebhookRetryBackoff:       reviewRetry(),
	}.New)}
	return a, nil
}

// later is an authorizer that is made when somebody asks: it brings a compiler
// for rules that nobody here writes, and a node is to start at once.
type later struct {
	get func() (authorizer.Authorizer, error)
}

// Authorize implements authorizer.Authorizer.
func (l later) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	made, err := l.get()
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	return made.Authorize(ctx, a)
}

// nobody is known where the configuration has turned all ways of it off.
func nobody(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil }

func is(b *bool) bool { return b != nil && *b }

// reviewRetry is how often an apiserver is asked that fails to answer.
func reviewRetry() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// Run reads the client CA again when its file changes, until ctx ends.
func (a *Access) Run(ctx context.Context) {
	if a.clientCA != nil {
		a.clientCA.Run(ctx, 1)
	}
}

// Ask makes a server ask its clients for certificates. Whether one is good is for
// Authenticator: a client without any may have a token.
func (a *Access) Ask(c *tls.Config) {
	if a.clientCA == nil {
		return
	}
	c.ClientAuth = tls.RequestClientCert
	// A client that has several certificates chooses by the names that it is told.
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, ok := a.clientCA.VerifyOptions()
		if !ok {
			return nil, nil
		}
		now := c.Clone()
		now.GetConfigForClient, now.ClientCAs = nil, options.Roots
		return now, nil
	}
}
