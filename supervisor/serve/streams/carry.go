package streams

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// dialPatience is how long the runtime's streaming server, on this machine, may take to answer at all.
const dialPatience = 10 * time.Second

// link is a stream between a client and the runtime.
type link struct {
	s  *Streams
	to *url.URL
	// transport reaches the runtime. Its connections end with the request.
	transport http.RoundTripper
}

// carry serves a stream until one of its sides ends it.
func (s *Streams) carry(w http.ResponseWriter, r *http.Request, to *url.URL, choose func(*link) http.Handler) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	client := &client{ResponseWriter: w, lost: cancel}
	defer client.end()
	defer context.AfterFunc(ctx, client.end)()
	// How a stream ends is not an error of the node's: clients leave as they like.
	ctx = klog.NewContext(ctx,
		funcr.New(func(_, args string) { s.config.Log.Debug().Str("said", args).Msg("SPDY stream") }, funcr.Options{}))
	l := &link{s: s, to: to, transport: &http.Transport{DialContext: s.dialer(ctx)}}
	r = r.Clone(ctx)
	// What a client shows to the node is not for the runtime.
	r.Header.Del("Authorization")
	r.Header.Del("Cookie")
	choose(l).ServeHTTP(client, r)
	return nil
}

// dialer gives connections that end with the stream: what waits on one may not look at a context. They
// may linger, until the streams are closed.
func (s *Streams) dialer(stream context.Context) func(context.Context, string, string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialPatience}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if !s.enter() {
			return nil, errors.Join(errStopping, conn.Close())
		}
		stop := context.AfterFunc(s.closing, func() { conn.Close() }) //nolint:errcheck // it is over
		c := &runtimeConn{Conn: conn, closed: func() {
			stop()
			s.open.Done()
		}}
		context.AfterFunc(stream, func() { c.Close() }) //nolint:errcheck // it is over
		return c, nil
	}
}

// asItIs carries bytes as they are, but for pings of SPDY.
func (l *link) asItIs() http.Handler {
	carry := proxy.NewUpgradeAwareHandler(l.to, l.transport, false, true, responder{l})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get(httpstream.HeaderUpgrade), spdy.HeaderSpdy31) {
			w = pingless{w}
		}
		carry.ServeHTTP(w, r)
	})
}

// responder answers if the runtime's streaming server does not.
type responder struct{ l *link }

// Error implements proxy.ErrorResponder.
func (p responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		p.l.s.config.Log.Warn().Str("error", err.Error()).Str("path", r.URL.Path).
			Str("runtime", p.l.to.Host).Msg("the streaming server of the runtime refused the connection")
	}
	http.Error(w, "the runtime's streaming server: "+strings.ReplaceAll(err.Error(), "\n", " "),
		http.StatusInternalServerError)
}
