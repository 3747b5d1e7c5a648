// Package tcpproxy stands between a client and a server on loopback and does to
// their connections what networks do. It knows nothing of what is said.
package tcpproxy

import (
	"context"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Proxy forwards connections to one address.
//
//	healed ──Cut──► cut: connections are reset, new ones are refused ──Heal──► healed
//	   └────Hang──► hung: connections stay, and new ones are taken, but not a byte
//	                passes ──Heal──► healed: what was held back passes
type Proxy struct {
	target, address string
	kept            int // a socket that keeps the port while nothing listens at it

	mu       sync.Mutex
	listener net.Listener // nil: cut or closed
	conns    map[net.Conn]struct{}
	accepted int
	// open is closed while bytes may pass.
	open chan struct{}
	work sync.WaitGroup
}

// New starts a proxy to target on a free port of 127.0.0.1.
func New(target string) (*Proxy, error) { return Listen("127.0.0.1:0", target) }

// Listen starts a proxy at an address of this machine to target. Two proxies of one user at the same port would share
// its connections.
func Listen(address, target string) (*Proxy, error) {
	p := &Proxy{target: target, address: address, conns: map[net.Conn]struct{}{}, open: make(chan struct{})}
	close(p.open)
	if err := p.listen(); err != nil {
		return nil, err
	}
	p.address = p.listener.Addr().String()
	var err error
	if p.kept, err = keep(p.listener.Addr()); err != nil {
		p.Cut()
		return nil, fmt.Errorf("proxy to %s: keep %s: %w", target, p.address, err)
	}
	return p, nil
}

// Address is the host:port to connect to. It stays the same.
func (p *Proxy) Address() string { return p.address }

// Accepted counts the connections taken so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Reset resets all connections that there are.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
}

// Cut resets all connections, and refuses new ones until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close() // fails only if it is closed
		p.listener = nil
	}
	p.reset()
}

// Hang lets nothing pass until Heal, and breaks nothing.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default: // it hangs already
	}
}

// Heal ends Cut and Hang.
func (p *Proxy) Heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
	if p.listener != nil {
		return nil
	}
	return p.listen()
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() {
	p.Cut()
	p.mu.Lock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
	if p.kept >= 0 {
		_ = unix.Close(p.kept) // nothing was written to it
		p.kept = -1
	}
	p.mu.Unlock()
	p.work.Wait()
}

// listen needs mu, but for New.
func (p *Proxy) listen() error {
	listener, err := (&net.ListenConfig{Control: shared}).Listen(context.Background(), "tcp", p.address)
	if err != nil {
		return fmt.Errorf("proxy to %s: %w", p.target, err)
	}
	p.listener = listener
	p.work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			p.work.Go(func() { p.serve(client) })
		}
	})
	return nil
}

// reset needs mu. The connections' goroutines close them.
func (p *Proxy) reset() {
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a RST instead of a FIN
		}
		_ = c.Close()
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.forget(client)
	if !p.know(client, true) {
		return
	}
	<-p.gate()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return // as if the server had refused it
	}
	defer p.forget(server)
	if !p.know(server, false) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(server, client) })
	both.Go(func() { p.pump(client, server) })
	both.Wait()
}

// pump passes bytes on until either side ends, and then ends both.
func (p *Proxy) pump(to, from net.Conn) {
	defer func() {
		_ = to.Close() // whichever side has ended, the other is to end too
		_ = from.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		<-p.gate()
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

// gate is closed while bytes may pass.
func (p *Proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// know notes a connection, false if there is to be none now.
func (p *Proxy) know(c net.Conn, fromClient bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return false
	}
	p.conns[c] = struct{}{}
	if fromClient {
		p.accepted++
	}
	return true
}

func (p *Proxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
