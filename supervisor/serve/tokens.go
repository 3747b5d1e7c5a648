package serve

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

const (
	// tokensAtOnce bounds concurrent reviews of unknown tokens: any client can send one, and a
	// review continues after the client has disconnected. tokensOfOrigin is what one address may have of them,
	// and from tokensCrowded on only those have one that have none: others must not lock out a client with a token.
	tokensAtOnce   = 128
	tokensOfOrigin = tokensAtOnce / 4
	tokensCrowded  = tokensAtOnce * 3 / 4
)

// errBusy means that the limit of concurrent token reviews is reached.
var errBusy = errors.New("too many token reviews in progress: try again")

// tokenSlots are the running reviews of tokens, by where they came from. Between the two ends of it is a cache, which
// reviews a token once for all who send it, and does not say for whom.
type tokenSlots struct {
	mu sync.Mutex
	// senders are the requests with a token that is being looked up.
	senders map[string]*sender
	busy    map[netip.Prefix]int
	all     int
}

// sender is where a token came from first, and how many requests have it.
type sender struct {
	origin netip.Prefix
	n      int
}

func newTokenSlots() *tokenSlots {
	return &tokenSlots{senders: map[string]*sender{}, busy: map[netip.Prefix]int{}}
}

// sent remembers where tokens come from while they are looked up in a cache.
func (s *tokenSlots) sent(cache authenticator.Token) authenticator.Token {
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		defer s.send(token, originOf(ctx))()
		return cache.AuthenticateToken(ctx, token)
	})
}

func originOf(ctx context.Context) netip.Prefix {
	if g, _ := ctx.Value(guestKey{}).(*guest); g != nil {
		return g.origin
	}
	return netip.Prefix{}
}

func (s *tokenSlots) send(token string, origin netip.Prefix) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.senders[token]
	if of == nil {
		of = &sender{origin: origin}
		s.senders[token] = of
	}
	of.n++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if of.n--; of.n == 0 {
			delete(s.senders, token)
		}
	}
}

// take takes a slot for the review of a token; false if there is none for where it came from. Those whose sender has
// left before count together.
func (s *tokenSlots) take(token string) (give func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var origin netip.Prefix
	if of := s.senders[token]; of != nil {
		origin = of.origin
	}
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
