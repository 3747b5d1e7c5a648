package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	runcModule = "github.com/opencontainers/runc"
	runcDir    = "tests/tools/runc"
)

// BuildRunc builds runc, in the version of tests/tools/runc/go.mod, into .run/bin/runc-<version> of
// the repository, unless it is there, and returns that directory: the distribution's may be too old
// for what a test is about, such as users of a pod's own. It is what [Config.RuncDir] wants. Log, if
// not nil, is told when it builds.
func BuildRunc(ctx context.Context, repository string, log io.Writer) (dir string, err error) {
	version, err := version(repository, runcDir, runcModule)
	if err != nil {
		return "", fmt.Errorf("find runc's version: %w", err)
	}
	return built{
		name: "runc-" + version, takes: "half a minute", module: runcDir, programs: []string{"runc"},
		env: []string{"CGO_ENABLED=1"}, args: []string{"-tags", "seccomp", "-ldflags", "-s -w -X main.version=" + version},
		packages: []string{runcModule},
	}.dir(ctx, repository, log)
}

// RuncBuild is what [BuildRunc] needs.
var RuncBuild = NewRequirement("a C compiler, and what runc is built with", func() error {
	for program, debian := range map[string]string{"gcc": "gcc", "pkg-config": "pkgconf"} {
		if _, err := LookPath(program); err != nil {
			return fmt.Errorf("%w (Debian package: %s)", err, debian)
		}
	}
	if _, err := output(context.Background(), "", nil, "pkg-config", "--exists", "libseccomp"); err != nil {
		return errors.New("libseccomp is not there to build with (Debian package: libseccomp-dev)")
	}
	return nil
})
