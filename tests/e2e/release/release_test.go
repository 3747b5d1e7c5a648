package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// parts are those of a release that need no network.
const parts = "programs,manual,sbom,packages,checksums"

// What a program and an image may have, in bytes.
const (
	largestProgram = 60e6
	largestImage   = 80e6
)

// TestRelease makes a release twice, of a copy of the source that has no git, in two folders.
//
//tier:all links programs for all machines, twice
func TestRelease(t *testing.T) {
	lab.Need(t, lab.GoToolchain)
	repository := check.Value(lab.Repository())(t)
	version := check.Value(versionOf(repository))(t)
	first, second := makeRelease(t, repository), makeRelease(t, repository)
	sums := string(check.Value(os.ReadFile(filepath.Join(first, "SHA256SUMS")))(t))
	check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(second, "SHA256SUMS")))(t)), sums, "the sums of the second")
	for _, dir := range []string{first, second} {
		check.Equal(t, sumsOf(t, dir), sums, "what is in %s", dir)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		program := filepath.Join(first, "troupe-linux-"+arch)
		check.AtMost(t, check.Value(os.Stat(program))(t).Size(), largestProgram, "bytes of %s", program)
		about := run(t, first, "go", "version", "-m", program)
		check.Has(t, about, "CGO_ENABLED=0", "build of %s", program)
		deb := fmt.Sprintf("troupe_%s-1_%s.deb", version, arch)
		check.Has(t, sums, "  "+deb+"\n", "the packages")
	}
	check.Has(t, sums, "  troupe-"+version+"-1.x86_64.rpm\n", "the packages")
	host := run(t, first, "go", "env", "GOARCH")
	said := run(t, first, filepath.Join(first, "troupe-linux-"+strings.TrimSpace(host)), "version")
	check.Has(t, said, "troupe "+version+" for Kubernetes v1.", "the version")
}

// TestPackaging runs the tests of the program that makes releases, which has a module of its own.
//
//tier:all compiles the libraries of packages and images
func TestPackaging(t *testing.T) {
	lab.Need(t, lab.GoToolchain)
	repository := check.Value(lab.Repository())(t)
	run(t, filepath.Join(repository, "cmd/troupe/packaging"), "go", "test", ".")
}

// TestOtherSystems: all that the program is made of on macOS builds there, with its tests. These are the tests that run
// here, but for the program itself, which is another there: with the build tag nonode it is that one, and passes. On
// Windows many tests do not build, as they ask Unix for the time of the CPU (tests/linear, supervisor/sim).
//
//tier:all compiles the product for two more systems
func TestOtherSystems(t *testing.T) {
	lab.Need(t, lab.GoToolchain)
	repository := check.Value(lab.Repository())(t)
	t.Setenv("GOOS", "darwin")
	listed := run(t, repository, "go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", "./cmd/troupe")
	packages := strings.Fields(listed)
	check.AtLeast(t, len(packages), 100, "packages of the program")
	run(t, repository, "go", append([]string{"vet"}, packages...)...)
	t.Setenv("GOOS", "windows")
	run(t, repository, "go", "vet", "./cmd/troupe", "./cmd/troupe/commands", "./supervisor/chaos")
	t.Setenv("GOOS", "")
	run(t, repository, "go", "test", "-tags", "nonode", "./cmd/troupe/...")
}

// makeRelease gives the directory of a release, which is made of a copy of the source.
func makeRelease(t *testing.T, repository string) string {
	t.Helper()
	source, out := t.TempDir(), filepath.Join(t.TempDir(), "release")
	check.Fatal(t, lab.CopySource(t.Context(), repository, source))
	run(t, filepath.Join(source, "cmd/troupe/packaging"), "go", "run", ".", "-source", source, "-out", out, "-only", parts)
	return out
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, &stderr)
	}
	return string(out)
}

// sumsOf is what sha256sum prints of the files of a release.
func sumsOf(t *testing.T, dir string) string {
	t.Helper()
	var sums strings.Builder
	check.Fatal(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "SHA256SUMS" {
			return err
		}
		text, err := os.ReadFile(path)
		sum := sha256.Sum256(text)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), strings.TrimPrefix(path, dir+"/"))
		return err
	}))
	return sums.String()
}
