package streams_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/remotecommand"
	upgrade "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	crirc "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/spdy"
	utilexec "k8s.io/utils/exec"
)

// addLast adds the program "last", which writes some output and ends with 42. It is true once it runs.
func (w *world) addLast(size int) *atomic.Bool {
	var runs atomic.Bool
	w.programs["last"] = func(_ io.Reader, out, _ io.Writer, _ <-chan crirc.TerminalSize, _ []string) error {
		runs.Store(true)
		for piece := make([]byte, 32<<10); size > 0; size -= len(piece) {
			if _, err := out.Write(piece); err != nil {
				return err
			}
		}
		return utilexec.CodeExitError{Err: errors.New("exited with 42"), Code: 42}
	}
	return &runs
}

const lastPath = "/exec/shop/web/app?output=1&command=last"

// exec42 runs "last" and wants all of its output, and its end.
func exec42(t *testing.T, e remotecommand.Executor, size int, take func()) {
	t.Helper()
	got := 0
	out := writer(func(b []byte) (int, error) {
		take()
		got += len(b)
		return len(b), nil
	})
	err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: out})
	if exited, _ := errors.AsType[exec.CodeExitError](err); exited.Code != 42 || got != size {
		t.Errorf("%d bytes of %d, and %v: want exit code 42", got, size, err)
	}
}

// TestNoLastWord has a client that takes nothing until the runtime has closed its connection.
func TestNoLastWord(t *testing.T) {
	each(t, func(t *testing.T, open func(w *world, path string) remotecommand.Executor) {
		const size = 64 << 10
		w := newWorld(t)
		w.addLast(size)
		exec42(t, open(w, lastPath), size, sync.OnceFunc(func() { <-w.closed }))
	})
}

// pacedConn does something each time before it reads.
type pacedConn struct {
	net.Conn
	before func(net.Conn)
}

func (c pacedConn) Read(b []byte) (int, error) {
	c.before(c.Conn)
	return c.Conn.Read(b)
}

// openSPDY is an executor whose connection does something each time before it reads.
func (w *world) openSPDY(t *testing.T, path string, before func(net.Conn)) remotecommand.Executor {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		return pacedConn{c, before}, err
	}}
	tripper, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{UpgradeTransport: transport})
	if err != nil {
		t.Fatal(err)
	}
	u := w.url(t, path)
	u.Host = w.relay.Addr().String()
	e, err := remotecommand.NewSPDYExecutorForTransports(tripper, upgrade.NewUpgraderForStreaming(tripper), "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ping is a frame as kubectl sends one every five seconds.
func ping(id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{0x80, 3, 0, 6, 0, 0, 0, 4}, id)
}

// TestSlowClientPings: the runtime closes its connection long before a slow client has read its output, and
// the client goes on to ping.
func TestSlowClientPings(t *testing.T) {
	const size = 16 << 20
	w := newWorld(t)
	runs := w.addLast(size)
	exec42(t, w.openSPDY(t, lastPath, func(c net.Conn) {
		if runs.Load() {
			c.Write(ping(1<<20 + 1)) //nolint:errcheck // what it reads shows it
		}
	}), size, func() {})
}

// TestClientSendsOn has a client that reads only after the node has sent everything, and it has sent more.
func TestClientSendsOn(t *testing.T) {
	const size = 512 << 10 // more than the relay holds
	w := newWorld(t)
	runs := w.addLast(size)
	var sent bool
	exec42(t, w.openSPDY(t, lastPath, func(c net.Conn) {
		if sent || !runs.Load() {
			return
		}
		sent = true
		<-w.left
		const more = 64 << 10
		frame := append([]byte{0, 0, 0, 1, 0, more >> 16, more >> 8 & 0xff, more & 0xff}, make([]byte, more)...)
		for range 64 {
			if _, err := c.Write(frame); err != nil {
				t.Errorf("what is sent on: %v", err)
				return
			}
		}
	}), size, func() {})
}
