// Package release makes a release, as who packages it does, and installs what comes of it.
package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const changelog = "CHANGELOG.md"

// heading is that of the newest version in CHANGELOG.md.
var heading = regexp.MustCompile(`(?m)^## v(\S+) `)

// Made is a release for this machine alone, or parts of one.
type Made struct {
	// Dir has its files.
	Dir string
	// Version is without a v.
	Version string
}

// Make makes parts of the release of a source tree, separated by commas, into a new directory. The first time takes
// some minutes. Where images are among the parts, apt-get downloads Debian's packages.
func Make(ctx context.Context, source, dir, parts string) (_ Made, err error) {
	defer check.Return(&err)
	version := check.Must(versionOf(source))
	check.OK(lab.Pack(ctx, source, source, dir, parts))
	return Made{Dir: dir, Version: version}, nil
}

// Packages makes those of this version, and those of the next: the same files under a greater number.
func Packages(ctx context.Context, source, dir string) (now, next Made, err error) {
	defer check.Return(&err)
	now = check.Must(Make(ctx, source, filepath.Join(dir, "now"), lab.PackageParts))
	number := check.Must(nextOf(now.Version))
	later := filepath.Join(dir, "source")
	check.OK(os.MkdirAll(later, 0o755))
	for _, name := range []string{changelog, "LICENSE"} {
		text := check.Must(os.ReadFile(filepath.Join(source, name)))
		if name == changelog {
			text = append([]byte("## v"+number+" (2100-01-01)\n\n"), text...)
		}
		check.OK(os.WriteFile(filepath.Join(later, name), text, 0o644))
	}
	next = Made{Dir: filepath.Join(dir, "next"), Version: number}
	check.OK(os.CopyFS(next.Dir, os.DirFS(now.Dir)))
	for _, name := range []string{now.Deb(), now.RPM()} {
		check.OK(os.Remove(filepath.Join(next.Dir, filepath.Base(name))))
	}
	return now, next, lab.Pack(ctx, source, later, next.Dir, "packages")
}

func versionOf(source string) (string, error) {
	text, err := os.ReadFile(filepath.Join(source, changelog))
	if err != nil {
		return "", err
	}
	found := heading.FindSubmatch(text)
	if found == nil {
		return "", errors.New(changelog + " has no version")
	}
	return string(found[1]), nil
}

// patch are the parts of a version: what is before the last number, and that.
var patch = regexp.MustCompile(`^(\d+\.\d+\.)(\d+)`)

func nextOf(version string) (string, error) {
	parts := patch.FindStringSubmatch(version)
	if parts == nil {
		return "", fmt.Errorf("version %s: want three numbers", version)
	}
	n, err := strconv.Atoi(parts[2])
	return parts[1] + strconv.Itoa(n+1), err
}

// Deb is the file of the Debian package.
func (m Made) Deb() string {
	return filepath.Join(m.Dir, fmt.Sprintf("troupe_%s-1_%s.deb", m.Version, runtime.GOARCH))
}

// RPM is the file of the other package.
func (m Made) RPM() string {
	arch := strings.NewReplacer("amd64", "x86_64", "arm64", "aarch64").Replace(runtime.GOARCH)
	return filepath.Join(m.Dir, fmt.Sprintf("troupe-%s-1.%s.rpm", m.Version, arch))
}

// Image is the archive of the image.
func (m Made) Image() string {
	return filepath.Join(m.Dir, fmt.Sprintf("kubelet-%s-linux-%s.oci.tar", m.Version, runtime.GOARCH))
}
