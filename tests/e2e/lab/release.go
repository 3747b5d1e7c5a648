package lab

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
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

// BinDir is where the release's containerd and its shim are. A 2.x is built if it is not there.
func (r Release) BinDir(ctx context.Context, repository string, log io.Writer) (string, error) {
	if r == Containerd2 {
		return BuildContainerd(ctx, repository, log)
	}
	path, err := LookPath("containerd")
	if err != nil {
		return "", fmt.Errorf("find containerd %s: %w (Debian package: containerd)", r, err)
	}
	return filepath.Dir(path), nil
}

const containerdModule = "github.com/containerd/containerd/v2"

const containerdDir = "tests/tools/containerd"

// BuildContainerd builds containerd 2.x and its shim into .run/bin/containerd-<version> of the
// repository, unless they are there, and returns that directory. The first time takes one to
// two minutes on two cores. Log, if not nil, is told when it builds.
func BuildContainerd(ctx context.Context, repository string, log io.Writer) (dir string, err error) {
	version, err := version(repository, containerdDir, containerdModule)
	if err != nil {
		return "", fmt.Errorf("find containerd's version: %w", err)
	}
	return built{
		name: "containerd-" + version, takes: "a minute or two",
		module: containerdDir, programs: []string{"containerd", "containerd-shim-runc-v2"}, env: withoutC,
		args: []string{
			"-tags", "no_btrfs,no_zfs,no_devmapper", "-ldflags", "-s -w -X " + containerdModule + "/version.Version=v" + version,
		},
		packages: []string{containerdModule + "/cmd/containerd", containerdModule + "/cmd/containerd-shim-runc-v2"},
	}.dir(ctx, repository, log)
}
