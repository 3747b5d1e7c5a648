package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/troupe-dev/troupe/apiclient/internal/patience"
)

// How long a connection may take to begin; see package patience for the times after which it counts as dead.
const (
	handshakeTimeout = 5 * time.Second
	keepAlive        = 15 * time.Second
)

// newHTTP makes the HTTP client for all requests of config, and its connections. later is Config.CertificateLater.
func newHTTP(config *rest.Config, later bool, observe func(Request)) (*http.Client, *connections, error) {
	dial := (&net.Dialer{Timeout: patience.Dial, KeepAlive: keepAlive}).DialContext
	if config.Dial != nil {
		dial = config.Dial
	}
	conns := newConnections(dial)
	ours := rest.CopyConfig(config)
	ours.Dial = conns.dialContext
	trips := &trips{conns: conns, observe: observe}
	ours.Wrap(func(next http.RoundTripper) http.RoundTripper { trips.next = next; return trips })
	options, err := ours.TransportConfig()
	if err != nil {
		return nil, nil, err
	}
	if options.TLS.CertFile != "" && options.TLS.KeyFile != "" {
		trips.cert, err = newCertificate(options.TLS.CertFile, options.TLS.KeyFile, later, conns.closeAll)
		if err != nil {
			return nil, nil, err
		}
		options.TLS.CertFile, options.TLS.KeyFile, options.TLS.CertData, options.TLS.KeyData = "", "", nil, nil
		options.TLS.GetCertHolder = &transport.GetCertHolder{GetCert: trips.cert.get}
	}
	all, err := transport.New(options)
	if err != nil {
		return nil, nil, err
	}
	base := baseOf(all)
	if base == nil {
		return nil, nil, errors.New("client-go gave a transport that is none of net/http's: its deadlines can't be set")
	}
	base.TLSHandshakeTimeout = handshakeTimeout
	// An administrator who has set client-go's own variables takes precedence.
	if os.Getenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS") == "" && os.Getenv("HTTP2_PING_TIMEOUT_SECONDS") == "" {
		base.HTTP2 = &http.HTTP2Config{SendPingTimeout: patience.ReadIdle, PingTimeout: patience.Ping}
	}
	return &http.Client{Transport: all}, conns, nil
}

// baseOf is the transport inside client-go's wrappers.
func baseOf(rt http.RoundTripper) *http.Transport {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			return t
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return nil
		}
	}
}

// trips handles every HTTP request.
type trips struct {
	next  http.RoundTripper
	conns *connections
	cert  *certificate // nil: not in files
	// observe, if not nil, is called for each.
	observe func(Request)
}

// Request is one HTTP request to the apiserver whose answer has begun, or that failed. One call
// may be several.
type Request struct {
	Method, Host string
	// Code is the answer's status code, 0 without an answer.
	Code int
	Took time.Duration
}

type tripKey struct{}

// withTrip has told called for each attempt of the requests with this context, including the
// retries inside client-go. It gets nil when an answer has begun.
func withTrip(ctx context.Context, told func(error)) context.Context {
	return context.WithValue(ctx, tripKey{}, told)
}

// RoundTrip implements http.RoundTripper.
func (t *trips) RoundTrip(request *http.Request) (*http.Response, error) {
	begun := time.Now()
	response, err := t.trip(request)
	if t.observe != nil {
		r := Request{Method: request.Method, Host: request.URL.Host, Took: time.Since(begun)}
		if response != nil {
			r.Code = response.StatusCode
		}
		t.observe(r)
	}
	if told, ok := request.Context().Value(tripKey{}).(func(error)); ok {
		told(err)
	}
	return response, err
}

func (t *trips) trip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if t.cert != nil {
		t.cert.look(time.Now())
		if _, err := t.cert.get(); err != nil {
			return nil, err
		}
	}
	first, err := t.conns.enter(ctx)
	if err != nil {
		return nil, err
	}
	response, err := t.send(request, first)
	if err != nil {
		t.conns.leave()
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, leave: t.conns.leave}
	return response, nil
}

// send makes a request, which may be the one that dials.
func (t *trips) send(request *http.Request, first *ahead) (*http.Response, error) {
	if first == nil {
		return t.next.RoundTrip(request)
	}
	ctx := request.Context()
	var timer atomic.Pointer[time.Timer]
	got := httptrace.ClientTrace{GotConn: func(g httptrace.GotConnInfo) {
		if first.has(g.Conn); g.Reused {
			first.end(ctx, nil)
			return
		}
		timer.Store(time.AfterFunc(greeting, func() { first.end(ctx, nil) }))
	}}
	response, err := t.next.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, &got)))
	first.end(ctx, err)
	if t := timer.Load(); t != nil {
		t.Stop()
	}
	return response, err
}

// greeting is how long the first request on a new connection is alone there: an apiserver sends
// its limit of requests at once, and where that is lower than HTTP/2's assumption, more requests
// would fail. A slow answer to the first request delays no other beyond that time.
const greeting = 100 * time.Millisecond

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (t *trips) WrappedRoundTripper() http.RoundTripper { return t.next }
