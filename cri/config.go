package cri

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
)

// DefaultEndpoint is the kubelet's default (KubeletConfiguration containerRuntimeEndpoint).
const DefaultEndpoint = "unix:///run/containerd/containerd.sock"

// defaultMaxMessageBytes is twice the kubelet's limit: 16 MiB is too small for a list of some
// thousand containers with long annotations.
const defaultMaxMessageBytes = 32 << 20

// streamWindow is how much of an answer is received before it is asked for, in bytes.
const streamWindow = 256 << 10

// Config says how to reach a runtime.
type Config struct {
	// Endpoint is the runtime's socket: unix:///run/x.sock or /run/x.sock.
	Endpoint string
	// ImageEndpoint is the image service's, Endpoint if empty.
	ImageEndpoint string
	// RequestTimeout is KubeletConfiguration's runtimeRequestTimeout, 2 min if
	// zero. Deadlines of long calls follow from it; see deadlines.go.
	RequestTimeout time.Duration
	// MaxMessageBytes bounds an answer, 32 MiB if zero.
	MaxMessageBytes int
	// Node has the node's facts for translations. It is called for each new sandbox and
	// container, from any goroutine.
	Node func() *translate.Node
	// Notice, if not nil, is called for each problem in a sandbox's configuration that the pod's
	// owner should see, from any goroutine. It must not block.
	Notice func(*v1.Pod, translate.Notice)
	// MakeDirectory makes a log directory with its parents before the runtime writes to it, as
	// the CRI requires. Nil: os.MkdirAll, mode 0755.
	MakeDirectory func(path string) error
	// Observe, if not nil, is called at the end of each call, on the call's goroutine. It must
	// not block.
	Observe func(Call)
	// Dial are more options of the connections.
	Dial []grpc.DialOption
}

// Call is one call to the runtime that has ended.
type Call struct {
	Method   string // RunPodSandbox
	Object   string // the pod, the full ID, or the image
	Start    time.Time
	Duration time.Duration
	// Err is nil if the call worked. The kind is port.KindOf(Err).
	Err error
}

// Kind is the kind of the call's failure; ok is false if it did not fail.
func (c Call) Kind() (kind port.ErrorKind, ok bool) {
	return port.KindOf(c.Err), c.Err != nil
}

// Validate returns the first problem of c.
func (c *Config) Validate() error {
	if _, err := socketPath(c.Endpoint); err != nil {
		return fmt.Errorf("container runtime endpoint: %w", err)
	}
	if c.ImageEndpoint != "" {
		if _, err := socketPath(c.ImageEndpoint); err != nil {
			return fmt.Errorf("image service endpoint: %w", err)
		}
	}
	switch {
	case c.RequestTimeout < 0:
		return fmt.Errorf("runtime request timeout %s is negative", c.RequestTimeout)
	case c.MaxMessageBytes < 0:
		return fmt.Errorf("maximum message size %d is negative", c.MaxMessageBytes)
	case c.Node == nil:
		return errors.New("the node's values are missing (Config.Node)")
	}
	return nil
}

// socketPath accepts the kubelet's forms of an endpoint.
func socketPath(endpoint string) (string, error) {
	if endpoint == "" {
		return "", errors.New("is empty; give unix:///path/to/socket")
	}
	path := endpoint
	if strings.Contains(endpoint, ":") {
		u, err := url.Parse(endpoint)
		if err != nil {
			return "", fmt.Errorf("%q is not a URL: %w", endpoint, err)
		}
		switch {
		case u.Scheme != "unix":
			return "", fmt.Errorf("%q: scheme %q is not supported; give unix:///path/to/socket", endpoint, u.Scheme)
		case u.Host != "":
			return "", fmt.Errorf("%q names a host; a socket's path has three slashes: unix:///path/to/socket", endpoint)
		}
		path = u.Path
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not an absolute path", endpoint)
	}
	return filepath.Clean(path), nil
}
