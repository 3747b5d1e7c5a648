package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
)

// Package says of which sources a package of troupe is made.
type Package struct {
	// Version of the package, without a v.
	Version string
	// Commit of the sources. Empty: those that are here.
	Commit string
	// Edit changes files of them, by their path. May be nil.
	Edit map[string]func(text string) string
}

// HasCommit is a commit of this repository's history that a test builds.
func HasCommit(commit string) Requirement {
	return Requirement{"commit " + commit, func() error {
		repository, err := Repository()
		if err == nil {
			_, err = output(context.Background(), repository, nil, "git", "cat-file", "-e", commit+"^{commit}")
		}
		return err
	}}
}

// Build makes the .deb of a release for this machine, and returns its path, which is below dir.
func (p Package) Build(ctx context.Context, repository, dir string) (deb string, err error) {
	defer check.Return(&err)
	source, out := filepath.Join(dir, "source-"+p.Version), filepath.Join(dir, "release-"+p.Version)
	check.OK(os.MkdirAll(source, 0o755))
	if p.Commit == "" {
		check.OK(CopySource(ctx, repository, source))
	} else {
		archive := source + ".tar"
		check.Must(output(ctx, repository, nil, "git", "archive", "-o", archive, p.Commit))
		check.Must(output(ctx, "", nil, "tar", "-C", source, "-xf", archive))
	}
	for name, edit := range p.Edit {
		path := filepath.Join(source, name)
		was := string(check.Must(os.ReadFile(path)))
		is := edit(was)
		if is == was {
			return "", fmt.Errorf("%s is as it was", path)
		}
		check.OK(os.WriteFile(path, []byte(is), 0o644))
	}
	// A release takes its version from here.
	heading := "# Changelog\n\n## v" + p.Version + " (2026-11-29)\n"
	check.OK(os.WriteFile(filepath.Join(source, "CHANGELOG.md"), []byte(heading), 0o644))
	check.OK(Pack(ctx, repository, source, out, PackageParts))
	return filepath.Join(out, fmt.Sprintf("troupe_%s-1_%s.deb", p.Version, runtime.GOARCH)), os.RemoveAll(source)
}

// PackageParts are the parts of a release that a package takes.
const PackageParts = "programs,manual,sbom,packages"

// Pack makes parts of a release for this machine, separated by commas, of a source tree into dir. It runs the program
// that makes releases, which has a module of its own in the repository.
func Pack(ctx context.Context, repository, source, dir, parts string) error {
	_, err := output(ctx, filepath.Join(repository, "cmd/troupe/packaging"), nil, "go", "run", ".", "-source", source,
		"-out", dir, "-only", parts, "-for", "linux-"+runtime.GOARCH)
	return err
}

// CopySource copies what git knows of the repository, and what it would add.
func CopySource(ctx context.Context, repository, to string) (err error) {
	defer check.Return(&err)
	args := []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard"}
	listed := check.Must(output(ctx, repository, nil, "git", args...))
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if os.IsNotExist(err) {
			continue // it is to be removed with the next commit
		}
		check.OK(err)
		at := filepath.Join(to, name)
		check.OK(os.MkdirAll(filepath.Dir(at), 0o755))
		check.OK(os.WriteFile(at, text, 0o644))
	}
	return nil
}
