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
	// rightsKept is the limit of cached authorizations, and of refusals. askedLimit is the limit of a cached
	// question's size: a longer one, with many groups or a long path, is asked again each time.
	rightsKept = 4096
	askedLimit = 8 << 10
	// knownFor is how long a user is known after the last answer that allowed something.
	knownFor = time.Hour
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
	give, known, ok := t.slots.take(token)
	if !ok {
		return nil, false, errBusy
	}
	defer give()
	var review authentication.TokenReview
	err := asked(ctx, func(ctx context.Context) error {
		review = authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}
		return t.by.ReviewToken(ctx, &review, known)
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
	by Reviewer
	// yes and no are its answers, apart, so that refusals drive out no others. They are kept for yesFor and noFor.
	yes, no       *cache.LRUExpireCache
	yesFor, noFor time.Duration
	// let are the names of users that were allowed something.
	let *cache.LRUExpireCache
}

func newRights(by Reviewer, c kubelet.KubeletWebhookAuthorization) *rights {
	return &rights{
		by: by, yes: cache.NewLRUExpireCache(rightsKept), no: cache.NewLRUExpireCache(rightsKept),
		let:    cache.NewLRUExpireCache(rightsKept),
		yesFor: c.CacheAuthorizedTTL.Duration, noFor: c.CacheUnauthorizedTTL.Duration,
	}
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
	if _, ok := r.yes.Get(key); ok {
		return authorizer.DecisionAllow, "", nil
	}
	if _, ok := r.no.Get(key); ok {
		return authorizer.DecisionNoOpinion, "", nil
	}
	_, known := r.let.Get(who.GetName())
	var review authorization.SubjectAccessReview
	err = asked(ctx, func(ctx context.Context) error {
		review = authorization.SubjectAccessReview{Spec: spec}
		return r.by.ReviewAccess(ctx, &review, known)
	})
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	decision, in, keep := authorizer.DecisionNoOpinion, r.no, r.noFor
	if review.Status.Allowed && !review.Status.Denied {
		decision, in, keep = authorizer.DecisionAllow, r.yes, r.yesFor
		r.let.Add(who.GetName(), nil, knownFor)
	}
	if len(key) <= askedLimit {
		in.Add(key, nil, keep)
	}
	return decision, review.Status.Reason, nil
}
