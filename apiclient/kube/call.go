package kube

import (
	"context"
	"encoding/json"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/apiclient/internal/mergepatch"
)

// Deadlines by kind of call, from the call to its answer. They include client-go's waits and
// retries (it obeys Retry-After).
//
//	read                            15 s
//	write                           35 s  (a webhook may take 30 s: timeoutSeconds)
//	a node or a lease, both ways    10 s  (a lease of 40 s is renewed every 10 s:
//	                                       one that hangs must leave time for more)
//
// All are bounded by the caller's context as well.
const (
	readTimeout      = 15 * time.Second
	writeTimeout     = 35 * time.Second
	heartbeatTimeout = 10 * time.Second
)

// call describes one call.
type call struct {
	verb   string
	object string
	limit  time.Duration
	// counts: it is an ordinary write.
	counts bool
}

func callOn(verb string, k port.APIKey, limit time.Duration) call {
	if kinds[k.Kind].lane == heartbeat {
		limit = heartbeatTimeout
	}
	return call{verb: verb, object: k.String(), limit: limit, counts: verb != "get" && kinds[k.Kind].lane == ordinary}
}

// run performs fn on a new goroutine, within the call's deadline, and passes its translated
// result to done, exactly once.
func run[T any](c *Client, ctx context.Context, k call, fn func(context.Context) (T, error), done func(T, error)) {
	panicked := port.Panicked(k.verb, k.object)
	if !c.enter() {
		rescue.Ask(ctx, func() (none T, err error) {
			return none, &port.Error{Kind: port.Canceled, Verb: k.verb, Object: k.object, Detail: "the client is closed"}
		}, panicked, done)
		return
	}
	rescue.Go(ctx, func() {
		defer c.calls.Done()
		ctx, cancel := c.within(ctx, k.limit)
		defer cancel()
		if k.counts {
			c.rush.begin(time.Now())
			defer c.rush.end()
		}
		rescue.Answer(ctx, func() (T, error) {
			result, err := fn(ctx)
			if err = c.translateError(k.verb, k.object, err, ctx.Err()); err != nil {
				var zero T
				result = zero
			}
			return result, err
		}, panicked, done)
	}, rescue.Answered)
}

// enter registers a call; false if the client is closed.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}

// within bounds ctx by limit, if there is one, and by the client's lifetime.
func (c *Client) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if limit == 0 {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	stop := context.AfterFunc(c.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// Get implements port.API.
func (c *Client) Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error)) {
	run(c, ctx, callOn("get", k, readTimeout), func(ctx context.Context) (port.APIObject, error) {
		return c.held(c.get(ctx, k))
	}, done)
}

func (c *Client) get(ctx context.Context, k port.APIKey) (port.APIObject, error) {
	kind, client := c.kind(k.Kind)
	return kind.into(ctx, kind.of(client.Get(), k))
}

// Create implements port.API.
func (c *Client) Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error)) {
	k := port.APIKeyOf(o)
	run(c, ctx, callOn("create", k, writeTimeout), func(ctx context.Context) (port.APIObject, error) {
		kind, client := c.kind(k.Kind)
		request := client.Post().NamespaceIfScoped(k.Namespace, kind.namespaced).Resource(kind.resource)
		return c.held(kind.into(ctx, request.Body(ownCopy(o))))
	}, done)
}

// Update implements port.API.
func (c *Client) Update(ctx context.Context, o port.APIObject, done func(port.APIObject, error)) {
	k := port.APIKeyOf(o)
	run(c, ctx, callOn("update", k, writeTimeout), func(ctx context.Context) (port.APIObject, error) {
		kind, client := c.kind(k.Kind)
		return c.held(kind.into(ctx, kind.of(client.Put(), k).Body(ownCopy(o))))
	}, done)
}

// ownCopy copies an object, because an encoder writes the kind into it and the object is shared.
func ownCopy(o port.APIObject) port.APIObject { return o.DeepCopyObject().(port.APIObject) }

// Patch implements port.API.
func (c *Client) Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	verb := "patch"
	if p.Status {
		verb = "patch status of"
	}
	run(c, ctx, callOn(verb, p.Key, writeTimeout), func(ctx context.Context) (port.APIObject, error) {
		kind, client := c.kind(p.Key.Kind)
		changes, err := mergepatch.Between(p, kind.object())
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			return c.unchanged(ctx, p)
		}
		version := ""
		if p.Newest {
			version = p.From.GetResourceVersion()
		}
		patch, err := patchBody(changes, p.From.GetUID(), version)
		if err != nil {
			return nil, err
		}
		request := kind.of(client.Patch(types.StrategicMergePatchType), p.Key)
		if p.Status {
			request = request.SubResource("status")
		}
		o, err := kind.into(ctx, request.Body(patch))
		if anotherUID(err) {
			err = &port.Error{Kind: port.Conflict, Detail: oneLine(err)}
		}
		return o, err
	}, done)
}

// patchBody adds the UID to a patch: the apiserver then refuses to patch another object of that
// name. It compares the version too, if there is one.
func patchBody(changes map[string]any, uid types.UID, version string) ([]byte, error) {
	metadata, _ := changes["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	if uid != "" {
		metadata["uid"] = string(uid)
	}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	if len(metadata) > 0 {
		changes["metadata"] = metadata
	}
	return json.Marshal(changes)
}

// unchanged is the result of an empty patch.
func (c *Client) unchanged(ctx context.Context, p port.APIPatch) (port.APIObject, error) {
	o, err := c.get(ctx, p.Key)
	if err != nil {
		return nil, err
	}
	if uid := p.From.GetUID(); uid != "" && uid != o.GetUID() {
		return nil, &port.Error{
			Kind: port.Conflict, Detail: "it has another UID: " + string(o.GetUID()) + ", not " + string(uid),
		}
	}
	if p.Newest && p.From.GetResourceVersion() != o.GetResourceVersion() {
		return nil, &port.Error{
			Kind: port.Conflict, Detail: "it has another version: " + o.GetResourceVersion() + ", not " +
				p.From.GetResourceVersion(),
		}
	}
	return o, nil
}

// Delete implements port.API.
func (c *Client) Delete(ctx context.Context, d port.APIDelete, done func(error)) {
	run(c, ctx, callOn("delete", d.Key, writeTimeout), func(ctx context.Context) (struct{}, error) {
		kind, client := c.kind(d.Key.Kind)
		options := &metav1.DeleteOptions{GracePeriodSeconds: d.Grace}
		if d.UID != "" {
			options.Preconditions = &metav1.Preconditions{UID: &d.UID}
		}
		return struct{}{}, kind.of(client.Delete(), d.Key).Body(options).Do(ctx).Error()
	}, func(_ struct{}, err error) { done(err) })
}

// CreateToken implements port.API.
func (c *Client) CreateToken(
	ctx context.Context, namespace, serviceAccount string, spec authenticationv1.TokenRequestSpec,
	done func(authenticationv1.TokenRequestStatus, error),
) {
	k := port.APIKey{Kind: port.ServiceAccountKind, Namespace: namespace, Name: serviceAccount}
	run(c, ctx, callOn("create token of", k, writeTimeout),
		func(ctx context.Context) (authenticationv1.TokenRequestStatus, error) {
			kind, client := c.kind(k.Kind)
			request := &authenticationv1.TokenRequest{Spec: *spec.DeepCopy()}
			var answer authenticationv1.TokenRequest
			err := kind.of(client.Post(), k).SubResource("token").Body(request).Do(ctx).Into(&answer)
			return answer.Status, err
		}, done)
}

// of sets the object of a request.
func (k kind) of(r *rest.Request, key port.APIKey) *rest.Request {
	return r.NamespaceIfScoped(key.Namespace, k.namespaced).Resource(k.resource).Name(key.Name)
}

// into makes a request whose answer is an object.
func (k kind) into(ctx context.Context, r *rest.Request) (port.APIObject, error) {
	o := k.object()
	if err := r.Do(ctx).Into(o); err != nil {
		return nil, err
	}
	return o, nil
}
