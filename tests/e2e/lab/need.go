package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// Requirement is something of the machine that a test cannot do without.
type Requirement struct {
	name  string
	check func() error
}

// NewRequirement is one of a package's own. Check says what is missing, and what to do.
func NewRequirement(name string, check func() error) Requirement { return Requirement{name, check} }

func (r Requirement) String() string { return r.name }

// Missing is nil if the machine has it, and else says what it lacks.
func (r Requirement) Missing() error { return r.check() }

// What tests may need.
var (
	Root          = Requirement{"root", checkRoot}
	CNIPlugins    = Requirement{"CNI plugins", func() error { _, err := CNIBinDir(); return err }}
	Runc          = program("runc")
	Iptables      = program("iptables")
	Iproute       = program("ip")
	OldContainerd = program("containerd")
	IPv6          = Requirement{"IPv6 of the kernel", func() error { _, err := os.Stat("/proc/sys/net/ipv6"); return err }}
	Busybox       = program("busybox")
	Ctr           = program("ctr") // Debian package: containerd
	Rpm           = program("rpm")
	Rpmbuild      = program("rpmbuild") // Debian package: rpm
	Dnf           = program("dnf")
	Createrepo    = program("createrepo_c") // Debian package: createrepo-c
	Unshare       = program("unshare")      // Debian package: util-linux
	Chromium      = program("chromium")
	GoToolchain   = program("go")
	Gcc           = program("gcc")       // for an agent with the race detector
	MountNFS      = program("mount.nfs") // Debian package: nfs-common
	Qemu          = NewRequirement("qemu-system-x86_64", func() error {
		_, err := LookPath("qemu-system-x86_64")
		if err != nil {
			err = fmt.Errorf("%w (Debian package: qemu-system-x86)", err)
		}
		return err
	})
	Promtool = NewRequirement("promtool", func() error { _, err := PromtoolPath(); return err })
)

// PromtoolPath is the machine's own promtool, or else the one that `go tool task promtool` has unpacked.
func PromtoolPath() (string, error) {
	if path, err := LookPath("promtool"); err == nil {
		return path, nil
	}
	repository, err := Repository()
	if err != nil {
		return "", err
	}
	path := filepath.Join(repository, ".run/promtool/usr/bin/promtool")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("promtool: %w: go tool task promtool unpacks it", exec.ErrNotFound)
	}
	return path, nil
}

func program(name string) Requirement {
	return Requirement{name, func() error { _, err := LookPath(name); return err }}
}

// LookPath finds a program also where root's PATH, after a plain su, does not look.
func LookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err != nil {
			path, err = exec.LookPath(filepath.Join(dir, name))
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	return path, nil
}

func checkRoot() error {
	if os.Geteuid() != 0 {
		return os.ErrPermission
	}
	return nil
}

// Needs is what a lab of the release needs.
func (r Release) Needs() []Requirement {
	needs := []Requirement{Root, CNIPlugins, Runc, Iptables, Iproute, GoToolchain}
	if r == Containerd1 {
		needs = append(needs, OldContainerd)
	}
	return needs
}

// Need skips the test if the machine lacks something, naming it. With CI=true in the environment
// the test fails instead: there, nothing is skipped.
func Need(t testing.TB, requirements ...Requirement) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, r := range requirements {
		err := r.check()
		if err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("needs %s, and in CI nothing is skipped: %v", r, err)
		}
		t.Skipf("needs %s: %v", r, err)
	}
}

// ForTest starts a lab for one test and cleans it up after it; what then leaks fails the test. It
// skips the test, by [Need], where no lab can run.
func ForTest(t testing.TB, release Release) *Lab {
	t.Helper()
	Need(t, release.Needs()...)
	ctx, cancel := context.WithTimeout(context.Background(), BuildTime)
	defer cancel()
	l := check.Value(New(ctx, Config{Dir: t.TempDir(), Release: release, NodeNetwork: true, Log: t.Output()}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		err := l.Cleanup(ctx)
		if err != nil {
			t.Errorf("clean up the lab: %v", err)
		}
		if t.Failed() {
			t.Logf("containerd's last words:\n%s", l.LogTail(4000))
		}
	})
	check.Fatal(t, l.Start(ctx))
	return l
}

// LogTail is the end of containerd's log, at most n bytes.
func (l *Lab) LogTail(n int) string {
	return tail(l.LogPath(), n)
}
