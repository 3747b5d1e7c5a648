package member

import (
	"errors"
	"os"
	"syscall"
)

// kubeletPlugins is where any kubelet has its device plugins, whatever its root directory.
const kubeletPlugins = "/var/lib/kubelet/device-plugins"

// OwnPlugins is the agent with its device plugins below its root directory, where troupe has them in these tests: kubelets of one machine
// remove the sockets of each other's plugins, and write to the same checkpoint.
func (a Agent) OwnPlugins() Agent {
	a.ownPlugins = !a.ours
	return a
}

// bindPlugins runs a program in a mount namespace in which a directory, $1, is at the place of another, $2. The mount that
// this place is on is private there, so that other namespaces do not see it. All else that is mounted is as it was.
const bindPlugins = `mount --make-private "$(findmnt -n -o TARGET -T "$2")" && mount --bind "$1" "$2" && shift 2 && exec "$@"`

// withOwnPlugins is the command that runs the agent so. The runtime has to see what it mounts below its root directory,
// which is why that is a shared mount.
func (m *Member) withOwnPlugins(command []string) ([]string, error) {
	own := m.DevicePlugins()
	if err := errors.Join(os.MkdirAll(own, 0o750), os.MkdirAll(kubeletPlugins, 0o750), share(m.Root())); err != nil {
		return nil, err
	}
	return append([]string{
		"unshare", "--mount", "--propagation", "unchanged", "sh", "-c", bindPlugins, "sh", own, kubeletPlugins,
	}, command...), nil
}

// share makes a directory a shared mount. [lab.Daemon.Discard] takes it away.
func share(dir string) error {
	err := syscall.Mount("", dir, "", syscall.MS_SHARED, "")
	if errors.Is(err, syscall.EINVAL) { // it is no mount yet
		if err = syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err == nil {
			err = syscall.Mount("", dir, "", syscall.MS_SHARED, "")
		}
	}
	if err != nil {
		return &os.PathError{Op: "share", Path: dir, Err: err}
	}
	return nil
}
