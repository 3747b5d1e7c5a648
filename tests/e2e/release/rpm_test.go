package release

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestRPM has rpm install, upgrade and erase the package, with its scripts, in a root that has a shell, a systemctl that
// writes down what it is asked for, and packages of Kubernetes' names.
//
//tier:all makes packages
func TestRPM(t *testing.T) {
	lab.Need(t, lab.Root, lab.GoToolchain, lab.Busybox, lab.Rpm, lab.Rpmbuild)
	repository := check.Value(lab.Repository())(t)
	now, next := check.Values(Packages(t.Context(), repository, t.TempDir()))(t)
	r := newRPMRoot(t)
	r.fails(t, "kubelet conflicts with troupe", "-i", now.RPM())

	// As docs/install.md says: the kubelet goes first. rpm moves away what the operator has changed.
	r.rpm(t, "-e", "--nodeps", "kubelet")
	r.asked(t, "--no-reload disable --now kubelet.service")
	check.Equal(t, r.text(t, rpmSettings+".rpmsave"), operators, "the settings that the package kubelet has left")
	said := r.rpm(t, "-i", now.RPM())
	r.asked(t, "preset kubelet.service", "daemon-reload", "-q is-enabled kubelet.service")
	check.Equal(t, said, "", "an installation says")
	check.Equal(t, r.rpm(t, "-q", "--whatprovides", "kubelet"), fmt.Sprintf("troupe-%s-1.x86_64\n", now.Version), "the package that provides a kubelet")
	r.rpm(t, "-V", "--nofiles", "kubeadm") // what it needs is there
	r.rpm(t, "-V", "troupe")
	link := check.Value(os.Readlink(r.file("/usr/bin/troupe")))(t)
	check.Equal(t, link, "kubelet", "what /usr/bin/troupe is")
	check.Fatal(t, os.Rename(r.file(rpmSettings+".rpmsave"), r.file(rpmSettings)))

	// An upgrade of a node that is in use.
	r.enable(t)
	said = r.rpm(t, "-U", next.RPM())
	r.asked(t, "daemon-reload", "-q is-enabled kubelet.service", "restart --no-block kubelet.service", "daemon-reload")
	check.Equal(t, said, "", "an upgrade says")
	check.Equal(t, r.text(t, rpmSettings), operators, "the settings after an upgrade")

	// And back.
	r.rpm(t, "-U", "--oldpackage", now.RPM())
	r.asked(t, "daemon-reload", "-q is-enabled kubelet.service", "restart --no-block kubelet.service", "daemon-reload")
	check.Equal(t, r.text(t, rpmSettings), operators, "the settings after a downgrade")

	// Debian's way to keep packages from starting anything.
	r.write(t, "/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)
	r.rpm(t, "-U", next.RPM())
	r.asked(t, "daemon-reload", "-q is-enabled kubelet.service", "daemon-reload")
	check.Fatal(t, os.Remove(r.file("/usr/sbin/policy-rc.d")))

	const state, own, others = "/var/lib/kubelet/config.yaml", "/etc/systemd/logind.conf.d/99-troupe.conf", "/etc/systemd/logind.conf.d/50-own.conf"
	for _, name := range []string{state, own, others, "/etc/kubernetes/manifests/pod.yaml"} {
		r.write(t, name, name, 0o644)
	}
	said = r.rpm(t, "-e", "--nodeps", "troupe")
	r.asked(t, "stop kubelet.service", "--no-reload disable kubelet.service", "kill -s HUP systemd-logind.service", "daemon-reload")
	check.Has(t, said, "Its pods go on running", "an erasure")
	for _, name := range []string{state, others, "/etc/kubernetes/manifests/pod.yaml", rpmSettings + ".rpmsave"} {
		check.Error(t, check.Err(os.Stat(r.file(name))))
	}
	for _, name := range []string{own, "/usr/bin/kubelet", "/usr/bin/troupe", "/usr/lib/systemd/system/kubelet.service", rpmSettings} {
		if _, err := os.Lstat(r.file(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an erasure has left %s: %v", name, err)
		}
	}
	r.fails(t, "is not installed", "-q", "troupe")
}

const (
	rpmSettings = "/etc/sysconfig/kubelet"
	operators   = "KUBELET_EXTRA_ARGS=--max-pods=77\n"
	// cniPlugin is a file of the package that the kubelet's depends on, and nothing else.
	cniPlugin = "/opt/cni/bin/bridge"
	// systemctlCalls are what the scripts have asked systemctl for, a line each. The unit is enabled if unitEnabled is there.
	systemctlCalls, unitEnabled = "/systemctl-calls", "/unit-enabled"
)

// rpmRoot is a directory that rpm takes for the root of a machine.
type rpmRoot struct{ dir string }

// rpmSpecs are packages in the place of a distribution's and of Kubernetes'.
var rpmSpecs = map[string]string{
	"base":           "Provides: /bin/sh, util-linux\n%%description\nfor a test\n%%files\n",
	"kubernetes-cni": "%%description\nfor a test\n%%install\nmkdir -p %%{buildroot}/opt/cni/bin\necho bridge >%%{buildroot}" + cniPlugin + "\n%%files\n" + cniPlugin + "\n",
	"kubelet":        "Requires: kubernetes-cni >= 1.2.0\n%%description\nfor a test\n%%install\nmkdir -p %%{buildroot}/etc/sysconfig %%{buildroot}/usr/bin\necho KUBELET_EXTRA_ARGS= >%%{buildroot}" + rpmSettings + "\necho kubelet >%%{buildroot}/usr/bin/kubelet\n%%preun\n[ $1 != 0 ] || systemctl --no-reload disable --now kubelet.service\n%%files\n%%config(noreplace) " + rpmSettings + "\n/usr/bin/kubelet\n",
	"kubeadm":        "Requires: kubelet >= 1.36.0\n%%description\nfor a test\n%%files\n",
}

// rpmNames are those of the packages, each after what it depends on.
var rpmNames = []string{"base", "kubernetes-cni", "kubelet", "kubeadm"}

// buildRPMs makes them, and gives their directory.
func buildRPMs(t *testing.T) string {
	t.Helper()
	build := t.TempDir()
	for _, name := range rpmNames {
		spec := filepath.Join(build, name+".spec")
		text := "Name: %s\nVersion: 1.36.3\nRelease: 1\nSummary: for a test\nLicense: none\nBuildArch: noarch\n" + rpmSpecs[name]
		check.Fatal(t, os.WriteFile(spec, fmt.Appendf(nil, text, name), 0o644))
		run(t, build, "rpmbuild", "--quiet", "-bb", "--define", "_topdir "+build, spec)
	}
	return filepath.Join(build, "RPMS/noarch")
}

// newRPMRoot is a machine with a kubelet and kubeadm.
func newRPMRoot(t *testing.T) *rpmRoot {
	t.Helper()
	r := newRoot(t)
	built := buildRPMs(t)
	for _, name := range rpmNames {
		r.rpm(t, "-i", filepath.Join(built, name+"-1.36.3-1.noarch.rpm"))
	}
	r.write(t, rpmSettings, operators, 0o644)
	return r
}

// newRoot is a machine with what scripts of packages need, and no package.
func newRoot(t *testing.T) *rpmRoot {
	t.Helper()
	r := &rpmRoot{t.TempDir()}
	busybox := check.Value(lab.LookPath("busybox"))(t)
	r.write(t, "/bin/sh", string(check.Value(os.ReadFile(busybox))(t)), 0o755)
	for _, program := range []string{"rm", "echo"} {
		check.Fatal(t, os.Symlink("sh", r.file("/bin/"+program)))
	}
	r.write(t, "/usr/bin/systemctl", `#!/bin/sh
echo "$*" >>`+systemctlCalls+`
case "$*" in
*is-enabled*) [ -e `+unitEnabled+` ] ;;
*disable*) rm -f `+unitEnabled+` ;;
esac
`, 0o755)
	for _, dir := range []string{"/run/systemd/system", "/dev"} {
		check.Fatal(t, os.MkdirAll(r.file(dir), 0o755))
	}
	const null = 1<<8 | 3 // mem(4), null(4)
	check.Fatal(t, syscall.Mknod(r.file("/dev/null"), syscall.S_IFCHR|0o666, null))
	return r
}

func (r *rpmRoot) file(name string) string { return filepath.Join(r.dir, name) }

func (r *rpmRoot) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	check.Fatal(t, os.MkdirAll(filepath.Dir(r.file(name)), 0o755))
	check.Fatal(t, os.WriteFile(r.file(name), []byte(text), mode))
}

func (r *rpmRoot) text(t *testing.T, name string) string {
	t.Helper()
	return string(check.Value(os.ReadFile(r.file(name)))(t))
}

func (r *rpmRoot) enable(t *testing.T) { r.write(t, unitEnabled, "", 0o644) }

// try runs rpm and gives all it says.
func (r *rpmRoot) try(args ...string) (string, error) {
	// Debian has the database of packages elsewhere by default, and says that rpm is not for its own machine.
	cmd := exec.Command("rpm", append([]string{"--force-debian", "--root", r.dir, "--dbpath", "/var/lib/rpm"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (r *rpmRoot) rpm(t *testing.T, args ...string) string {
	t.Helper()
	said, err := r.try(args...)
	if err != nil {
		t.Fatalf("rpm %v: %v: %s", args, err, said)
	}
	return said
}

func (r *rpmRoot) fails(t *testing.T, words string, args ...string) {
	t.Helper()
	said, err := r.try(args...)
	check.Fails(t, err, "rpm %v", args)
	check.Has(t, said, words, "rpm %v", args)
}

// asked compares what systemctl was asked for since the last time.
func (r *rpmRoot) asked(t *testing.T, want ...string) {
	t.Helper()
	text := r.text(t, systemctlCalls)
	check.Equal(t, strings.TrimSpace(text), strings.Join(want, "\n"), "systemctl was asked for")
	check.Fatal(t, os.Remove(r.file(systemctlCalls)))
}
