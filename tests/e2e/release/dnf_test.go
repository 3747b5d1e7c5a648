package release

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestDNF has dnf do what docs/install.md says, in the root of TestRPM, with a repository of packages of Kubernetes' names
// that is set up as Kubernetes' documentation says: excluded, so that no upgrade of the system takes the kubelet along.
//
//tier:all makes packages
func TestDNF(t *testing.T) {
	lab.Need(t, lab.Root, lab.GoToolchain, lab.Busybox, lab.Rpm, lab.Rpmbuild, lab.Dnf, lab.Createrepo)
	repository := check.Value(lab.Repository())(t)
	now, next := check.Values(Packages(t.Context(), repository, t.TempDir()))(t)
	d := newDNFRoot(t)
	d.dnf(t, "install", "kubelet", "kubeadm", "--setopt=disable_excludes=kubernetes")
	d.write(t, rpmSettings, operators, 0o644)
	d.enable(t)

	d.dnf(t, "swap", "kubelet", now.RPM())
	d.has(t, now, operators)
	d.asked(t, "preset kubelet.service", "daemon-reload", "-q is-enabled kubelet.service", "restart --no-block kubelet.service",
		"--no-reload disable --now kubelet.service") // by the script of the package kubelet
	d.enable(t) // as the page says then
	d.dnf(t, "autoremove")
	d.dnf(t, "upgrade") // of the system
	d.has(t, now, operators)

	d.dnf(t, "install", next.RPM())
	d.has(t, next, operators)
	d.dnf(t, "downgrade", now.RPM())
	d.has(t, now, operators)
	check.Fatal(t, os.Remove(d.file(systemctlCalls)))

	said := d.dnf(t, "swap", "troupe", "kubelet", "--setopt=disable_excludes=kubernetes")
	check.Has(t, said, "Its pods go on running", "a change to the kubelet")
	check.Equal(t, d.text(t, "/usr/bin/kubelet"), "kubelet\n", "the program")
	check.Equal(t, d.text(t, rpmSettings), operators, "the settings")
	d.text(t, cniPlugin)
	d.fails(t, "is not installed", "-q", "troupe")

	d.dnf(t, "swap", "kubelet", now.RPM())
	d.has(t, now, operators)
	said = d.dnf(t, "remove", "--noautoremove", "troupe")
	check.Has(t, said, "Its pods go on running", "a removal")
	check.Equal(t, d.text(t, rpmSettings+".rpmsave"), operators, "the settings")
	d.text(t, cniPlugin)
	for _, name := range []string{"/usr/bin/kubelet", "/usr/bin/troupe", rpmSettings} {
		if _, err := os.Lstat(d.file(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a removal has left %s: %v", name, err)
		}
	}
}

// dnfRoot is a root that dnf works on.
type dnfRoot struct{ *rpmRoot }

// newDNFRoot has no package yet but what a distribution has.
func newDNFRoot(t *testing.T) dnfRoot {
	t.Helper()
	d := dnfRoot{newRoot(t)}
	built := buildRPMs(t)
	run(t, built, "createrepo_c", "--quiet", built)
	d.write(t, "/etc/dnf/dnf.conf", "[main]\nclean_requirements_on_remove=True\ninstall_weak_deps=True\ngpgcheck=0\n", 0o644)
	d.write(t, "/etc/yum.repos.d/kubernetes.repo", "[kubernetes]\nname=Kubernetes\nbaseurl=file://"+built+
		"\nenabled=1\nexclude=kubelet kubeadm kubernetes-cni\n", 0o644)
	// Debian's rpm has the database below the home directory.
	d.write(t, "/home/.rpmmacros", "%_dbpath /var/lib/rpm\n", 0o644)
	d.dnf(t, "install", "base")
	return d
}

// dnf runs it without questions, and gives all it says.
func (d dnfRoot) dnf(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "dnf", append([]string{
		"--installroot", d.dir, "--config", d.file("/etc/dnf/dnf.conf"), "--setopt=reposdir=" + d.file("/etc/yum.repos.d"),
		"--releasever=1", "--noplugins", "--assumeyes",
	}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+d.file("/home"), "LC_ALL=C.UTF-8")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	t.Logf("$ dnf %v\n%s", args, &out)
	if err != nil {
		t.Fatalf("dnf %v: %v", args, err)
	}
	return out.String()
}

// has fails the test if the package is not that of a release, if the operator's settings are others, or if what came with
// the kubelet is gone.
func (d dnfRoot) has(t *testing.T, m Made, settings string) {
	t.Helper()
	installed := d.rpm(t, "-q", "--qf", "%{name}-%{version}-%{release}.%{arch}.rpm", "--whatprovides", "kubelet")
	check.Equal(t, installed, filepath.Base(m.RPM()), "the package that provides a kubelet")
	check.Equal(t, d.text(t, rpmSettings), settings, "the settings")
	d.text(t, cniPlugin)
	d.rpm(t, "-V", "--nofiles", "troupe", "kubeadm")
}
