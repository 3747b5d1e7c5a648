package kube

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/troupe-dev/troupe/actors/port"
)

// Client is the client of one apiserver, as one user. It implements port.API.
type Client struct {
	config Config
	conns  *connections
	params runtime.ParameterCodec
	// rest holds one client for each group and lane. They differ in paths and limits, and share
	// the transport. Those of watches survive an object that makes a decoder panic.
	rest, watches map[restKey]*rest.RESTClient
	health        *health
	rush          rush
	// followed are the running watches.
	followed followed

	// closing ends all running calls.
	closing context.Context
	close   context.CancelFunc

	// mu guards the order of calls.Add against calls.Wait.
	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

type restKey struct {
	group schema.GroupVersion
	lane  lane
}

var _ port.API = (*Client)(nil)

// New makes a client. It makes no request: an agent must start without an apiserver too.
func New(config Config) (*Client, error) {
	return newWith(config, func(s runtime.NegotiatedSerializer) runtime.NegotiatedSerializer { return s })
}

// newWith is New with another serializer in place of the usual one.
func newWith(
	config Config, other func(runtime.NegotiatedSerializer) runtime.NegotiatedSerializer,
) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	shared := rest.CopyConfig(config.REST)
	shared.UserAgent = "troupe/" + config.Version
	shared.ContentType = config.ContentType
	shared.AcceptContentTypes = config.ContentType + ",application/json"
	shared.Timeout = 0 // each call has its own deadline, and a watch none
	http, conns, err := newHTTP(shared, config.CertificateLater, config.Observe)
	if err != nil {
		return nil, err
	}
	c := &Client{
		config: config, conns: conns, rest: map[restKey]*rest.RESTClient{}, watches: map[restKey]*rest.RESTClient{},
		health: newHealth(config.Log, config.REST.Host),
	}
	scheme := newScheme()
	c.params = runtime.NewParameterCodec(scheme)
	shared.NegotiatedSerializer = other(serializer.NewCodecFactory(scheme).WithoutConversion())
	watched := newContained(shared.NegotiatedSerializer, config.Log)
	limits := map[lane]flowcontrol.RateLimiter{
		ordinary: limiter(config.QPS, config.Burst), events: limiter(config.EventQPS, config.EventBurst),
		heartbeat: limiter(-1, 0),
		others:    limiter(config.QPS, config.Burst), strangers: limiter(config.QPS, config.Burst),
		storage: limiter(config.QPS, config.Burst),
	}
	needed := map[restKey]bool{}
	for _, k := range kinds { // order-free: it fills a set
		needed[restKey{k.group, k.lane}] = true
	}
	for _, key := range asked {
		needed[key] = true
	}
	for key := range needed { // order-free: each makes its own client
		own := rest.CopyConfig(shared)
		own.GroupVersion, own.APIPath, own.RateLimiter = &key.group, "/apis", limits[key.lane]
		if key.group.Group == "" {
			own.APIPath = "/api"
		}
		if c.rest[key], err = rest.RESTClientForConfigAndClient(own, http); err != nil {
			return nil, err
		}
		own.NegotiatedSerializer = watched
		if c.watches[key], err = rest.RESTClientForConfigAndClient(own, http); err != nil {
			return nil, err
		}
	}
	c.closing, c.close = context.WithCancel(context.Background())
	return c, nil
}

func limiter(qps float32, burst int) flowcontrol.RateLimiter {
	if qps < 0 {
		return flowcontrol.NewFakeAlwaysRateLimiter()
	}
	return flowcontrol.NewTokenBucketRateLimiter(qps, burst)
}

// Close ends all calls and watches, waits until each has called its done, and closes the
// connections. Later calls fail. It must not be called from a done or a change.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.calls.Wait()
	c.conns.closeAll()
}

// kind describes the kind of an object. An unknown kind is a programming error.
func (c *Client) kind(k port.APIKind) (kind, *rest.RESTClient) {
	known, ok := kinds[k]
	if !ok {
		panic(fmt.Sprintf("kube: %s is no kind of the API port", k))
	}
	return known, c.rest[restKey{known.group, known.lane}]
}
