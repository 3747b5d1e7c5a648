package kube

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/apiclient/reread"
)

// certificate is a client certificate and its key in files, read again when they change. The
// apiserver authenticates a connection, so a new certificate counts on new connections only: the
// old ones are closed.
//
// client-go can do that too. But it checks every 5 minutes, too long for a node whose certificate
// had expired, and its goroutine for it never ends.
type certificate struct {
	changed func()

	mu     sync.Mutex
	looked time.Time
	pair   reread.Files[*tls.Certificate]
}

// errNoCertificate is said to requests that are made before there is a certificate.
var errNoCertificate = errors.New("the node has no client certificate yet: its request waits to be taken and signed " +
	"(kubectl get csr, kubectl certificate approve)")

// newCertificate reads the files. With later they may come later.
func newCertificate(certFile, keyFile string, later bool, changed func()) (*certificate, error) {
	c := &certificate{changed: changed, pair: reread.Pair(certFile, keyFile)}
	if _, err := c.pair.Look(); err != nil && (!later || !errors.Is(err, fs.ErrNotExist)) {
		return nil, fmt.Errorf("client certificate %s and key %s: %w", certFile, keyFile, err)
	}
	return c, nil
}

// get returns the certificate for a handshake.
func (c *certificate) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair.Value == nil {
		return nil, errNoCertificate
	}
	return c.pair.Value, nil
}

// look reads the files if they have changed. While they do not match, because only one has been
// written yet, the old certificate stays in use.
func (c *certificate) look(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < reread.Period {
		return
	}
	c.looked = now
	if changed, _ := c.pair.Look(); changed { //nolint:errcheck // the old certificate stays in use
		c.changed()
	}
}
