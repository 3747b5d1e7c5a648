package kube

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// certificate is a client certificate and its key in files, read again when they change. The
// apiserver authenticates a connection, so a new certificate counts on new connections only: the
// old ones are closed.
//
// client-go can do that too. But it checks every 5 minutes, too long for a node whose certificate
// had expired, and its goroutine for it never ends.
type certificate struct {
	certFile, keyFile string
	changed           func()

	mu     sync.Mutex
	looked time.Time
	seen   fileStates
	is     *tls.Certificate
}

type fileState struct {
	modified time.Time
	size     int64
}

type fileStates [2]fileState

// lookPeriod is the shortest time between checks of the files, which precede a request.
const lookPeriod = time.Second

// errNoCertificate is said to requests that are made before there is a certificate.
var errNoCertificate = errors.New("the node has no client certificate yet: its request waits to be taken and signed " +
	"(kubectl get csr, kubectl certificate approve)")

// newCertificate reads the files. With later they may come later.
func newCertificate(certFile, keyFile string, later bool, changed func()) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, changed: changed}
	seen, err := c.state()
	if later && errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("client certificate %s and key %s: %w", certFile, keyFile, err)
	}
	c.seen, c.is = seen, &pair
	return c, nil
}

// get returns the certificate for a handshake.
func (c *certificate) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.is == nil {
		return nil, errNoCertificate
	}
	return c.is, nil
}

// look reads the files if they have changed. While they do not match, because only one has been
// written yet, the old certificate stays in use.
func (c *certificate) look(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < lookPeriod {
		return
	}
	c.looked = now
	is, err := c.state()
	if err != nil || is == c.seen {
		return
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return
	}
	c.seen, c.is = is, &pair
	c.changed()
}

func (c *certificate) state() (is fileStates, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return is, err
		}
		is[i] = fileState{info.ModTime(), info.Size()}
	}
	return is, nil
}
