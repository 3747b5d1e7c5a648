package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"

	"github.com/troupe-dev/troupe/tests/check"
)

func (l *Lab) configPath() string { return filepath.Join(l.dir, "containerd.toml") }

// settings is what the configuration templates are filled with.
type settings struct {
	Dir, Socket, Snapshotter, PauseImage, CNIBin string
	RestrictOOM, SystemdCgroup, NodeNetwork      bool
	Upstream                                     bool
}

// writeConfig writes containerd's configuration, the mirror configuration and the CNI network.
func (l *Lab) writeConfig() (err error) {
	defer check.Return(&err)
	for _, dir := range []string{l.sockets, filepath.Join(l.dir, "cni/net.d"), filepath.Join(l.dir, "certs.d/_default"), l.CDIDir()} {
		check.OK(os.MkdirAll(dir, 0o755))
	}
	cniBin := check.Must(CNIBinDir())
	l.snapshotter = "overlayfs"
	if err := tryOverlay(l.dir); err != nil {
		l.snapshotter = "native"
	}
	canRaise := check.Must(hasCapability(capSysResource))
	tmpl := configVersion2
	if l.config.Release == Containerd2 {
		tmpl = configVersion3
	}
	var text bytes.Buffer
	check.OK(tmpl.Execute(&text, settings{
		Dir: l.dir, Socket: l.SocketPath(), Snapshotter: l.snapshotter,
		PauseImage: PauseImage, CNIBin: cniBin, RestrictOOM: !canRaise, SystemdCgroup: l.config.SystemdCgroup,
		NodeNetwork: l.config.NodeNetwork, Upstream: l.config.Upstream,
	}))
	check.OK(os.WriteFile(l.configPath(), text.Bytes(), 0o644))
	l.network = check.Must(l.chooseNetwork())
	check.OK(os.WriteFile(filepath.Join(l.dir, "cni/net.d/10-lab.conflist"), l.conflist(), 0o644))
	// The server line keeps containerd from asking the internet when the mirror says no.
	url := "http://" + l.registry.Address()
	hosts := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", url, url)
	return os.WriteFile(filepath.Join(l.dir, "certs.d/_default/hosts.toml"), []byte(hosts), 0o644)
}

// configVersion2 is for containerd 1.6 and 1.7.
var configVersion2 = template.Must(template.New("containerd.toml").Parse(`version = 2
root = "{{.Dir}}/root"
state = "{{.Dir}}/state"
disabled_plugins = [
  "io.containerd.internal.v1.opt", # would make /opt/containerd
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{{.Socket}}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.PauseImage}}"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = {{.RestrictOOM}}
  tolerate_missing_hugetlb_controller = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.CNIBin}}"
    conf_dir = "{{.Dir}}/cni/net.d"

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{{.Dir}}/certs.d"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{{.Snapshotter}}"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{{.Dir}}/state/runc"
        SystemdCgroup = {{.SystemdCgroup}}
`))

// configVersion3 is for containerd 2.x.
var configVersion3 = template.Must(template.New("containerd.toml").Parse(`version = 3
root = "{{.Dir}}/root"
state = "{{.Dir}}/state"
disabled_plugins = [
  "io.containerd.internal.v1.opt", # would make /opt/containerd
]

[grpc]
  address = "{{.Socket}}"

[plugins."io.containerd.nri.v1.nri"]
  disable = true # its socket would be the host's

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{{.Snapshotter}}"

  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{{.PauseImage}}"

  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "{{.Dir}}/certs.d"

[plugins."io.containerd.cri.v1.runtime"]
  cdi_spec_dirs = ["{{.Dir}}/cdi"]
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = {{.RestrictOOM}}
  tolerate_missing_hugetlb_controller = true
  {{if not .Upstream}}drain_exec_sync_io_timeout = "5s"{{end}}

  [plugins."io.containerd.cri.v1.runtime".cni]
    use_internal_loopback = {{not .NodeNetwork}}
    bin_dirs = ["{{.CNIBin}}"]
    conf_dir = "{{.Dir}}/cni/net.d"

  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      sandboxer = "podsandbox"

      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        Root = "{{.Dir}}/state/runc"
        SystemdCgroup = {{.SystemdCgroup}}
{{if .Upstream}}
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.test-handler]
      runtime_type = "io.containerd.runc.v2"
      sandboxer = "podsandbox"

      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.test-handler.options]
        Root = "{{.Dir}}/state/runc"
{{end}}
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
`))

// tryOverlay mounts an overlay in dir and takes it away again.
func tryOverlay(dir string) (err error) {
	defer check.Return(&err)
	base := check.Must(os.MkdirTemp(dir, "overlay-"))
	defer os.RemoveAll(base)
	for _, part := range []string{"lower", "upper", "work", "merged"} {
		check.OK(os.Mkdir(filepath.Join(base, part), 0o755))
	}
	merged := filepath.Join(base, "merged")
	options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", base, base, base)
	if err := syscall.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	return syscall.Unmount(merged, 0)
}

// capSysResource is CAP_SYS_RESOURCE of capabilities(7): without it, oom_score_adj can be raised
// but not lowered.
const capSysResource = 24

// hasCapability looks at this process's effective capabilities.
func hasCapability(bit uint) (bool, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		if mask, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return set&(1<<bit) != 0, err
		}
	}
	return false, fmt.Errorf("no CapEff in /proc/self/status")
}

// Snapshotter is what containerd unpacks images with, once the lab has been started.
func (l *Lab) Snapshotter() string { return l.snapshotter }

// CDIDir is where containerd looks for specs of devices (Container Device Interface).
func (l *Lab) CDIDir() string { return filepath.Join(l.dir, "cdi") }
