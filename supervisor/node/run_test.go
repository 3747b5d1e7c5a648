package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host/disk/lockfile"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// quiet are settings of an agent that opens no port and leaves the process as it is.
const quiet = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
healthzPort: 0
enableServer: false
failSwapOn: false
oomScoreAdj: 0
cgroupsPerQOS: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
`

// simulated are the options of an agent on a simulated runtime.
func simulated(t *testing.T, args ...string) Options {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	must.Fatal(t, os.WriteFile(file, []byte(quiet), 0o600))
	root, err := os.MkdirTemp("", "n") // t.TempDir has too long a path for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must.Error(t, os.RemoveAll(root)) })
	flags, fs := config.NewFlags(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(fs)
	args = append([]string{"--runtime=sim", "--config", file, "--root-dir", root, "--hostname-override=n1"}, args...)
	must.Fatal(t, fs.Parse(args))
	c := must.Value(config.Load(flags, os.DirFS("/"), dir))(t)
	return Options{Config: c, Log: zerolog.New(must.Log(t))}
}

// systemd listens to what an agent tells it, a line each.
func systemd(t *testing.T) *net.UnixConn {
	t.Helper()
	dir := must.Value(os.MkdirTemp("", "s"))(t)
	at := filepath.Join(dir, "notify")
	conn := must.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"}))(t)
	t.Cleanup(func() {
		conn.Close()
		must.Error(t, os.RemoveAll(dir))
	})
	t.Setenv("NOTIFY_SOCKET", at)
	return conn
}

// awaitNotice reads what systemd is told until it is the text.
func awaitNotice(t *testing.T, conn *net.UnixConn, want string) {
	t.Helper()
	must.Fatal(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	for buffer := make([]byte, 512); ; {
		n := must.Value(conn.Read(buffer))(t)
		if strings.Contains(string(buffer[:n]), want) {
			return
		}
	}
}

// isUp runs an agent, and returns when it has told systemd that it is up. It runs until cancel is called.
func isUp(t *testing.T, conn *net.UnixConn, o Options) (cancel func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	awaitNotice(t, conn, "READY=1")
	return cancel, done
}

// TestToldToSystemd: when the agent is up, while its actors answer, and when it ends.
func TestToldToSystemd(t *testing.T) {
	conn := systemd(t)
	t.Setenv("WATCHDOG_USEC", "100000")
	o := simulated(t)
	cancel, ended := isUp(t, conn, o)
	awaitNotice(t, conn, "WATCHDOG=1")
	awaitNotice(t, conn, "WATCHDOG=1")
	cancel()
	awaitNotice(t, conn, "STOPPING=1")
	must.Fatal(t, <-ended)
}

// TestToldWhileItStarts: systemd counts the time for the watchdog from the start of the process.
func TestToldWhileItStarts(t *testing.T) {
	conn := systemd(t)
	t.Setenv("WATCHDOG_USEC", "100000")
	path := filepath.Join(t.TempDir(), "lock")
	held := must.Value(lockfile.Take(t.Context(), path, func() {}))(t)
	defer held.Close()
	o := simulated(t, "--lock-file", path)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	awaitNotice(t, conn, "WATCHDOG=1")
	awaitNotice(t, conn, "WATCHDOG=1")
	cancel()
	must.Fatal(t, <-ended)
}

// TestHealthzAsksNobody: programs restart an agent whose first look there fails.
func TestHealthzAsksNobody(t *testing.T) {
	conn := systemd(t)
	port := freePort(t)
	o := simulated(t, "--healthz-port="+port)
	cancel, ended := isUp(t, conn, o)
	answer := must.Value(http.Get("http://127.0.0.1:" + port + "/healthz?verbose"))(t) //nolint:noctx // the test's end is enough
	text := must.Value(io.ReadAll(answer.Body))(t)
	must.Error(t, answer.Body.Close())
	must.Equal(t, string(text), "[+]ping ok\n[+]log ok\nhealthz check passed\n", "the answer")
	cancel()
	must.Fatal(t, <-ended)
}

// TestSilentActors: they may be silent for five minutes, and a lost question is not counted against them for ever.
func TestSilentActors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answered []func()
		l := &liveness{ask: func(f func()) { answered = append(answered, f) }}
		well := func(want bool) {
			t.Helper()
			must.Equal(t, l.check(t.Context()) == nil, want, "it is well")
		}
		well(true)
		time.Sleep(4 * time.Minute)
		well(true)
		answered[1]() // the first one is lost
		time.Sleep(10 * time.Minute)
		well(true)
		time.Sleep(4*time.Minute + 50*time.Second)
		well(true)
		time.Sleep(15 * time.Second)
		well(false)
		answered[2]()
		well(true)
	})
}

// TestTurns: of two agents with one lock file the second waits for the end of the first, which ends when the second
// comes.
func TestTurns(t *testing.T) {
	conn := systemd(t)
	lock := filepath.Join(t.TempDir(), "lock")
	first, second := simulated(t, "--lock-file", lock, "--exit-on-lock-contention"), simulated(t, "--lock-file", lock)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	firstEnded, secondEnded := make(chan error, 1), make(chan error, 1)
	go func() { firstEnded <- Run(ctx, first) }()
	awaitNotice(t, conn, "READY=1")
	go func() { secondEnded <- Run(ctx, second) }()
	awaitNotice(t, conn, "STOPPING=1")
	must.Error(t, <-firstEnded)
	awaitNotice(t, conn, "READY=1")
	cancel()
	must.Fatal(t, <-secondEnded)
}

// TestStartsAllTheSame: what a kubelet starts with is no reason to end here.
func TestStartsAllTheSame(t *testing.T) {
	other := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer other.Close()
	_, port, err := net.SplitHostPort(other.Addr().String())
	must.Fatal(t, err)
	conn := systemd(t)
	log, said := logged(t)
	o := simulated(t, "--resolv-conf=/nowhere/resolv.conf", "--healthz-bind-address=localhost", "--healthz-port="+port,
		"--node-ip=x", "--cluster-dns=dns", "--cluster-domain=a_b", "--qos-reserved=memory=10%", "--manifest-url=ftp://h",
		"--manifest-url-header=a:b", "--register-with-taints=a=b:NoSchedule,a=c:NoSchedule")
	o.Log = log
	cancel, ended := isUp(t, conn, o)
	cancel()
	must.Error(t, <-ended)
	for _, want := range []string{
		"resolvConf: open /nowhere/resolv.conf: no such file or directory: new pods that need it wait", "the health endpoint cannot be served",
		"--node-ip: x: is no IP address", "--cluster-dns: clusterDNS[0]", "--cluster-domain: clusterDomain", "--manifest-url: staticPodURL",
		"qosReserved (needs feature gate QOSReserved)", "--register-with-taints: registerWithTaints[1]",
	} {
		must.Has(t, said(), want, "the log")
	}
}

// TestResolverFile: without a file that could be read ever there is an error, and afterwards the last text.
func TestResolverFile(t *testing.T) {
	r := &resolverFile{path: filepath.Join(t.TempDir(), "resolv.conf"), none: os.ErrNotExist}
	for _, step := range []struct {
		do    func() error
		text  string
		fails bool
	}{
		{func() error { return nil }, "", true},
		{func() error { return os.WriteFile(r.path, []byte("a"), 0o600) }, "a", false},
		{func() error { return os.Remove(r.path) }, "a", false},
		{func() error { return os.WriteFile(r.path, []byte("b"), 0o600) }, "b", false},
		{func() error { return os.Truncate(r.path, maxResolver+1) }, "b", false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if text, err := r.read(); text != step.text || (err != nil) != step.fails {
			t.Errorf("%q, %v; want %q, failed: %v", text, err, step.text, step.fails)
		}
	}
}

// TestRuntimeWithoutStatus: a runtime that says its version, and not its status, ends no start.
func TestRuntimeWithoutStatus(t *testing.T) {
	hosttest.NeedRoot(t)
	conn := systemd(t)
	o := simulated(t, "--runtime=cri", "--container-runtime-endpoint="+served(t, silent{}))
	cancel, ended := isUp(t, conn, o)
	cancel()
	must.Error(t, <-ended)
}

// silent is a container runtime that is about to begin.
type silent struct{ answers }

func (silent) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return nil, status.Error(codes.Unavailable, "server is not initialized yet")
}

// slow answers when it has been asked often enough.
type slow struct {
	port.Runtime
	left int
}

func (s *slow) Status(_ context.Context, done func(port.RuntimeStatus, error)) {
	if s.left--; s.left > 0 {
		done(port.RuntimeStatus{}, errors.New("not yet"))
		return
	}
	done(port.RuntimeStatus{Features: &v1.NodeFeatures{SupplementalGroupsPolicy: new(true)}}, nil)
}

// TestAskedAgain: a runtime has some time for its status.
func TestAskedAgain(t *testing.T) {
	for left, known := range map[int]bool{1: true, 2: true, 1000: false} {
		patience := time.Minute
		if !known {
			patience = time.Millisecond
		}
		r := &containerRuntime{Runtime: &slow{left: left}}
		r.ask(t.Context(), patience, zerolog.Nop())
		if r.unknown == known || r.strictGroups != known {
			t.Errorf("answers after %d: unknown %v, strict groups %v", left, r.unknown, r.strictGroups)
		}
	}
}
