package node

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/supervisor/config"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// TestPluginDir: an agent takes the kubelet's directory, but not from another one that runs.
func TestPluginDir(t *testing.T) {
	dir := t.TempDir()
	kubelets, root := filepath.Join(dir, "device-plugins"), filepath.Join(dir, "root")
	own := filepath.Join(root, "device-plugins")
	wantDir := func(when string, o config.Options, want string) {
		t.Helper()
		if got := pluginDir(o, kubelets, zerolog.Nop()); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	wantDir("nobody is there", config.Options{RootDir: root}, kubelets)
	wantDir("simulated", config.Options{RootDir: root, Runtime: config.RuntimeSim}, own)
	wantDir("asked for", config.Options{RootDir: root, DevicePlugins: "/p"}, "/p")
	t.Chdir(dir) // a short path for the socket
	must.Fatal(t, os.Mkdir(kubelets, 0o750))
	other := must.Value(net.Listen("unix", filepath.Join("device-plugins", "kubelet.sock")))(t)
	wantDir("another agent is there", config.Options{RootDir: root}, own)
	wantDir("it is this agent's own root directory", config.Options{RootDir: dir}, kubelets)
	must.Fatal(t, other.Close())
	wantDir("it has ended", config.Options{RootDir: root}, kubelets)
}
