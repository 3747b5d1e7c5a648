package served

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// Config says where a runtime keeps what its containers write, and its socket. Dir must be set.
type Config struct {
	// Dir is the runtime's own. Its path must be short, for the socket.
	Dir string
	// Latencies of its calls; nil for those that were measured with containerd.
	Latencies *simcri.Latencies
}

// Runtime is a served runtime. Its methods may be called by any goroutine.
type Runtime struct {
	dir      string
	sim      *simcri.Runtime
	registry *simcri.Registry
	conn     *grpc.ClientConn
	guard    net.Listener
	streams  *streams
	stop     context.CancelFunc // nil while it is killed
	served   chan error

	mu         sync.Mutex
	programs   map[string]string // by the image's name
	containers map[name]*container
	problems   []string
}

// name is a container's in the runtime.
type name struct {
	uid, container string
	attempt        uint32
}

// imageBytes is the size of every image.
const imageBytes = 2 << 20

// Start begins to serve the images of lab.Programs, and busybox, which can only be pulled.
func Start(config Config) (_ *Runtime, err error) {
	defer check.Return(&err)
	if config.Dir == "" {
		return nil, errors.New("a served runtime needs a Dir")
	}
	check.OK(os.MkdirAll(config.Dir, 0o755))
	r := &Runtime{
		dir: config.Dir, registry: simcri.NewStrictRegistry(), served: make(chan error, 1),
		programs: map[string]string{}, containers: map[name]*container{},
	}
	for image, program := range lab.Programs() {
		r.Push(image, program)
	}
	r.Push(lab.BusyboxImage, "")
	prefix, guard := check.Must2(network())
	r.guard = guard
	r.sim, err = simcri.New(simcri.Config{
		Clock: wallClock{}, Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) },
		Registry: r.registry, PodCIDR: prefix, Latencies: config.Latencies, Script: r.script, Observe: r.observe,
	})
	if err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	if r.conn, err = grpc.NewClient(r.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	if r.streams, err = openStreams(r.Runtime()); err != nil {
		return nil, errors.Join(err, r.conn.Close(), guard.Close())
	}
	if err := r.Start(context.Background()); err != nil {
		return nil, errors.Join(err, r.streams.close(), r.conn.Close(), guard.Close())
	}
	return r, nil
}

// Start serves a runtime again that was killed. Its containers have gone on.
func (r *Runtime) Start(context.Context) error {
	listener, err := net.Listen("unix", r.socket())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.served <- simcri.Serve(ctx, listener, r.sim, grpc.UnaryInterceptor(r.intercept)) }()
	return nil
}

// Kill ends all calls, and serves no more until Start. Containers go on.
func (r *Runtime) Kill(context.Context) error {
	if r.stop == nil {
		return nil
	}
	r.stop()
	r.stop = nil
	return <-r.served
}

// wallClock is the time of the machine.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }
func (wallClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// network finds a network for pods within 127.64.0.0/10 that no other runtime of this machine has.
// The guard, at an address that no pod gets, keeps it.
func network() (prefix netip.Prefix, guard net.Listener, err error) {
	const tries = 100
	for range tries {
		a := [4]byte{127, byte(64 + rand.IntN(64)), byte(rand.IntN(256)), 0}
		prefix = netip.PrefixFrom(netip.AddrFrom4(a), 24)
		if guard, err = net.Listen("tcp", netip.AddrPortFrom(prefix.Addr().Next(), guardPort).String()); err == nil {
			return prefix, guard, nil
		}
	}
	return prefix, nil, fmt.Errorf("find a network for pods: %w", err)
}

// guardPort is below those that the kernel gives to clients, and none of lab.FreePort.
const guardPort = 11999

func (r *Runtime) socket() string { return filepath.Join(r.dir, "cri.sock") }

// Endpoint is the socket's, as a URL.
func (r *Runtime) Endpoint() string { return "unix://" + r.socket() }

// CgroupRoot is empty: pods have no cgroups.
func (r *Runtime) CgroupRoot() string { return "" }

// Runtime is a client, to look at what is there past the agent.
func (r *Runtime) Runtime() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(r.conn)
}

// Push adds an image of a program of tests/images.
func (r *Runtime) Push(image, program string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs[image] = program
	r.registry.Put(image, simcri.RegistryImage{SizeBytes: imageBytes})
}

// Lock adds an image that nobody gets without this password.
func (r *Runtime) Lock(image, user, password string) {
	r.registry.Put(image, simcri.RegistryImage{
		SizeBytes: imageBytes, Credential: &port.ImageAuth{Username: user, Password: password},
	})
}

// problem notes what a program was to do and could not.
func (r *Runtime) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// Leaks are the containers that are not gone.
func (r *Runtime) Leaks() (left []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, c := range r.containers {
		if c.started {
			left = append(left, fmt.Sprintf("container %s of pod %s in the served runtime", n.container, n.uid))
		}
	}
	return left
}

// Cleanup ends the runtime and removes what it wrote. The error is what went wrong meanwhile.
func (r *Runtime) Cleanup(ctx context.Context) error {
	err := errors.Join(r.Kill(ctx), r.streams.close(), r.conn.Close(), r.guard.Close())
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		c.hangUp()
	}
	if len(r.problems) > 0 {
		err = errors.Join(err, errors.New(strings.Join(r.problems, "\n")))
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}
