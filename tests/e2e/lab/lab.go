package lab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// Config says what lab to start. Dir and Release must be set.
type Config struct {
	// Dir holds all that the lab makes. One lab at a time uses it; a lab that was left behind
	// there, also by a killed process, is taken over.
	Dir string
	// Release of containerd to run.
	Release Release
	// Registry to pull from. Nil: the lab starts one of its own with the demo images.
	Registry *Registry
	// Repository is the checkout to build from. Empty: the one around the working directory, if
	// anything has to be built.
	Repository string
	// BinDir has the release's containerd and its shim. Empty: Debian's, or for 2.x a build.
	BinDir string
	// RuncDir has the runc to use, as [BuildRunc] gives it. Empty: the distribution's.
	RuncDir string
	// NodeNetwork has the network plugins that nodes have: for host ports, which needs iptables and asks it whenever a pod
	// ends, and for the loopback device, which containerd 2 brings up by itself otherwise.
	NodeNetwork bool
	// Families are those of the addresses that pods get, in the order in which the network plugin gives them. Nil: IPv4.
	Families []v1.IPFamily
	// SystemdCgroup has systemd make the cgroups of containers. The machine must be the lab's alone: the
	// cgroups of its pods are where they are on any node.
	SystemdCgroup bool
	// Upstream has containerd 2 as Kubernetes' own tests of nodes want it: with the runtime handler test-handler, and
	// waiting for all processes that hold the output of an exec.
	Upstream bool
	// Log is told what takes long. Nil: nobody is.
	Log io.Writer
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Dir == "" {
		return errors.New("Dir is not set")
	}
	if _, err := ParseRelease(string(c.Release)); err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}

// Lab is a private containerd and the registry it pulls from. Its methods are for one goroutine
// at a time, but for those that return a part of it, and Usage.
type Lab struct {
	config  Config
	dir     string // absolute
	id      string // eight hex digits from dir: the name of what lies outside dir
	sockets string // dir, or a short stand-in if sockets in dir had too long a path
	binDir  string
	// snapshotter is known once containerd was configured.
	snapshotter string
	network     network
	registry    *Registry
	owned       bool // the registry is ours to close
	unlock      func()

	conn    *grpc.ClientConn // reconnects by itself
	process *Process         // nil: containerd does not run
	pid     atomic.Int64     // of process
}

// A socket's path must fit into sockaddr_un, with room for containerd's ".ttrpc".
const longestSocketPath = 100

const (
	startTimeout = 3 * time.Minute // much, for a busy or an emulated machine
	stopTimeout  = time.Minute
)

// New prepares a lab: takes the directory, builds containerd if needed, starts the registry.
// [Lab.Start] comes next, and in the end [Lab.Cleanup] or, to keep the pods, [Lab.Close].
func New(ctx context.Context, config Config) (_ *Lab, err error) {
	defer check.Return(&err)
	check.OK(config.Validate())
	l := &Lab{config: config, registry: config.Registry}
	l.dir = check.Must(filepath.Abs(config.Dir))
	check.OK(os.MkdirAll(l.dir, 0o755))
	// The mount table names real paths.
	l.dir = check.Must(filepath.EvalSymlinks(l.dir))
	l.id = fmt.Sprintf("%x", sha256.Sum256([]byte(l.dir)))[:8]
	l.sockets = l.dir
	if len(filepath.Join(l.dir, "containerd.sock.ttrpc")) > longestSocketPath {
		l.sockets = filepath.Join(os.TempDir(), "troupe-lab-"+l.id)
	}
	l.unlock = check.Must(l.take())
	defer func() {
		check.Ended(recover(), &err)
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.config.Repository == "" && (config.BinDir == "" || config.Registry == nil) {
		l.config.Repository = check.Must(Repository())
	}
	l.conn = check.Must(l.Dial())
	if l.binDir = config.BinDir; l.binDir == "" {
		l.binDir = check.Must(config.Release.BinDir(ctx, l.config.Repository, config.Log))
	}
	if l.registry == nil {
		l.owned = true
		l.registry = check.Must(NewRegistry())
		check.OK(l.registry.PushDemoImages(ctx, l.config.Repository))
	}
	return l, nil
}

// take locks the directory for this process.
func (l *Lab) take() (func(), error) {
	f, err := os.OpenFile(filepath.Join(l.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another process runs a lab in %s: %w", l.dir, err)
	}
	return func() { f.Close() }, nil
}

// Start starts containerd and waits until it serves CRI and its network is ready. Pods of an
// earlier start in the same directory are found as they are.
func (l *Lab) Start(ctx context.Context) (err error) {
	defer check.Return(&err)
	if l.process != nil {
		return errors.New("containerd runs already")
	}
	check.OK(l.killStray(ctx))
	if err := l.writeConfig(); err != nil {
		return fmt.Errorf("configure containerd: %w", err)
	}
	if err := l.makeBridge(ctx); err != nil {
		return err
	}
	logFile := check.Must(os.OpenFile(l.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))
	defer logFile.Close()
	// containerd finds its shim by PATH, and the shim its runc: those that are ours must come first.
	cmd := exec.Command(filepath.Join(l.binDir, "containerd"), "--config", l.configPath())
	path := l.binDir + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin"
	if l.config.RuncDir != "" {
		path = l.config.RuncDir + ":" + path
	}
	cmd.Env = append(os.Environ(), "PATH="+path)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if l.process, err = StartProcess(cmd); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	l.pid.Store(int64(l.process.PID()))
	if err := l.process.awaitReady(ctx, startTimeout, l.ready); err != nil {
		return errors.Join(fmt.Errorf("start containerd %s (see %s): %w", l.config.Release, l.LogPath(), err), l.Stop(ctx))
	}
	return nil
}

func (l *Lab) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	status, err := l.Runtime().Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	for _, c := range status.Status.Conditions {
		// Other conditions only advise: containerd has one for deprecations.
		needed := c.Type == runtimeapi.RuntimeReady || c.Type == runtimeapi.NetworkReady
		if needed && !c.Status {
			return fmt.Errorf("%s: %s", c.Type, c.Message)
		}
	}
	return nil
}

// Stop ends containerd by SIGTERM, and by SIGKILL if that takes more than 20 s. Containers and
// their shims go on.
func (l *Lab) Stop(ctx context.Context) error {
	return l.end(ctx, syscall.SIGTERM)
}

// Kill ends containerd by SIGKILL. Containers and their shims go on.
func (l *Lab) Kill(ctx context.Context) error {
	return l.end(ctx, syscall.SIGKILL)
}

func (l *Lab) end(ctx context.Context, signal syscall.Signal) error {
	if l.process == nil {
		return nil
	}
	if err := l.process.End(ctx, signal, stopTimeout); err != nil {
		return fmt.Errorf("stop containerd: %w", err)
	}
	l.process = nil
	l.pid.Store(0)
	return nil
}

// Restart is Stop and Start on the same state.
func (l *Lab) Restart(ctx context.Context) error {
	if err := l.Stop(ctx); err != nil {
		return err
	}
	return l.Start(ctx)
}

// Close stops containerd and the registry and gives the directory free. Containers go on, for a
// later lab in the same directory to find.
func (l *Lab) Close() error {
	err := l.Stop(context.Background())
	if l.conn != nil {
		err = errors.Join(err, l.conn.Close())
		l.conn = nil
	}
	if l.owned && l.registry != nil {
		err = errors.Join(err, l.registry.Close())
		l.registry = nil
	}
	if l.unlock != nil {
		l.unlock()
		l.unlock = nil
	}
	return err
}

// SocketPath is the path of containerd's CRI socket.
func (l *Lab) SocketPath() string { return filepath.Join(l.sockets, "containerd.sock") }

// Endpoint is SocketPath as a URL, as --container-runtime-endpoint wants it.
func (l *Lab) Endpoint() string { return "unix://" + l.SocketPath() }

// LogPath is the file that containerd logs to.
func (l *Lab) LogPath() string { return filepath.Join(l.dir, "containerd.log") }

// Dir is the lab's directory, absolute.
func (l *Lab) Dir() string { return l.dir }

// CgroupRoot is a cgroup for all pods of the lab, as cgroupRoot of a kubelet's configuration or as
// a sandbox's cgroup parent. Nobody has made it yet, and Cleanup removes it with all below it. With
// SystemdCgroup it is the root of all.
func (l *Lab) CgroupRoot() string {
	if l.config.SystemdCgroup {
		return "/"
	}
	return "/lab-" + l.id
}

// Release is containerd's release.
func (l *Lab) Release() Release { return l.config.Release }

// Registry is what containerd pulls from.
func (l *Lab) Registry() *Registry { return l.registry }

// PID is containerd's process ID, or 0 if it does not run.
func (l *Lab) PID() int { return int(l.pid.Load()) }

// Exited is closed once the containerd of the last Start has ended, for whatever reason. It is for
// the goroutine that called Start, and nil if containerd does not run.
func (l *Lab) Exited() <-chan struct{} {
	if l.process == nil {
		return nil
	}
	return l.process.Exited()
}

// Dial opens a connection of the caller's own to the CRI socket.
func (l *Lab) Dial() (*grpc.ClientConn, error) {
	again := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, MaxDelay: 500 * time.Millisecond}
	return grpc.NewClient(l.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: 2 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
}

// Runtime is a CRI runtime client on the lab's own connection, which reconnects by itself.
func (l *Lab) Runtime() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(l.conn)
}

// Images is the CRI image client that belongs to Runtime.
func (l *Lab) Images() runtimeapi.ImageServiceClient {
	return runtimeapi.NewImageServiceClient(l.conn)
}
