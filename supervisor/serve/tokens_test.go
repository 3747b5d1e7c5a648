package serve

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	tokens "k8s.io/apiserver/pkg/authentication/token/cache"

	"github.com/troupe-dev/troupe/tests/check"
)

// slow is an apiserver that takes a second for a token.
type slow struct{}

func (slow) ReviewToken(_ context.Context, r *authentication.TokenReview, _ bool) error {
	time.Sleep(time.Second)
	r.Status = authentication.TokenReviewStatus{Authenticated: true, User: authentication.UserInfo{Username: "alice"}}
	return nil
}

func (slow) ReviewAccess(context.Context, *authorization.SubjectAccessReview, bool) error { return nil }

// TestTokensOfStrangers: whoever sends made-up tokens from one address, or from some, keeps nobody else out.
func TestTokensOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := newTokenSlots()
		known := slots.sent(tokens.New(reviewedTokens{slow{}, slots}, false, time.Minute, time.Minute))
		number, passed, mu := 0, map[string]int{}, sync.Mutex{}
		reviews := func() int {
			slots.unauthenticated.mu.Lock()
			defer slots.unauthenticated.mu.Unlock()
			return slots.unauthenticated.all
		}
		send := func(from string, times int) {
			ctx, leave := context.WithCancel(t.Context())
			ctx = context.WithValue(ctx, connKey{}, &limitedConn{origin: netip.MustParsePrefix(from + "/32")})
			for range times {
				number++
				token := fmt.Sprint("token ", number)
				go func() {
					if _, ok, err := known.AuthenticateToken(ctx, token); ok {
						mu.Lock()
						passed[from]++
						mu.Unlock()
					} else if err != nil && ctx.Err() == nil {
						check.Equal(t, err, errBusy, "why it is refused")
					}
				}()
				synctest.Wait() // those that are refused have ended
			}
			if from == "192.0.2.66" {
				leave() // its reviews go on
			}
			t.Cleanup(leave)
		}
		send("192.0.2.66", 200)
		synctest.Wait()
		check.Equal(t, reviews(), tokensOfOrigin, "reviews for one address, which has left")
		for n := range 4 {
			send(fmt.Sprint("192.0.2.", n), 200)
		}
		check.Equal(t, reviews(), tokensCrowded+2, "reviews for five addresses: the last two have one")
		send("198.51.100.7", 2)
		check.Equal(t, reviews(), tokensCrowded+3, "reviews with one more address")
		for n := range 40 {
			send(fmt.Sprint("203.0.113.", n), 1)
		}
		check.Equal(t, reviews(), tokensAtOnce, "reviews for a crowd")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		check.Equal(t, passed["198.51.100.7"], 1, "tokens of the client that was late")
		check.Equal(t, passed["192.0.2.0"], tokensOfOrigin, "tokens of an address")
		check.Equal(t, passed["192.0.2.3"], 1, "tokens of the last address")
		check.Equal(t, reviews(), 0, "reviews at the end")
		check.Equal(t, fmt.Sprint(len(slots.unauthenticated.busy), len(slots.senders)), "0 0", "at the end")
	})
}
