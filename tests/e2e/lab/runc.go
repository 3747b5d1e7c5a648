package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

const runcModule = "github.com/opencontainers/runc"

// BuildRunc builds runc, in the version of tests/tools/runc/go.mod, into .run/bin/runc-<version> of
// the repository, unless it is there, and returns that directory: the distribution's may be too old
// for what a test is about, such as users of a pod's own. It is what [Config.RuncDir] wants. Log, if
// not nil, is told when it builds.
func BuildRunc(ctx context.Context, repository string, log io.Writer) (dir string, err error) {
	modfile := "-modfile=" + filepath.Join(repository, "tests/tools/runc/go.mod")
	version, err := output(ctx, repository, nil, "go", "list", modfile, "-m", "-f", "{{.Version}}", runcModule)
	if err != nil {
		return "", fmt.Errorf("find runc's version: %w", err)
	}
	number := strings.TrimPrefix(version, "v")
	return built{
		name:  "runc-" + number,
		takes: "half a minute",
		usable: func(dir string) bool {
			got, err := output(ctx, "", nil, filepath.Join(dir, "runc"), "--version")
			return err == nil && slices.Contains(strings.Fields(got), number)
		},
		build: func(dir string) error {
			_, err := output(ctx, repository, []string{"CGO_ENABLED=1"}, "go", "build", modfile, "-trimpath", "-buildvcs=false",
				"-tags", "seccomp", "-ldflags", "-s -w -X main.version="+number, "-o", dir+"/", runcModule)
			return err
		},
	}.once(ctx, repository, log)
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
