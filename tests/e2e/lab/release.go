package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Release names a line of containerd releases.
type Release string

const (
	// Containerd1 is the distribution's own containerd 1.6 or 1.7: without CRI events.
	Containerd1 Release = "1.6"
	// Containerd2 is built from its Go module, in the version of tests/tools/containerd/go.mod:
	// with CRI events.
	Containerd2 Release = "2"
)

// Releases are all there are, oldest first.
var Releases = []Release{Containerd1, Containerd2}

// HasEvents says whether GetContainerEvents works.
func (r Release) HasEvents() bool { return r == Containerd2 }

// ParseRelease accepts the names of [Releases], and 1 and 2.4 as well.
func ParseRelease(s string) (Release, error) {
	switch {
	case s == "1" || strings.HasPrefix(s, "1."):
		return Containerd1, nil
	case s == "2" || strings.HasPrefix(s, "2."):
		return Containerd2, nil
	}
	return "", fmt.Errorf("containerd release %q: want one of %v", s, Releases)
}

// binDir is where the release's containerd and its shim are. A 2.x is built if it is not there.
func (r Release) binDir(ctx context.Context, repository string, log io.Writer) (string, error) {
	if r == Containerd2 {
		return BuildContainerd(ctx, repository, log)
	}
	path, err := lookPath("containerd")
	if err != nil {
		return "", fmt.Errorf("find containerd %s: %w (Debian package: containerd)", r, err)
	}
	return filepath.Dir(path), nil
}

const containerdModule = "github.com/containerd/containerd/v2"

// BuildContainerd builds containerd 2.x and its shim into .run/bin/containerd-<version> of the
// repository, unless they are there, and returns that directory. The first time takes one to
// two minutes on two cores. Log, if not nil, is told when it builds.
func BuildContainerd(ctx context.Context, repository string, log io.Writer) (dir string, err error) {
	modfile := "-modfile=" + filepath.Join(repository, "tests/tools/containerd/go.mod")
	version, err := output(ctx, repository, nil, "go", "list", modfile, "-m", "-f", "{{.Version}}", containerdModule)
	if err != nil {
		return "", fmt.Errorf("find containerd's version: %w", err)
	}
	bin := filepath.Join(repository, ".run", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(bin, "containerd.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()

	dir = filepath.Join(bin, "containerd-"+strings.TrimPrefix(version, "v"))
	if got, err := output(ctx, "", nil, filepath.Join(dir, "containerd"), "--version"); err == nil && slices.Contains(strings.Fields(got), version) {
		return dir, nil
	}
	if log != nil {
		fmt.Fprintf(log, "building containerd %s from its Go module: a minute or two, this once\n", version)
	}
	fresh, err := os.MkdirTemp(bin, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	_, err = output(ctx, repository, nil, "go", "build", modfile, "-trimpath", "-buildvcs=false",
		"-tags", "no_btrfs,no_zfs,no_devmapper",
		"-ldflags", "-s -w -X "+containerdModule+"/version.Version="+version,
		"-o", fresh+"/", containerdModule+"/cmd/containerd", containerdModule+"/cmd/containerd-shim-runc-v2")
	if err != nil {
		return "", fmt.Errorf("build containerd %s: %w", version, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Rename(fresh, dir)
}

// output runs a command and returns what it printed, without the space around it. Its error holds
// the end of what the command wrote on stderr.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	path, err := lookPath(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		const enough = 2000
		text := strings.TrimSpace(string(exit.Stderr))
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text[max(0, len(text)-enough):])
	}
	return strings.TrimSpace(string(out)), err
}

// lock takes an exclusive lock on a file, for which it waits, and returns what gives it back.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
