package serve

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

const (
	// tokensAtOnce bounds concurrent reviews of unknown tokens of unauthenticated clients: any client can send one, and a
	// review continues after the client has disconnected. tokensOfOrigin is what one address may have of them,
	// and from tokensCrowded on only those have one that have none: others must not lock out a client with a token.
	// Known clients have as many of their own.
	tokensAtOnce   = 128
	tokensOfOrigin = tokensAtOnce / 4
	tokensCrowded  = tokensAtOnce * 3 / 4
)

// errBusy means that the limit of concurrent token reviews is reached.
var errBusy = errors.New("too many token reviews in progress: try again")

// reviewSlots are running reviews of tokens, by where the clients are.
type reviewSlots struct {
	mu   sync.Mutex
	busy map[netip.Prefix]int
	all  int
}

// take takes a slot; false if there is none for that origin.
func (s *reviewSlots) take(origin netip.Prefix) (give func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := tokensOfOrigin
	if s.all >= tokensCrowded {
		share = 1
	}
	if s.all >= tokensAtOnce || s.busy[origin] >= share {
		return nil, false
	}
	s.all++
	s.busy[origin]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.busy[origin]--; s.busy[origin] == 0 {
			delete(s.busy, origin)
		}
	}, true
}

// tokenSlots are the running reviews of tokens, by where they came from. Between the two ends of it is a cache, which
// reviews a token once for all who send it, and does not say for whom.
type tokenSlots struct {
	unauthenticated, known reviewSlots

	mu sync.Mutex
	// senders are the requests with a token that is being looked up.
	senders map[string]*sender
}

// sender is where a token came from first, whether it came on the connection of a known client, and how many requests
// have it.
type sender struct {
	origin netip.Prefix
	known  bool
	n      int
}

func newTokenSlots() *tokenSlots {
	none := func() reviewSlots { return reviewSlots{busy: map[netip.Prefix]int{}} }
	return &tokenSlots{unauthenticated: none(), known: none(), senders: map[string]*sender{}}
}

// sent remembers where tokens come from while they are looked up in a cache.
func (s *tokenSlots) sent(cache authenticator.Token) authenticator.Token {
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		defer s.send(token, connIn(ctx))()
		return cache.AuthenticateToken(ctx, token)
	})
}

// originOf is where a request comes from.
func originOf(g *limitedConn) netip.Prefix {
	if g == nil {
		return netip.Prefix{}
	}
	return g.origin
}

func (s *tokenSlots) send(token string, g *limitedConn) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.senders[token]
	if of == nil {
		of = &sender{origin: originOf(g)}
		s.senders[token] = of
	}
	of.known = of.known || g != nil && g.authenticated.Load()
	of.n++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if of.n--; of.n == 0 {
			delete(s.senders, token)
		}
	}
}

// take takes a slot for the review of a token, and says whether a known client has sent it; ok is false if there is
// none for where it came from. Those whose sender has left before count together.
func (s *tokenSlots) take(token string) (give func(), known, ok bool) {
	s.mu.Lock()
	var from sender
	if of := s.senders[token]; of != nil {
		from = *of
	}
	s.mu.Unlock()
	slots := &s.unauthenticated
	if from.known {
		slots = &s.known
	}
	give, ok = slots.take(from.origin)
	return give, from.known, ok
}
