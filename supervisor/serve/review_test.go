package serve_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	authn "k8s.io/api/authentication/v1"
	authz "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/tests/check"
)

// failing is an apiserver that fails so often before it answers yes.
type failing struct {
	kind         port.ErrorKind
	times, asked int
	denies       bool
}

func (f *failing) fail() error {
	if f.asked++; f.asked <= f.times {
		return &port.Error{Kind: f.kind, Verb: "create", Object: "a review"}
	}
	return nil
}

func (f *failing) ReviewToken(_ context.Context, r *authn.TokenReview, _ bool) error {
	r.Status = authn.TokenReviewStatus{Authenticated: true, User: authn.UserInfo{
		Username: "alice", UID: "u-1", Groups: []string{"g"}, Extra: map[string]authn.ExtraValue{"k": {"v"}},
	}}
	return f.fail()
}

func (f *failing) ReviewAccess(_ context.Context, r *authz.SubjectAccessReview, _ bool) error {
	r.Status.Allowed = !f.denies
	return f.fail()
}

// TestReviewsAreTriedAgain while nobody answers, but not when somebody does; and
// no failure is remembered.
func TestReviewsAreTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		kind         port.ErrorKind
		times, asked int
		ok           bool
		patience     time.Duration
	}{
		{port.Unavailable, 0, 1, true, time.Minute},
		{port.Unavailable, 2, 3, true, time.Minute},
		{port.Other, 4, 5, true, time.Minute},
		{port.TooManyRequests, 5, 5, false, time.Minute},
		{port.Deadline, 5, 2, false, time.Second},
		{port.Forbidden, 1, 1, false, time.Minute},
		{port.Unauthorized, 1, 1, false, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
			defer cancel()
			rights, tokens := &failing{kind: tt.kind, times: tt.times}, &failing{kind: tt.kind, times: tt.times}
			if decision, err := authorize(t, ctx, rights); (decision == authorizer.DecisionAllow && err == nil) != tt.ok || rights.asked != tt.asked {
				t.Errorf("%s, %d times: %v, %v after %d questions", tt.kind, tt.times, decision, err, rights.asked)
			}
			ctx, cancel = context.WithTimeout(t.Context(), tt.patience)
			defer cancel()
			who, ok, err := authenticate(t, ctx, tokens)
			time.Sleep(time.Minute) // a question about a token goes on for others who ask the same
			synctest.Wait()
			if ok != tt.ok || (err == nil) != tt.ok || tokens.asked != max(tt.asked, min(tt.times, 5)) {
				t.Errorf("%s, %d times: %v, %v after %d questions", tt.kind, tt.times, who, err, tokens.asked)
			}
			if ok && (who.GetName() != "alice" || who.GetUID() != "u-1" || len(who.GetGroups()) != 2 || who.GetExtra()["k"][0] != "v") {
				t.Errorf("it is %+v", who)
			}
		})
	}
}

func withReviewer(t *testing.T, r serve.Reviewer) *serve.Access {
	t.Helper()
	return check.Value(access(func(c *serve.AccessConfig) { c.Reviewer = r }))(t)
}

func authorize(t *testing.T, ctx context.Context, r serve.Reviewer) (authorizer.Decision, error) {
	decision, _, err := withReviewer(t, r).Authorizer.Authorize(ctx, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "get"})
	return decision, err
}

func authenticate(t *testing.T, ctx context.Context, r serve.Reviewer) (user.Info, bool, error) {
	request := check.Value(http.NewRequestWithContext(ctx, "GET", "https://n1/pods", nil))(t)
	request.Header.Set("Authorization", "Bearer t")
	answer, ok, err := withReviewer(t, r).Authenticator.AuthenticateRequest(request)
	if !ok {
		return nil, ok, err
	}
	return answer.User, ok, err
}

// TestRightsAreForgotten when they are as old as the configuration says; and those
// of one who asks with much to tell are not kept at all.
func TestRightsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &failing{}
		a := withReviewer(t, r)
		ask := func(who string, want int) {
			t.Helper()
			if _, _, err := a.Authorizer.Authorize(t.Context(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: "get"}); err != nil || r.asked != want {
				t.Errorf("%v after %d questions, want %d", err, r.asked, want)
			}
		}
		ask("alice", 1)
		ask("alice", 1)
		ask("bob", 2)
		time.Sleep(61 * time.Second) // on the test's clock
		ask("alice", 3)
		r.denies = true
		ask("carol", 4)
		ask("carol", 4)
		time.Sleep(31 * time.Second) // a denial is kept for half as long
		ask("carol", 5)
		r.denies = false
		long := string(make([]byte, 10_000))
		ask(long, 6)
		ask(long, 7)
	})
}
