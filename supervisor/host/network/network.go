// Package network implements port.Network: probes and HTTP hooks.
package network

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
)

const (
	userAgent = "troupe-hook"
	// connectTimeout is how long it may take until a server has the request.
	connectTimeout = 30 * time.Second
	// bodyLimit is how much of an answer is read, shownLimit how much of it an
	// error has, in bytes.
	bodyLimit   = 10 << 10
	shownLimit  = 200
	headerLimit = 64 << 10
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
	return &Network{
		client: &http.Client{Transport: transport(&net.Dialer{Timeout: connectTimeout, KeepAlive: -1}),
			CheckRedirect: sameHost},
		probes: transport(probeDialer()),
	}
}

func transport(d *net.Dialer) *http.Transport {
	return &http.Transport{
		// No proxy: the pod's address is meant.
		DialContext:            d.DialContext,
		DisableKeepAlives:      true,
		DisableCompression:     true,
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
func (n *Network) HTTPGet(ctx context.Context, r port.HTTPGet, done func(error)) {
	hostcall.Do(ctx, "HTTPGet", r.URL, func(ctx context.Context) error {
		timeout := connectTimeout
		if r.Timeout > 0 {
			timeout = r.Timeout
			timed, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			ctx = timed
		}
		err := n.get(ctx, r, r.URL)
		if rest, ok := strings.CutPrefix(r.URL, "https:"); ok && err != nil &&
			strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
			// Hooks with scheme HTTPS were sent as HTTP up to Kubernetes 1.25, and
			// pods that rely on it still work: once more without TLS, and so without
			// credentials.
			err = n.get(ctx, withoutCredentials(r), "http:"+rest)
		}
		return httpError(err, timeout)
	}, done)
}

func withoutCredentials(r port.HTTPGet) port.HTTPGet {
	headers := r.Headers
	r.Headers = nil
	for _, h := range headers {
		if http.CanonicalHeaderKey(h.Name) != "Authorization" {
			r.Headers = append(r.Headers, h)
		}
	}
	return r
}

func (n *Network) get(ctx context.Context, r port.HTTPGet, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return hostcall.Failf(port.InvalidConfig, "%v", err)
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", "*/*")
	own := map[string]bool{}
	for _, h := range r.Headers {
		name := http.CanonicalHeaderKey(h.Name)
		if name == "Host" {
			request.Host = h.Value
			continue
		}
		if !own[name] { // several of one name are sent all
			own[name] = true
			request.Header.Del(name)
		}
		request.Header.Add(name, h.Value)
	}
	response, err := n.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(response.Body, bodyLimit))
	if response.StatusCode >= http.StatusBadRequest {
		return hostcall.Failf(port.Other, "status %s%s", response.Status, shown(body))
	}
	return err
}

// shown is the beginning of a body, for an error.
func shown(body []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(bytes.TrimSpace(body)), "?")), " ")
	if text == "" {
		return ""
	}
	if len(text) > shownLimit {
		text = strings.ToValidUTF8(text[:shownLimit], "") + "…"
	}
	return ": " + text
}

func httpError(err error, timeout time.Duration) error {
	if err == nil {
		return nil
	}
	var timed net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &timed) && timed.Timeout():
		return hostcall.Failf(port.Deadline, "no answer within %s", timeout)
	case unreachable(err):
		return hostcall.Failf(port.Unavailable, "%v", err)
	}
	return err
}

func unreachable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.ECONNRESET)
}
