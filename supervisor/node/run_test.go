package node

import (
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
