// Package manifesturl fetches pod manifests from an HTTP server
// (KubeletConfiguration staticPodURL) for the sources actor.
//
// It handles HTTP only, and does not decode pods. It has no state between requests: the
// caller keeps the Version of the last answer.
package manifesturl

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"time"
)

const (
	// MaxSize is the longest answer accepted, in bytes: 10 MiB.
	MaxSize = 10 << 20
	// maxRedirects is the limit of redirects, that of Go's client and so of a kubelet.
	maxRedirects = 10
)

// Config says where manifests are.
type Config struct {
	// URL is the http or https URL (staticPodURL).
	URL string
	// Header is sent with every request to the URL's own host
	// (staticPodURLHeader). It often holds a secret: it goes to no other host
	// that a redirect names, and into no message.
	Header map[string][]string
	// Timeout bounds one Fetch as a whole.
	Timeout time.Duration
	// Transport carries the requests; http.DefaultTransport if nil.
	Transport http.RoundTripper
}

// errHidden does not say what can't be parsed: parts of it may be those of a password.
var errHidden = errors.New("manifest URL: cannot be parsed (not shown, as it may have a password)")

// Validate checks the configuration.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return errHidden
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("manifest URL %s: must begin with http:// or https://", u.Redacted())
	case u.Host == "":
		return fmt.Errorf("manifest URL %s: has no host", u.Redacted())
	case c.Timeout <= 0:
		return fmt.Errorf("manifest URL %s: timeout %v: must be above 0", u.Redacted(), c.Timeout)
	}
	return nil
}

// Version identifies an answer, for a conditional request. The zero Version is unknown.
type Version struct {
	etag, modified string
	sum            [sha256.Size]byte
}

// Result is the answer to a Fetch.
type Result struct {
	// NotModified: the manifests are the same as at the given Version.
	NotModified bool
	// Data is the answer; nil when NotModified.
	Data []byte
	// Version is for the next Fetch.
	Version Version
}

// Fetcher fetches from one URL. It is safe for concurrent use.
type Fetcher struct {
	config Config
	shown  string // the URL without a password
	client *http.Client
}

// New makes a Fetcher.
func New(config Config) (*Fetcher, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Transport == nil {
		config.Transport = http.DefaultTransport
	}
	u, err := url.Parse(config.URL)
	if err != nil {
		return nil, errHidden
	}
	f := &Fetcher{config: config, shown: u.Redacted()}
	f.client = &http.Client{Transport: config.Transport, CheckRedirect: f.checkRedirect}
	return f, nil
}

// Name is the URL without a password: the source name of its manifests.
func (f *Fetcher) Name() string { return f.shown }

// Fetch requests the manifests. since is the Version of the last good answer. Every error names
// the URL and says what to do. An empty answer is an error, as in the kubelet: no pods is an
// empty PodList.
func (f *Fetcher) Fetch(ctx context.Context, since Version) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, f.config.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.config.URL, nil)
	if err != nil {
		return Result{}, fmt.Errorf("GET %s: %w", f.shown, err)
	}
	f.setHeader(req, since)
	resp, err := f.client.Do(req)
	if err != nil {
		return Result{}, f.transportError(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	switch {
	case resp.StatusCode == http.StatusNotModified && since != Version{}:
		return Result{NotModified: true, Version: since}, nil
	case resp.StatusCode != http.StatusOK:
		return Result{}, fmt.Errorf("GET %s: %s: %s", f.shown, resp.Status, advice(resp.StatusCode))
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxSize+1))
	switch {
	case err != nil:
		return Result{}, f.transportError(ctx, err)
	case len(data) > MaxSize:
		return Result{}, fmt.Errorf("GET %s: more than %d MiB: give fewer or smaller pods", f.shown, MaxSize>>20)
	case len(data) == 0:
		return Result{}, fmt.Errorf("GET %s: the answer is empty: to run no pods, give an empty PodList", f.shown)
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")):
		// Whatever its content type is: many servers have that of web pages for all that they serve.
		return Result{}, fmt.Errorf("GET %s: a manifest is YAML or JSON; is this a login or error page?", f.shown)
	}
	version := Version{
		etag:     resp.Header.Get("ETag"),
		modified: resp.Header.Get("Last-Modified"),
		sum:      sha256.Sum256(data),
	}
	// Not every server knows ETags.
	if version.sum == since.sum {
		return Result{NotModified: true, Version: version}, nil
	}
	return Result{Data: data, Version: version}, nil
}

func (f *Fetcher) setHeader(req *http.Request, since Version) {
	req.Header.Set("Accept", "application/yaml, application/json, */*;q=0.5")
	for _, name := range slices.Sorted(maps.Keys(f.config.Header)) {
		if textproto.CanonicalMIMEHeaderKey(name) == "Host" {
			if values := f.config.Header[name]; len(values) > 0 {
				req.Host = values[0]
			}
			continue
		}
		req.Header.Del(name)
		for _, value := range f.config.Header[name] {
			req.Header.Add(name, value)
		}
	}
	if since.etag != "" {
		req.Header.Set("If-None-Match", since.etag)
	} else if since.modified != "" {
		req.Header.Set("If-Modified-Since", since.modified)
	}
}

// checkRedirect allows redirects as Go does, but never from https to http, and never with our headers to
// another host.
func (f *Fetcher) checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) >= maxRedirects:
		return fmt.Errorf("redirected %d times", maxRedirects)
	case first.Scheme == "https" && req.URL.Scheme != first.Scheme:
		return fmt.Errorf(
			"redirected to %s: a redirect away from https is not followed, configure this URL if it is the right one",
			req.URL.Redacted(),
		)
	}
	if req.URL.Host != first.Host {
		for name := range f.config.Header {
			req.Header.Del(name)
		}
	}
	return nil
}

func (f *Fetcher) transportError(ctx context.Context, err error) error {
	// *url.Error repeats method and URL, the URL with its password masked.
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("GET %s: no complete answer within %v: is the server up? %w", f.shown, f.config.Timeout, err)
	}
	return fmt.Errorf("GET %s: %w", f.shown, err)
}

func advice(status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "check staticPodURLHeader (--manifest-url-header)"
	case status == http.StatusNotFound || status == http.StatusGone:
		return "check staticPodURL (--manifest-url)"
	case status >= http.StatusInternalServerError:
		return "the server failed; pods already known keep running"
	default:
		return "want 200 OK with a Pod or a PodList"
	}
}
