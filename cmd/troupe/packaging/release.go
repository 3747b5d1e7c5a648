package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

const (
	program = "troupe"
	module  = "github.com/troupe-dev/troupe"
	home    = "https://" + module
	// Nothing is published, and nobody reads mail there: who publishes a release puts names of their own here.
	maintainer = "The troupe authors <maintainers@troupe.invalid>"
	imageName  = "ghcr.io/troupe-dev/kubelet"
	// changelog is where the version and its date are.
	changelog = "CHANGELOG.md"
)

// release is one version, made from one source tree.
type release struct {
	root, out string
	version   string    // without a v: 0.36.0
	date      time.Time // of the version, for every file that has a time
	targets   []target
}

// heading is a version's in CHANGELOG.md.
var heading = regexp.MustCompile(`^## v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?) \((\d{4}-\d{2}-\d{2})\)$`)

func newRelease(root, out string) (release, error) {
	name := filepath.Join(root, changelog)
	file, err := os.Open(name)
	if err != nil {
		return release{}, err
	}
	defer file.Close() //nolint:errcheck // it was read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if m := heading.FindStringSubmatch(lines.Text()); m != nil {
			date, err := time.Parse(time.DateOnly, m[2])
			return release{root: root, out: out, version: m[1], date: date, targets: targets}, err
		}
	}
	return release{}, fmt.Errorf("%s has no heading like: ## v0.36.0 (2026-11-29)", name)
}

// target is a machine that programs are made for. Where the node agent does not run, there are the simulation and
// chaos testing.
type target struct{ system, arch string }

func (t target) String() string { return t.system + "-" + t.arch }

var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
}

// nodes are the machines that the node agent runs on: packages and images are made for them.
func (r release) nodes() (out []target) {
	for _, t := range r.targets {
		if t.system == "linux" {
			out = append(out, t)
		}
	}
	return out
}

// env is what a build for it gets: what is set here for other builds would change the bytes.
func (t target) env() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.system, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOEXPERIMENT=", "GOFIPS140=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
}

// program is where the program for a machine is.
func (r release) program(t target) string {
	name := program + "-" + t.String()
	if t.system == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.out, name)
}

// file is where a file of the release is that has a name with the version.
func (r release) file(name string) string { return filepath.Join(r.out, name) }

// programs are static, and hold neither paths of this machine nor what git says of the source.
func programs(ctx context.Context, r release) error {
	for _, t := range r.targets {
		flags := "-s -w -X " + module + "/supervisor/version.own=" + r.version
		c := exec.CommandContext(ctx,
			"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", r.program(t), "./cmd/troupe")
		c.Dir, c.Env = r.root, t.env()
		c.Stderr = os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("build for %s: %w", t, err)
		}
	}
	return nil
}
