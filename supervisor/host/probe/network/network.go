// Package network implements port.Network: probes and HTTP hooks.
package network

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

const (
	// release is the one of Kubernetes that servers are told: many tell probes and hooks from requests of users by the
	// beginning of their agent.
	release    = "1.36"
	probeAgent = "kube-probe/" + release
	hookAgent  = "kube-lifecycle/" + release
	// bodyLimit is how much of an answer is read, in bytes. headerLimit bounds its header, and all of the answer to a gRPC
	// probe: more than a hundred probes may be under way, of containers that answer what they like.
	bodyLimit   = 10 << 10
	headerLimit = 256 << 10
	redirects   = 10
)

// Network implements port.Network: requests from this machine to containers.
type Network struct {
	client *http.Client
	probes *http.Transport
}

var _ port.Network = (*Network)(nil)

// New is ready to use. It keeps no connection open.
func New() *Network {
	hooks, probes := transport(&net.Dialer{KeepAlive: -1}), transport(probeDialer())
	probes.ForceAttemptHTTP2 = true // with TLS: a server may speak nothing else
	return &Network{client: &http.Client{Transport: hooks, CheckRedirect: sameHost}, probes: probes}
}

func transport(d *net.Dialer) *http.Transport {
	return &http.Transport{
		// No proxy: the pod's address is meant.
		DialContext:        d.DialContext,
		DisableKeepAlives:  true,
		DisableCompression: true,
		// Go's limit is 10 MiB.
		MaxResponseHeaderBytes: headerLimit,
		// A container's certificate is seldom issued for the pod's address; the
		// API promises not to verify it (HTTPGetAction.scheme).
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
}

// sameHost follows redirects on one host only.
func sameHost(next *http.Request, via []*http.Request) error {
	if next.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= redirects {
		return fmt.Errorf("stopped after %d redirects", redirects)
	}
	return nil
}

// HTTPGet implements port.Network.
func (n *Network) HTTPGet(ctx context.Context, r port.HTTPGet, done func(plain bool, err error)) {
	hostcall.Get(ctx, "HTTPGet", r.URL, func(ctx context.Context) (plain bool, err error) {
		request, err := newRequest(ctx, r.URL, r.Headers, hookAgent)
		if err != nil {
			return false, err
		}
		err = n.hook(request)
		if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
			// Hooks with scheme HTTPS were sent as HTTP up to Kubernetes 1.25, and
			// pods that rely on it still work: once more without TLS, and so without
			// credentials.
			request.URL.Scheme = "http"
			request.Header.Del("Authorization")
			if n.hook(request) == nil {
				return true, nil
			}
		}
		if err != nil {
			return false, networkError(ctx, r.URL, err)
		}
		return false, nil
	}, done)
}

// hook sends a request. The beginning of the answer is read, as the server may wait for that; whatever becomes of it,
// the request was made.
func (n *Network) hook(request *http.Request) error {
	response, err := n.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // nothing of it is needed
	if response.ContentLength <= bodyLimit {
		io.Copy(io.Discard, io.LimitReader(response.Body, bodyLimit)) //nolint:errcheck // nothing of it is needed
	}
	return nil
}

// newRequest is a request with the pod's own headers and those that it doesn't have. An own one that is empty takes
// that away which would be sent in its place.
func newRequest(ctx context.Context, url string, headers []v1.HTTPHeader, agent string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, hostcall.Failf(port.InvalidConfig, "%v", err)
	}
	for _, h := range headers {
		request.Header.Add(h.Name, h.Value)
	}
	if _, own := request.Header["User-Agent"]; !own {
		request.Header.Set("User-Agent", agent)
	}
	if accept, own := request.Header["Accept"]; !own {
		request.Header.Set("Accept", "*/*")
	} else if accept[0] == "" {
		request.Header.Del("Accept")
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	return request, nil
}

// networkError keeps the words of the network: they are what people are shown. What an HTTP server answers is not among
// them. A redirect leads where a server says, so the request itself is named.
func networkError(ctx context.Context, asked string, err error) error {
	var timed net.Error
	if at, is := errors.AsType[*url.Error](err); is {
		at.URL = asked
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the caller's
	case errors.As(err, &timed) && timed.Timeout():
		return hostcall.Failf(port.Deadline, "%v", err)
	case unreachable(err):
		return hostcall.Failf(port.Unavailable, "%v", err)
	}
	return hostcall.Failf(port.Other, "%s", unquoted(err.Error()))
}

// unquoted ends an error of net/http before what it quotes of a server's answer. The server may be one that only this
// machine reaches.
func unquoted(text string) string {
	for _, words := range []string{
		"malformed HTTP response", "malformed HTTP version", "malformed HTTP status code", "malformed MIME header",
		"bad Content-Length", "multiple Content-Length headers", "unsupported transfer encoding",
		"too many transfer encodings", "failed to parse Location header",
	} {
		if i := strings.Index(text, words); i >= 0 {
			return text[:i+len(words)]
		}
	}
	return text
}

func unreachable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.ECONNRESET)
}
