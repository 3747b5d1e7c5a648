package kube

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"
)

// Defaults of a Config: the kubelet's (KubeletConfiguration kubeAPIQPS, kubeAPIBurst,
// eventRecordQPS, eventBurst, contentType).
const (
	DefaultQPS         = 50
	DefaultBurst       = 100
	DefaultEventQPS    = 50
	DefaultEventBurst  = 100
	DefaultContentType = "application/vnd.kubernetes.protobuf"
)

// Config says which apiserver to use, and how.
type Config struct {
	// REST has the address and the credential; see Load. It is not changed.
	REST *rest.Config
	// CertificateLater says that the files of the client certificate may come later. Until then requests fail.
	CertificateLater bool
	// Version is troupe's: the user agent is troupe/VERSION.
	Version string
	// QPS and Burst bound requests a second (kubeAPIQPS, kubeAPIBurst). QPS 0 is the default,
	// below 0 there is no bound. Watches, the lease and the node's object are never limited.
	QPS   float32
	Burst int
	// EventQPS and EventBurst are the same for events, which must not delay anything else
	// (eventRecordQPS, eventBurst).
	EventQPS   float32
	EventBurst int
	// ContentType is that of requests; protobuf if empty.
	ContentType string
	// Log gets a line when the apiserver becomes unreachable, and when it is back.
	Log zerolog.Logger
	// Observe, if not nil, is called for each HTTP request, from any goroutine. It must not
	// block.
	Observe func(Request)
}

// Validate returns the first problem of c.
func (c Config) Validate() error {
	switch {
	case c.REST == nil:
		return errors.New("the apiserver's address is missing (Config.REST)")
	case c.REST.Host == "":
		return errors.New("the kubeconfig names no server")
	case c.REST.Transport != nil:
		return errors.New("a custom transport is not supported (Config.REST.Transport)")
	case c.Version == "":
		return errors.New("troupe's version is missing (Config.Version)")
	case c.Burst < 0:
		return fmt.Errorf("burst %d is negative", c.Burst)
	case c.EventBurst < 0:
		return fmt.Errorf("event burst %d is negative", c.EventBurst)
	}
	if _, err := url.Parse(c.REST.Host); err != nil {
		return fmt.Errorf("the apiserver's address: %w", err)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.QPS == 0 {
		c.QPS = DefaultQPS
	}
	if c.Burst == 0 {
		c.Burst = DefaultBurst
	}
	if c.EventQPS == 0 {
		c.EventQPS = DefaultEventQPS
	}
	if c.EventBurst == 0 {
		c.EventBurst = DefaultEventBurst
	}
	if c.ContentType == "" {
		c.ContentType = DefaultContentType
	}
	return c
}
