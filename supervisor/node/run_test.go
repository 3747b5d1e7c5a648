package node

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/supervisor/config"
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
`

// simulated are the options of an agent on a simulated runtime.
func simulated(t *testing.T, args ...string) Options {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(quiet), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("", "n") // t.TempDir has too long a path for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	flags, fs := config.NewFlags(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(fs)
	args = append([]string{"--runtime=sim", "--config", file, "--root-dir", root, "--hostname-override=n1"}, args...)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(flags, os.DirFS("/"), dir)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: c, Log: zerolog.New(zerolog.NewTestWriter(t))}
}

// systemd listens to what an agent tells it, a line each.
func systemd(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("NOTIFY_SOCKET", at)
	return conn
}

// awaitNotice reads what systemd is told until it is the text.
func awaitNotice(t *testing.T, conn *net.UnixConn, want string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for buffer := make([]byte, 512); ; {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(buffer[:n]), want) {
			return
		}
	}
}

// TestToldToSystemd: when the agent is up, while its actors answer, and when it ends.
func TestToldToSystemd(t *testing.T) {
	conn := systemd(t)
	t.Setenv("WATCHDOG_USEC", "100000")
	o := simulated(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	awaitNotice(t, conn, "READY=1")
	awaitNotice(t, conn, "WATCHDOG=1")
	awaitNotice(t, conn, "WATCHDOG=1")
	cancel()
	awaitNotice(t, conn, "STOPPING=1")
	if err := <-ended; err != nil {
		t.Error(err)
	}
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
	if err := <-firstEnded; err != nil {
		t.Error(err)
	}
	awaitNotice(t, conn, "READY=1")
	cancel()
	if err := <-secondEnded; err != nil {
		t.Error(err)
	}
}

// TestStartsAllTheSame: what a kubelet starts with is no reason to end here.
func TestStartsAllTheSame(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, port, err := net.SplitHostPort(other.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := systemd(t)
	var log bytes.Buffer
	o := simulated(t, "--resolv-conf=/nowhere/resolv.conf", "--healthz-bind-address=localhost", "--healthz-port="+port,
		"--node-ip=x", "--cluster-dns=dns", "--cluster-domain=a_b", "--qos-reserved=memory=10%", "--manifest-url=ftp://h",
		"--manifest-url-header=a:b", "--register-with-taints=a=b:NoSchedule,a=c:NoSchedule")
	o.Log = zerolog.New(zerolog.SyncWriter(&log))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	awaitNotice(t, conn, "READY=1")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"resolvConf: open /nowhere/resolv.conf: no such file or directory: new pods that need it wait", "the health endpoint cannot be served",
		"--node-ip: x: is no IP address", "--cluster-dns: clusterDNS[0]", "--cluster-domain: clusterDomain", "--manifest-url: staticPodURL",
		"qosReserved (needs feature gate QOSReserved)", "--register-with-taints: registerWithTaints[1]",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, log.String())
		}
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
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if text, err := r.read(); text != step.text || (err != nil) != step.fails {
			t.Errorf("%q, %v; want %q, failed: %v", text, err, step.text, step.fails)
		}
	}
}
