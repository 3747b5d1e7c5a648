package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// besieged is a server at a port of this machine, whose apiserver answers no review for a stranger.
type besieged struct {
	*Server
	scheme string
	// tokens and rights count the reviews of strangers' tokens, and of what strangers may. They wait until the test is over.
	tokens, rights atomic.Int64
	over           chan struct{}
	// unknown counts the reviews of known clients that were asked for as those of strangers.
	unknown atomic.Int64
}

// ReviewToken implements Reviewer. Users of some rights, and accounts without any, have tokens that are their names.
func (b *besieged) ReviewToken(ctx context.Context, r *authentication.TokenReview, known bool) error {
	name := r.Spec.Token
	if !may(name) && !strings.HasPrefix(name, "account") {
		return b.hang(ctx, &b.tokens)
	}
	b.asked(known, name)
	r.Status = authentication.TokenReviewStatus{Authenticated: true, User: authentication.UserInfo{Username: name}}
	return nil
}

// ReviewAccess implements Reviewer.
func (b *besieged) ReviewAccess(ctx context.Context, r *authorization.SubjectAccessReview, known bool) error {
	if r.Status.Allowed = may(r.Spec.User); !r.Status.Allowed {
		return b.hang(ctx, &b.rights)
	}
	b.asked(known, r.Spec.User)
	return nil
}

func (b *besieged) asked(known bool, name string) {
	if !known && (name == "kubectl" || name == "metrics") {
		b.unknown.Add(1)
	}
}

func may(name string) bool { return slices.Contains([]string{"kubectl", "metrics", "slow"}, name) }

// hang is a review that has no answer.
func (b *besieged) hang(ctx context.Context, count *atomic.Int64) error {
	count.Add(1)
	select {
	case <-b.over:
	case <-ctx.Done():
	}
	return &port.Error{Kind: port.Forbidden} // it is not asked again
}

func besiege(t testing.TB, scheme string, conf *tls.Config) *besieged {
	t.Helper()
	b := &besieged{scheme: scheme, over: make(chan struct{})}
	on := true
	c := AccessConfig{Reviewer: b} // nothing is kept of the apiserver's answers: each request asks
	c.Authentication.Webhook.Enabled, c.Authorization.Mode = &on, kubelet.KubeletAuthorizationModeWebhook
	access := check.Value(NewAccess(c))(t)
	much := make([]byte, 1<<20)
	b.Server = check.Value(Listen(Config{
		Address: "127.0.0.1:0", Node: "n1", TLS: conf,
		Authenticator: access.Authenticator, Authorizer: access.Authorizer, Log: zerolog.Nop(),
		Routes: []Route{
			{Path: "/pods", Methods: []string{"GET"}, Subresources: Pods, Handler: http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { w.Write(much[:16<<10]) })}, //nolint:errcheck // the client has gone
			{Path: "/much", Methods: []string{"GET"}, Subresources: Metrics, Handler: http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					for range 1 << 10 {
						if _, err := w.Write(much); err != nil {
							return
						}
					}
				})},
		},
	}))(t)
	b.short.most = 16 // all come before the first is given up
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx) }()
	t.Cleanup(func() {
		close(b.over)
		stop()
		check.Error(t, <-ended)
	})
	return b
}

// client is one with a token at an address of this machine.
type client struct {
	http.Client
	at, token string
}

func (b *besieged) client(t testing.TB, address, token string) *client {
	t.Helper()
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{
		DialContext: from.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the test's own
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{Client: http.Client{Transport: transport}, at: b.scheme + "://" + b.Address(), token: token}
}

// get asks for a path.
func (c *client) get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.at+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	return c.Do(r)
}

// status asks for the pods, as kubectl and metrics do.
func (c *client) status(t testing.TB) string {
	t.Helper()
	answer := check.Value(c.get(context.Background(), "/pods"))(t)
	defer answer.Body.Close()
	check.Value(io.Copy(io.Discard, answer.Body))(t)
	return answer.Status
}

// connect connects from an address, and says nothing.
func (b *besieged) connect(address string) (net.Conn, error) {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return from.Dial("tcp", b.Address())
}

// strangers hold all that they can: connections that say nothing, tokens that nobody knows, accounts without rights; and a
// user who may ask for much does not read it. They come from addresses, and stay until the test ends.
func (b *besieged) strangers(t testing.TB, connections, tokens int, addresses []string) {
	t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { leave(); all.Wait() })
	ask := func(address, token, path string) {
		all.Go(func() {
			c := b.client(t, address, token)
			if answer, err := c.get(ctx, path); err == nil {
				<-ctx.Done() // it does not read
				answer.Body.Close()
			}
			c.CloseIdleConnections()
		})
	}
	for range b.short.most {
		ask(addresses[0], "slow", "/much")
	}
	check.Until(t, "a user who does not read has all that there is for one", func() bool {
		b.short.mu.Lock()
		defer b.short.mu.Unlock()
		return b.short.of["slow"] == b.short.most*userShare/(userShare+1)
	})
	for i := range tokens {
		ask(addresses[i%len(addresses)], fmt.Sprint("account-", i), "/pods")
	}
	check.Until(t, "it is asked what accounts may", func() bool { return b.rights.Load() >= tokensCrowded })
	for i := range tokens {
		ask(addresses[i%len(addresses)], fmt.Sprint("token-", i), "/pods")
	}
	check.Until(t, "tokens take all that there is for strangers", func() bool { return b.tokens.Load() >= tokensCrowded })
	for i := range connections {
		conn := check.Value(b.connect(addresses[i%len(addresses)]))(t)
		t.Cleanup(func() { conn.Close() })
	}
	check.Until(t, "strangers have all connections that there are for them", func() bool {
		b.limiter.mu.Lock()
		defer b.limiter.mu.Unlock()
		return len(b.limiter.unauthenticated) == usualBounds.unauthenticated && b.limiter.seq >= uint64(connections)
	})
}

// addresses are some of this machine.
func addresses(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("127.0.1.", i+1))
	}
	return all
}

// TestBesieged: strangers hold all that they can have, also from the address of known clients. These are answered, on
// connections that they have, and from another address on new ones.
func TestBesieged(t *testing.T) {
	b := besiege(t, "http", nil)
	from := addresses(8)
	kubectl, metrics := b.client(t, from[0], "kubectl"), b.client(t, from[1], "metrics")
	for _, c := range []*client{kubectl, metrics} {
		check.Equal(t, c.status(t), "200 OK", "the answer to %s before", c.token)
	}
	b.strangers(t, 2*usualBounds.unauthenticated, 200, from)
	b.unknown.Store(0)
	for range 3 {
		for _, c := range []*client{kubectl, metrics} {
			check.Equal(t, c.status(t), "200 OK", "the answer to %s", c.token)
		}
	}
	check.Equal(t, b.unknown.Load(), 0, "reviews of known clients among those of strangers")
	check.Equal(t, b.client(t, "127.0.0.1", "kubectl").status(t), "200 OK", "the answer on a new connection")
}

// took is how long requests for the pods took. They are made as long as goesOn says so of their number.
func (c *client) took(t testing.TB, goesOn func(n int) bool) (all []time.Duration) {
	t.Helper()
	for goesOn(len(all)) {
		begun := time.Now()
		check.Fatal(t, check.Is(c.status(t), "200 OK", "the answer"))
		all = append(all, time.Since(begun))
	}
	return all
}

// samples is how many requests are enough for a median.
func samples(n int) bool { return n < 1000 }

// compared reports the median of requests that were made alone, and of others beside something, and how much longer the
// slowest hundredth of these took.
func compared(b *testing.B, alone, beside []time.Duration) {
	b.Helper()
	slices.Sort(alone)
	slices.Sort(beside)
	a, of := alone[len(alone)/2], beside[len(beside)/2]
	b.ReportMetric(float64(a.Microseconds()), "µs-alone")
	b.ReportMetric(float64(of.Microseconds()), "µs-beside")
	b.ReportMetric(float64(of)/float64(a), "ratio")
	b.ReportMetric(float64(beside[len(beside)*99/100])/float64(alone[len(alone)*99/100]), "ratio-p99")
}

// besiegeTLS is besiege with TLS.
func besiegeTLS(t testing.TB) *besieged {
	t.Helper()
	pair := check.Value(signedPair())(t)
	return besiege(t, "https", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
}

// BenchmarkBesieged: a request of a known client, beside 10,000 connections, 1,000 tokens and slow readers, and alone.
func BenchmarkBesieged(b *testing.B) {
	s := besiegeTLS(b)
	from := addresses(8)
	known := s.client(b, "127.0.0.1", "kubectl")
	known.took(b, samples) // the first requests take longer
	alone := known.took(b, samples)
	s.strangers(b, 10_000, 1000, from)
	for b.Loop() {
		compared(b, alone, known.took(b, samples))
	}
}
