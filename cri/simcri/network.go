package simcri

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Network is the network of a Runtime's machine: the addresses of its pods, and their scripts'
// answers there. It implements port.Network.
//
// A port belongs to the container that declares it, else to one with a probe of it, else to the
// first running one. On the node's own addresses, pods on the host's network answer.
//
// HTTP hooks succeed for every container that listens.
type Network struct{ r *Runtime }

var _ port.Network = Network{}

// Network is that of the runtime's machine. It works while the runtime is down.
func (r *Runtime) Network() Network { return Network{r} }

// condition is the state of a request's target.
type condition uint8

const (
	serving  condition = iota
	unready            // it answers that it is not serving
	refusing           // no process listens
	absent             // no sandbox has the address
	silent             // no answer in time
	canceled           // the caller's context ended
)

// HTTPGet implements port.Network. Servers answer without TLS.
func (n Network) HTTPGet(ctx context.Context, q port.HTTPGet, done func(plain bool, err error)) {
	request, err := http.NewRequest(http.MethodGet, q.URL, nil)
	if err != nil {
		err := &port.Error{Kind: port.InvalidConfig, Verb: "HTTPGet", Object: q.URL, Detail: err.Error()}
		n.r.cfg.Clock.AfterFunc(0, func() { done(false, err) })
		return
	}
	host, number := request.URL.Hostname(), 80
	if p, err := strconv.Atoi(request.URL.Port()); err == nil {
		number = p
	}
	hook := func(*container) asking { return 0 }
	n.ask(ctx, ProbeHTTP, host, number, math.MaxInt64, hook, func(is condition) {
		if is == unready {
			is = serving // whatever it answers
		}
		err := n.failure(is, "HTTPGet", host, number, 0)
		done(err == nil && request.URL.Scheme == "https", err)
	})
}

// ProbeHTTP implements port.Network.
func (n Network) ProbeHTTP(
	ctx context.Context, q probe.HTTP, timeout time.Duration, done func(port.HTTPAnswer, error),
) {
	kinds := func(c *container) asking {
		return c.matching(func(p *v1.Probe) bool {
			return p.HTTPGet != nil && p.HTTPGet.Path == q.Path && c.isPort(p.HTTPGet.Port, q.Port)
		})
	}
	n.ask(ctx, ProbeHTTP, q.Host, q.Port, timeout, kinds, func(is condition) {
		switch is {
		case serving:
			done(port.HTTPAnswer{Status: http.StatusOK}, nil)
		case unready:
			done(port.HTTPAnswer{Status: http.StatusServiceUnavailable}, nil)
		default:
			done(port.HTTPAnswer{}, n.failure(is, "ProbeHTTP", q.Host, q.Port, timeout))
		}
	})
}

// ProbeTCP implements port.Network. A container that is not serving refuses connections.
func (n Network) ProbeTCP(ctx context.Context, q probe.TCP, timeout time.Duration, done func(error)) {
	kinds := func(c *container) asking {
		return c.matching(func(p *v1.Probe) bool { return p.TCPSocket != nil && c.isPort(p.TCPSocket.Port, q.Port) })
	}
	n.ask(ctx, ProbeTCP, q.Host, q.Port, timeout, kinds, func(is condition) {
		if is == unready {
			is = refusing
		}
		done(n.failure(is, "ProbeTCP", q.Host, q.Port, timeout))
	})
}

// ProbeGRPC implements port.Network.
func (n Network) ProbeGRPC(ctx context.Context, q probe.GRPC, timeout time.Duration, done func(string, error)) {
	kinds := func(c *container) asking {
		return c.matching(func(p *v1.Probe) bool {
			return p.GRPC != nil && int(p.GRPC.Port) == q.Port &&
				(p.GRPC.Service == nil && q.Service == "" || p.GRPC.Service != nil && *p.GRPC.Service == q.Service)
		})
	}
	n.ask(ctx, ProbeGRPC, q.Host, q.Port, timeout, kinds, func(is condition) {
		switch is {
		case serving:
			done("SERVING", nil)
		case unready:
			done("NOT_SERVING", nil)
		default:
			done("", n.failure(is, "ProbeGRPC", q.Host, q.Port, timeout))
		}
	})
}

// ask finds the target's condition at the time of the answer.
func (n Network) ask(
	ctx context.Context, m Method, host string, number int, timeout time.Duration, kinds func(*container) asking,
	done func(condition),
) {
	r := n.r
	r.mu.Lock()
	r.calls[m]++
	c, is := r.listener(host, number)
	took := r.cfg.Latencies[m].Sample(r.net)
	if c != nil {
		ran := r.ran(c)
		switch {
		case !c.listens(ran):
			is = refusing
		case c.vitals != nil && !c.serves(kinds(c), ran):
			is = unready
		}
		if h := &c.script.Health; is != refusing {
			took += h.Delay.Sample(r.net)
			if h.Hang {
				is = silent
			}
		}
	}
	r.mu.Unlock()
	hang := false
	if r.cfg.Fault != nil {
		call := Call{Method: m, Object: net.JoinHostPort(host, strconv.Itoa(number))}
		if c != nil {
			call.Pod, call.Container, call.Attempt = c.sandbox.pod.ref, c.spec.Name, c.attempt
		}
		fault := r.cfg.Fault(call)
		took += fault.Latency
		hang = fault.Hang || fault.LoseReply
		if fault.Fail {
			is = refusing
		}
	}
	if m == ProbeGRPC && (is == refusing || is == absent) {
		is = silent // a connection is tried again until the end
	}
	if is == silent || took > timeout {
		is, took = silent, timeout
	}
	if took <= soon && !hang {
		r.cfg.Clock.AfterFunc(took, func() {
			if ctx.Err() != nil {
				is = canceled
			}
			done(is)
		})
		return
	}
	n.wait(ctx, took, hang, func(ended bool) {
		if ended {
			is = canceled
		}
		done(is)
	})
}

// soon is how long the end of a context may go unnoticed.
const soon = 20 * time.Millisecond

// wait calls done after d, unless it hangs, or ctx ends first.
func (n Network) wait(ctx context.Context, d time.Duration, hang bool, done func(ended bool)) {
	var once sync.Once
	stop := func() bool { return true }
	if !hang {
		stop = n.r.cfg.Clock.AfterFunc(d, func() { once.Do(func() { done(false) }) })
	}
	simport.OnEnd(ctx, func() {
		if hang || stop() {
			n.r.cfg.Clock.AfterFunc(0, func() { once.Do(func() { done(true) }) })
		}
	})
}

// listener finds the running container at an address and port.
func (r *Runtime) listener(host string, number int) (*container, condition) {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, absent
	}
	if at := r.addresses.offset(ip); at != 0 {
		s := r.located[at]
		if s == nil {
			return nil, absent
		}
		if c := s.listener(number, true); c != nil {
			return c, serving
		}
		return nil, refusing
	}
	for _, s := range r.onHost {
		if c := s.listener(number, false); c != nil {
			return c, serving
		}
	}
	return nil, refusing
}

// listener is the running container of a sandbox with the port; with any, it may be any running
// one.
func (s *sandbox) listener(number int, any bool) *container {
	var first *container
	several := false
	for c := s.pod.containers; c != nil; c = c.next {
		if c.sandbox == s && c.state == containerRunning {
			several = several || first != nil
			first = c // the list is newest first
		}
	}
	if any && !several {
		return first
	}
	var asked *container
	for c := s.pod.containers; c != nil; c = c.next {
		if c.sandbox != s || c.state != containerRunning {
			continue
		}
		for i := range c.spec.Ports {
			if int(c.spec.Ports[i].ContainerPort) == number {
				return c
			}
		}
		if c.probedAt(number) {
			asked = c
		}
	}
	if asked != nil || !any {
		return asked
	}
	return first
}

// probedAt reports whether a probe of the container uses this port.
func (c *container) probedAt(number int) bool {
	return c.matching(func(p *v1.Probe) bool {
		switch {
		case p.HTTPGet != nil:
			return p.HTTPGet.Host == "" && c.isPort(p.HTTPGet.Port, number)
		case p.TCPSocket != nil:
			return p.TCPSocket.Host == "" && c.isPort(p.TCPSocket.Port, number)
		default:
			return p.GRPC != nil && int(p.GRPC.Port) == number
		}
	}) != 0
}

// failure is the error for a condition, with a real network's message; nil for a success.
func (n Network) failure(is condition, verb, host string, number int, timeout time.Duration) error {
	at := net.JoinHostPort(host, strconv.Itoa(number))
	fail := func(kind port.ErrorKind, format string, args ...any) error {
		return &port.Error{Kind: kind, Verb: verb, Object: at, Detail: fmt.Sprintf(format, args...)}
	}
	switch is {
	case serving:
		return nil
	case refusing:
		return fail(port.Unavailable, "dial tcp %s: connect: connection refused", at)
	case absent:
		return fail(port.Unavailable, "dial tcp %s: connect: no route to host", at)
	case canceled:
		return fail(port.Canceled, "the caller gave up")
	default:
		return fail(port.Deadline, "no answer from %s within %v", at, timeout)
	}
}
