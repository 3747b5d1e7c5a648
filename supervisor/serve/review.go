package serve

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/port"
)

const (
	// rightsKept is the limit of cached authorizations, and askedLimit the limit of a cached
	// question's size. A longer one, with many groups or a long path, is asked again each time.
	rightsKept = 4096
	askedLimit = 8 << 10
)

// asked retries a review until the apiserver answers or ctx ends.
func asked(ctx context.Context, question func(context.Context) error) error {
	again := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	var err error
	e := wait.ExponentialBackoffWithContext(ctx, again, func(ctx context.Context) (bool, error) {
		err = question(ctx)
		switch port.KindOf(err) {
		case port.Unavailable, port.Deadline, port.TooManyRequests, port.Other:
			return err == nil, nil
		default:
			return true, nil
		}
	})
	if err == nil {
		return e
	}
	return err
}

// reviewedTokens authenticates by an apiserver (authentication.k8s.io/v1 TokenReview).
type reviewedTokens struct {
	by    Reviewer
	slots *tokenSlots
}

// AuthenticateToken implements authenticator.Token.
func (t reviewedTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	give, ok := t.slots.take(token)
	if !ok {
		return nil, false, errBusy
	}
	defer give()
	var review authentication.TokenReview
	err := asked(ctx, func(ctx context.Context) error {
		review = authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}
		return t.by.ReviewToken(ctx, &review)
	})
	if err != nil {
		return nil, false, err
	}
	s := review.Status
	if !s.Authenticated {
		if s.Error != "" {
			return nil, false, errors.New(s.Error)
		}
		return nil, false, nil
	}
	who := &user.DefaultInfo{Name: s.User.Username, UID: s.User.UID, Groups: s.User.Groups, Extra: map[string][]string{}}
	for k, v := range s.User.Extra { // order-free: a map into a map
		who.Extra[k] = v
	}
	return &authenticator.Response{User: who}, true, nil
}

// rights authorizes by an apiserver (authorization.k8s.io/v1 SubjectAccessReview).
type rights struct {
	by      Reviewer
	known   *cache.LRUExpireCache
	yes, no time.Duration // how long they are cached
}

func newRights(by Reviewer, c kubelet.KubeletWebhookAuthorization) *rights {
	return &rights{by: by, known: cache.NewLRUExpireCache(rightsKept), yes: c.CacheAuthorizedTTL.Duration,
		no: c.CacheUnauthorizedTTL.Duration}
}

// Authorize implements authorizer.Authorizer, for resources. "No opinion" of the apiserver allows
// nothing.
func (r *rights) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	who := a.GetUser()
	spec := authorization.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: map[string]authorization.ExtraValue{},
		ResourceAttributes: &authorization.ResourceAttributes{
			Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource(),
			Subresource: a.GetSubresource(),
			Namespace:   a.GetNamespace(), Name: a.GetName(),
		},
	}
	for k, v := range who.GetExtra() { // order-free: a map into a map
		spec.Extra[k] = v
	}
	bare, err := json.Marshal(spec) // the keys of maps are sorted
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	key := string(bare)
	if known, ok := r.known.Get(key); ok {
		return known.(authorizer.Decision), "", nil
	}
	var review authorization.SubjectAccessReview
	err = asked(ctx, func(ctx context.Context) error {
		review = authorization.SubjectAccessReview{Spec: spec}
		return r.by.ReviewAccess(ctx, &review)
	})
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	decision, keep := authorizer.DecisionNoOpinion, r.no
	if review.Status.Allowed && !review.Status.Denied {
		decision, keep = authorizer.DecisionAllow, r.yes
	}
	if len(key) <= askedLimit {
		r.known.Add(key, decision, keep)
	}
	return decision, review.Status.Reason, nil
}
