package node

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/supervisor/config"
)

// TestPluginDir: an agent takes the kubelet's directory, but not from another one that runs.
func TestPluginDir(t *testing.T) {
	dir := t.TempDir()
	kubelets, root := filepath.Join(dir, "device-plugins"), filepath.Join(dir, "root")
	own := filepath.Join(root, "device-plugins")
	check := func(when string, o config.Options, want string) {
		t.Helper()
		if got := pluginDir(o, kubelets, zerolog.Nop()); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("nobody is there", config.Options{RootDir: root}, kubelets)
	check("simulated", config.Options{RootDir: root, Runtime: config.RuntimeSim}, own)
	check("asked for", config.Options{RootDir: root, DevicePlugins: "/p"}, "/p")
	t.Chdir(dir) // a short path for the socket
	if err := os.Mkdir(kubelets, 0o750); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", filepath.Join("device-plugins", "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	check("another agent is there", config.Options{RootDir: root}, own)
	check("it is this agent's own root directory", config.Options{RootDir: dir}, kubelets)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	check("it has ended", config.Options{RootDir: root}, kubelets)
}
