package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
)

// Reconnecting on a unix socket is cheap: the client reaches a restarted runtime within about a
// second.
var reconnect = grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
		MaxDelay: time.Second},
	MinConnectTimeout: 2 * time.Second,
}

// Client is a connection to a runtime. It implements port.Runtime.
type Client struct {
	config    Config
	deadlines deadlines

	conns   []*grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	// runtimeConn is the connection of runtime.
	runtimeConn *grpc.ClientConn
	// longCommands, sending and execAnswers bound what commands in containers take in memory.
	longCommands, sending turns
	execAnswers           *answerTurns
	// headersFirst: see takeAnswer. It is cleared as noStreams is.
	headersFirst   atomic.Bool
	answerPatience time.Duration

	// noStreams is set once the runtime turned out to have no streaming lists, and cleared when
	// it goes away: it may come back as a newer version.
	noStreams atomic.Bool

	// handlers are the features of the runtime's handlers, from its last Status.
	handlers atomic.Pointer[[]v1.NodeRuntimeHandler]

	// closing ends all running calls.
	closing context.Context
	close   context.CancelFunc

	// mu guards the order of calls.Add against calls.Wait.
	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

var _ port.Runtime = (*Client)(nil)

// Dial connects to the runtime and asks for its version, so that a wrong or dead socket is an
// error at once. The error is one line that says what to do. Later the client reconnects by
// itself.
func Dial(ctx context.Context, config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	c := newClient(config)
	if err := c.connect(); err != nil {
		c.Close()
		return nil, err
	}
	if err := c.greet(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func newClient(config Config) *Client {
	config.ImageEndpoint = cmp.Or(config.ImageEndpoint, config.Endpoint)
	config.RequestTimeout = cmp.Or(config.RequestTimeout, defaultRequestTimeout)
	config.MaxMessageBytes = cmp.Or(config.MaxMessageBytes, defaultMaxMessageBytes)
	if config.MakeDirectory == nil {
		config.MakeDirectory = func(path string) error { return os.MkdirAll(path, 0o755) }
	}
	c := &Client{
		config: config, deadlines: deadlines{request: config.RequestTimeout},
		longCommands: make(turns, longCommandsAtOnce), sending: make(turns, sendingAtOnce),
		execAnswers: newAnswerTurns(answersAtOnce), answerPatience: answerPatience,
	}
	c.closing, c.close = context.WithCancel(context.Background())
	return c
}

// connect opens one connection, or two if another socket serves images.
func (c *Client) connect() error {
	conn, err := c.open(c.config.Endpoint)
	if err != nil {
		return err
	}
	c.runtime, c.runtimeConn = runtimeapi.NewRuntimeServiceClient(conn), conn
	if c.config.ImageEndpoint != c.config.Endpoint {
		if conn, err = c.open(c.config.ImageEndpoint); err != nil {
			return err
		}
	}
	c.images = runtimeapi.NewImageServiceClient(conn)
	return nil
}

// node has the node's facts for translations, with the runtime's features.
func (c *Client) node() *translate.Node {
	n := *c.config.Node()
	if h := c.handlers.Load(); h != nil {
		n.Handlers = *h
	}
	return &n
}

func (c *Client) open(endpoint string) (*grpc.ClientConn, error) {
	path, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, noAnswer(endpoint, "the socket does not exist; start containerd or set --container-runtime-endpoint")
	}
	var dialer net.Dialer
	// passthrough: the path is not resolved as a name, and not polled.
	conn, err := grpc.NewClient("passthrough:///"+path, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(reconnect),
		// Windows do not grow: what nobody has asked for yet of an answer stays with the runtime.
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(4 * streamWindow),
		grpc.WithIdleTimeout(0), // an idle connection would delay the next call by its set-up
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(c.config.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(c.config.MaxMessageBytes),
		),
	}, c.config.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("container runtime endpoint %s: %w", endpoint, err)
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// greet asks for the version.
func (c *Client) greet(ctx context.Context) error {
	answer := make(chan error, 1)
	c.Version(ctx, func(_ port.RuntimeVersion, err error) { answer <- err })
	err := <-answer
	switch e, _ := errors.AsType[*port.Error](err); {
	case err == nil:
		return nil
	case e.Kind == port.Unsupported:
		return noAnswer(c.config.Endpoint, "the server at this socket does not serve the CRI v1 API; enable its CRI plugin")
	case e.Kind == port.Unavailable && refused(c.config.Endpoint):
		return noAnswer(c.config.Endpoint,
			"the socket exists, but no process listens; start containerd or set --container-runtime-endpoint")
	default:
		return noAnswer(c.config.Endpoint, e.Kind.String()+": "+e.Detail)
	}
}

func refused(endpoint string) bool {
	path, err := socketPath(endpoint)
	if err != nil {
		return false
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func noAnswer(endpoint, why string) error {
	return fmt.Errorf("no container runtime answers at %s: %s", endpoint, why)
}

// Close ends all running calls, waits until each has called its done, and closes the connections.
// Later calls fail. It must not be called from a done.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.calls.Wait()
	for _, conn := range c.conns {
		_ = conn.Close() // fails only if it is closed already
	}
}
