//go:build linux && !nonode

package commands

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestUntilSignal: the first signal ends the context, and the second calls.
func TestUntilSignal(t *testing.T) {
	ended := make(chan struct{})
	ctx, stop := untilSignal(t.Context(), func() { close(ended) })
	defer stop()
	check.Fatal(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	check.Receive(t, ctx.Done())
	select {
	case <-ended:
		t.Fatal("the first ends it at once")
	default:
	}
	check.Fatal(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	check.Receive(t, ended)
}

// TestUntilStopped: what has ended by itself waits for no signal, and hears none.
func TestUntilStopped(t *testing.T) {
	ctx, stop := untilSignal(t.Context(), func() { t.Error("called") })
	stop()
	check.Receive(t, ctx.Done())
}

// asNode has the test program be a node with this configuration.
const asNode = "TROUPE_TEST_NODE"

// TestSecondSignal: an agent that waits for a start in progress as it ends does so no longer after a second signal.
func TestSecondSignal(t *testing.T) {
	if file := os.Getenv(asNode); file != "" {
		os.Args = []string{"kubelet", "--runtime=sim", "--config", file, "--root-dir", filepath.Dir(file), "--hostname-override=n1"}
		os.Exit(Execute())
	}
	dir := check.Value(os.MkdirTemp("", "s"))(t) // t.TempDir has too long a path for sockets
	t.Cleanup(func() { check.Error(t, os.RemoveAll(dir)) })
	file, socket := filepath.Join(dir, "config"), filepath.Join(dir, "notify")
	check.Fatal(t, os.Mkdir(filepath.Join(dir, "manifests"), 0o700))
	for name, text := range map[string]string{
		file: `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: manifests
podLogsDir: logs
healthzPort: 0
enableServer: false
failSwapOn: false
oomScoreAdj: 0
cgroupsPerQOS: false
enforceNodeAllocatable: []
resolvConf: ""
`,
		filepath.Join(dir, "manifests", "slow.yaml"): `apiVersion: v1
kind: Pod
metadata:
  name: slow
  annotations: {sim.troupe.dev/start-latency: 1h, sim.troupe.dev/image-size: "1"}
spec:
  containers: [{name: app, image: app}]
`,
	} {
		check.Fatal(t, os.WriteFile(name, []byte(text), 0o600))
	}
	systemd := check.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}))(t)
	defer systemd.Close()
	agent := exec.Command(os.Args[0], "-test.run=^TestSecondSignal$")
	agent.Env = append(os.Environ(), asNode+"="+file, "NOTIFY_SOCKET="+socket)
	agent.Stdout, agent.Stderr = check.Log(t), check.Log(t)
	check.Fatal(t, agent.Start())
	defer func() {
		if agent.ProcessState == nil { // the test has failed
			check.Error(t, agent.Process.Kill())
			agent.Wait() //nolint:errcheck // it was killed
		}
	}()
	check.Until(t, "the start of the container", func() bool {
		tree, err := command(t.Context(), "tree", "--json", "--root-dir", dir)
		return err == nil && strings.Contains(tree, `"StartContainer"`)
	})
	check.Fatal(t, agent.Process.Signal(syscall.SIGTERM))
	awaitStopping(t, systemd)
	check.Fatal(t, agent.Process.Signal(syscall.SIGTERM))
	var ended *exec.ExitError
	if err := agent.Wait(); !errors.As(err, &ended) || ended.ExitCode() != exitFailed {
		t.Errorf("the agent ended with %v, want exit code %d", err, exitFailed)
	}
}

// awaitStopping reads what systemd is told until it is that the agent ends.
func awaitStopping(t *testing.T, systemd *net.UnixConn) {
	t.Helper()
	check.Fatal(t, systemd.SetReadDeadline(time.Now().Add(time.Minute)))
	for buffer := make([]byte, 512); ; {
		n := check.Value(systemd.Read(buffer))(t)
		if strings.Contains(string(buffer[:n]), "STOPPING=1") {
			return
		}
	}
}
