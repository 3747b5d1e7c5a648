// Package apiproxy stands between a client and an apiserver and speaks HTTP with both, to answer in
// the apiserver's place as one does that has trouble, or as something does that is no apiserver.
package apiproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// Answer answers a request in the apiserver's place.
type Answer func(http.ResponseWriter, *http.Request)

// Interceptor stands in front of every request that is passed on. It passes the request on to
// next itself, at once, later or never.
type Interceptor func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Proxy passes on what it is asked, as one user, whoever asks.
//
//	passing on ──Begin──► answering by itself ──End──► passing on
//
// Both cut off the requests that are under way, watches among them.
type Proxy struct {
	server  *http.Server
	address string
	ca      []byte
	pass    http.Handler
	served  chan struct{}

	mu     sync.Mutex
	front  Interceptor
	answer Answer // nil: passing on
	// phase ends with the next Begin or End.
	phase context.Context
	next  context.CancelFunc
	asked int
}

// New starts a proxy to the apiserver of a kubeconfig, with the rights of its user.
func New(kubeconfig string) (*Proxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &Proxy{served: make(chan struct{})}
	p.phase, p.next = context.WithCancel(context.Background())
	p.pass = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // a watch's events at once
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return p, p.listen()
}

// listen serves on a free port of 127.0.0.1, with a certificate of the proxy's own.
func (p *Proxy) listen() error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.address, p.ca = listener.Addr().String(), certificate
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	go func() {
		defer close(p.served)
		_ = p.server.ServeTLS(listener, "", "") // ends with Close
	}()
	return nil
}

// Address is the proxy's host:port.
func (p *Proxy) Address() string { return p.address }

// Intercept puts f in front of every request that is passed on from now on.
func (p *Proxy) Intercept(f Interceptor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.front = f
}

// Kubeconfig writes a kubeconfig that is another's but for the way to the apiserver, which leads
// through the proxy.
func (p *Proxy) Kubeconfig(from, to string) error { return p.KubeconfigVia(p.address, from, to) }

// KubeconfigVia is Kubeconfig with another address, from which the connections are led to the proxy.
// Its host has to be 127.0.0.1.
func (p *Proxy) KubeconfigVia(address, from, to string) error {
	c, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return err
	}
	for name := range c.Clusters {
		c.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthorityData: p.ca}
	}
	return errors.Join(clientcmd.WriteToFile(*c, to), os.Chmod(to, 0o600))
}

// Begin has every request answered so from now on.
func (p *Proxy) Begin(a Answer) { p.set(a) }

// BeginFor has those requests answered so that match is true of, and passes on all others.
func (p *Proxy) BeginFor(match func(*http.Request) bool, a Answer) {
	p.set(func(w http.ResponseWriter, r *http.Request) {
		if match(r) {
			a(w, r)
		} else {
			p.pass.ServeHTTP(w, r)
		}
	})
}

// End passes requests on again.
func (p *Proxy) End() { p.set(nil) }

func (p *Proxy) set(a Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.asked = a, 0
	p.next()
	p.phase, p.next = context.WithCancel(context.Background())
}

// Asked counts the requests since the last Begin or End.
func (p *Proxy) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// Close ends it.
func (p *Proxy) Close() {
	p.set(nil)
	_ = p.server.Close() // of a listener that nobody else has
	<-p.served
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	answer, phase, front := p.answer, p.phase, p.front
	p.asked++
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(phase, cancel)()
	r = r.WithContext(ctx)
	switch {
	case answer == nil && front == nil:
		p.pass.ServeHTTP(w, r)
		return
	case answer == nil:
		front(w, r, p.pass)
		return
	}
	answer(w, r)
	if phase.Err() != nil {
		panic(http.ErrAbortHandler) // cut off, not at its end
	}
}

// Status answers with a metav1.Status, as an apiserver does that can't do what it is asked. Of
// retryAfter 0 it says nothing.
func Status(code int, reason, message string, retryAfter time.Duration) Answer {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
		`"message":%q,"reason":%q,"code":%d}`, message, reason, code)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body) // or the client has gone
	}
}

// Page answers with a page for people, as what stands in a network's way does.
func Page(code int) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<!DOCTYPE html>\n<html><head><title>Welcome</title></head>"+
			"<body><h1>Please log in</h1></body></html>\n")
	}
}

// Drip begins to answer and never comes to an end: a byte of JSON from time to time.
func Drip(every time.Duration) Answer {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		out, tick := http.NewResponseController(w), time.NewTicker(every)
		defer tick.Stop()
		for text := " "; ; {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
		}
	}
}
