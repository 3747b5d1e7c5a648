// Package selinux tells what SELinux of this machine means for volumes. go-selinux finds it, as in container runtimes:
// a mounted selinuxfs, SELINUXTYPE of /etc/selinux/config, and lxc_contexts or container_contexts of the policy.
package selinux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	library "github.com/opencontainers/selinux/go-selinux"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// Policy is what is asked of the policy of a machine.
type Policy struct {
	// Enabled: the kernel has a policy.
	Enabled func() bool
	// File is the label of files of containers, empty if the policy has none.
	File func() string
	// Set sets the label of a file.
	Set func(path, label string) error
}

// pluginLabel is that of directories that containers may write to, whatever their categories.
const pluginLabel = "system_u:object_r:container_file_t:s0"

// Machine is the policy of this machine.
func Machine() Policy {
	return Policy{Enabled: library.GetEnabled, File: func() string {
		process, file := library.ContainerLabels() // with categories that are reserved in this process
		library.ReleaseLabel(process)
		return file
	}, Set: library.SetFileLabel}
}

// LabelPlugins makes the directories of plugins, if they are missing, and has containers write to them.
func (p Policy) LabelPlugins(dirs ...string) (failed []error) {
	if !p.Enabled() {
		return nil
	}
	for _, dir := range dirs {
		err := os.MkdirAll(dir, 0o750)
		if err == nil {
			err = p.Set(dir, pluginLabel)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return failed
}

// errUnknown is for people.
var errUnknown = errors.New("SELinux is on, but its policy does not say which label files of containers have " +
	"(contexts/lxc_contexts in the directory of the policy in /etc/selinux): volumes are not mounted with labels, and " +
	"the runtime gives them to each file: install a policy for containers (container-selinux)")

// Host is what SELinux means for volumes; nil: the machine has none. With an error volumes are not mounted with labels.
func (p Policy) Host(allModes bool) (*isolation.SELinuxHost, error) {
	if !p.Enabled() {
		return nil, nil //nolint:nilnil // there is none
	}
	h := &isolation.SELinuxHost{File: p.File(), AllModes: allModes}
	if h.File == "" {
		return h, errUnknown
	}
	return h, nil
}

// Files knows which files the runtime can give labels to.
type Files struct {
	// Mounts is what is mounted.
	Mounts func() ([]mounts.Mount, error)
	// root is the directory of volumes, real the same without symbolic links.
	root, real string
}

// FilesBelow are those below a directory.
func FilesBelow(root string, all func() ([]mounts.Mount, error)) *Files {
	f := &Files{Mounts: all, root: filepath.Clean(root), real: filepath.Clean(root)}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		f.real = real
	}
	return f
}

// Labels reports whether files at a path have labels of their own. They have not on a file system that was mounted
// with one label, or that knows none. It reads the table of mounts only, so it can't hang with the file system.
// Without the table the runtime finds out: a container whose files have no labels can't read them.
func (f *Files) Labels(path string) bool {
	if rest, is := strings.CutPrefix(path, f.root+"/"); is {
		path = filepath.Join(f.real, rest)
	}
	all, err := f.Mounts()
	if err != nil {
		return true
	}
	m := mounts.Of(all, path)
	if m == nil {
		return false
	}
	label, own := isolation.SELinuxMounted(m.Options)
	return own && label == ""
}
