package tcpproxy

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestPortIsKept: while a proxy is cut its port refuses connections, nobody else gets it, and Heal has it again.
func TestPortIsKept(t *testing.T) {
	defer goleak.VerifyNone(t)
	target := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer target.Close()
	p := check.Value(New(target.Addr().String()))(t)
	defer p.Close()
	dial := func() error {
		c, err := net.Dial("tcp", p.Address())
		if err == nil {
			err = c.Close()
		}
		return err
	}
	for range 3 {
		check.Fatal(t, dial())
		p.Cut()
		if err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connect to a proxy that is cut: %v; want it refused", err)
		}
		if l, err := net.Listen("tcp", p.Address()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listen where a proxy is cut: %v, %v; want the address in use", l, err)
		}
		check.Fatal(t, p.Heal())
	}
	address := p.Address()
	p.Close()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the port of a proxy that is closed: %v", err)
	}
	l.Close()
}
