// Package healthz is the agent's health endpoint (healthzBindAddress, healthzPort), for
// systemd units and node problem detectors written for the kubelet. It is plain HTTP and
// answers in text.
//
//	GET /healthz        200 "ok", or 500 with each check and the reason of those that fail
//	GET /healthz/ping   200 while the process answers
//	GET /healthz/log    the same; the kubelet has it
//	GET /healthz/<name> one check, as syncloop
package healthz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/internal/serving"
)

const (
	// checkTimeout is how long a check may take.
	checkTimeout = 2 * time.Second
	ioTimeout    = 10 * time.Second
	headerLimit  = 8 << 10
)

// Check is one thing that has to be well.
type Check struct {
	// Name is the last part of its path: syncloop.
	Name string
	// Check returns why it is not well. It should end with ctx; if it does not,
	// it fails until it does, and is not called again meanwhile.
	Check func(ctx context.Context) error
}

// Config is where and what.
type Config struct {
	Address string // 127.0.0.1:10248
	Checks  []Check
	// Observe is told the result of each check that somebody asks for; may be nil.
	Observe func(name string, err error)
}

// Server listens, and answers once Serve runs.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// Listen takes the address.
func Listen(c Config) (*Server, error) {
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("healthz on %s: %w: stop the process that uses the port or choose another --healthz-port",
			c.Address, err)
	}
	return &Server{listener: l, http: &http.Server{
		Handler:           Handler(c.Checks, c.Observe),
		ReadHeaderTimeout: ioTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, IdleTimeout: ioTimeout,
		MaxHeaderBytes: headerLimit,
	}}, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	if err := serving.HTTP(ctx, s.http, 0, func() error { return s.http.Serve(s.listener) }); err != nil {
		return fmt.Errorf("healthz on %s: %w", s.Address(), err)
	}
	return nil
}

// Later serves as soon as the address can be had, which is tried every period, until ctx ends. A kubelet too runs on
// without its health endpoint.
func Later(ctx context.Context, c Config, period time.Duration) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if s, err := Listen(c); err == nil {
			return s.Serve(ctx)
		}
	}
}

// probe is a check at work. Requests that come while it runs wait for the same
// answer, so that one that hangs costs one goroutine.
type probe struct {
	Check
	mu sync.Mutex
	// flight is the run that is under way, if one is.
	flight *flight
}

type flight struct {
	done chan struct{}
	err  error // once done is closed
}

func (p *probe) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	f := p.join(ctx)
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return fmt.Errorf("no answer within %s", checkTimeout)
	}
}

// join begins a run, unless one is under way.
func (p *probe) join(ctx context.Context) *flight {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flight != nil {
		return p.flight
	}
	f := &flight{done: make(chan struct{})}
	p.flight = f
	// Not the end of the request: others wait for the same answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	failed := func(reason string) error { return errors.New(reason) }
	rescue.Do(ctx, func() error { return p.Check.Check(ctx) }, failed, func(err error) {
		defer cancel()
		f.err = err
		p.mu.Lock()
		p.flight = nil
		p.mu.Unlock()
		close(f.done)
	})
	return f
}

// Handler answers for the checks, and for ping and log, which are well while
// they answer. observe is as in Config.
func Handler(checks []Check, observe func(name string, err error)) http.Handler {
	if observe == nil {
		observe = func(string, error) {}
	}
	well := func(context.Context) error { return nil }
	probes := []*probe{{Check: Check{Name: "ping", Check: well}}, {Check: Check{Name: "log", Check: well}}}
	for _, c := range checks {
		probes = append(probes, &probe{Check: c})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer(probes, observe))
	for _, p := range probes {
		mux.HandleFunc("GET /healthz/"+p.Name, answer([]*probe{p}, observe))
	}
	return mux
}

func answer(probes []*probe, observe func(name string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		results := make([]chan error, len(probes))
		for i, p := range probes {
			results[i] = make(chan error, 1)
			rescue.Go(r.Context(), func() { results[i] <- p.run(r.Context()) },
				func(reason string) { results[i] <- errors.New(reason) })
		}
		var lines []string
		failed := false
		for i, p := range probes {
			err := <-results[i]
			observe(p.Name, err)
			if err != nil {
				failed = true
				lines = append(lines, fmt.Sprintf("[-]%s failed: %v", p.Name, err))
				continue
			}
			lines = append(lines, fmt.Sprintf("[+]%s ok", p.Name))
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, verbose := r.URL.Query()["verbose"]
		text := strings.Join(lines, "\n") + "\n"
		switch {
		case failed:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, text+"healthz check failed\n")
		case verbose:
			fmt.Fprint(w, text+"healthz check passed\n")
		default:
			fmt.Fprint(w, "ok")
		}
	}
}
