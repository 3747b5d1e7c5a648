package vm

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/release"
)

// The packages in the guest. Those of troupe are what a release has. Those of Kubernetes stand in for its own: kubeadm
// is the real program with its drop-in, the kubelet one that sleeps.
const (
	TroupeDeb   = "/opt/packages/troupe.deb"
	NextDeb     = "/opt/packages/troupe-next.deb" // of the version after
	KubeletDeb  = "/opt/packages/kubelet.deb"
	KubeadmDeb  = "/opt/packages/kubeadm.deb"
	KubeadmPath = "/usr/bin/kubeadm"
	// AuthorityKey is that of the authority of the apiserver outside.
	AuthorityKey = "/opt/kube/ca.key"
	// KubeletSettings are the arguments that an operator gives, a file of the package kubelet.
	KubeletSettings = "/etc/default/kubelet"
)

// Programs of the machine that runs the tests: what installs packages, and what their scripts run.
var (
	packageTools = map[string]string{
		"/usr/bin/apt-get": "apt-get", "/usr/lib/apt/methods/file": "", "/usr/lib/apt/methods/copy": "",
		"/usr/lib/apt/methods/store": "", "/usr/bin/dpkg": "dpkg", "/usr/bin/dpkg-deb": "dpkg-deb",
		"/usr/bin/dpkg-query": "dpkg-query", "/usr/bin/dpkg-split": "dpkg-split", "/usr/bin/tar": "tar", "/bin/rm": "rm",
		"/bin/sh": "dash", "/bin/sleep": "sleep", "/usr/bin/diff": "diff", "/sbin/ldconfig": "ldconfig",
		"/sbin/start-stop-daemon": "start-stop-daemon", "/usr/bin/perl": "perl",
	}
	// dpkgTables say which architectures there are.
	dpkgTables = []string{"/usr/share/dpkg/cputable", "/usr/share/dpkg/ostable", "/usr/share/dpkg/tupletable"}
	// systemdHelper is what the scripts of Debian's packages enable units with. It is in Perl.
	systemdHelper = "/usr/bin/deb-systemd-helper"
	perlModules   = "/usr/lib/x86_64-linux-gnu/perl-base"
)

// hasApt is what a test of packages needs besides.
var hasApt = lab.NewRequirement("apt, dpkg and deb-systemd-helper", func() error {
	for name, program := range packageTools {
		if program == "" {
			continue
		}
		if _, err := lab.LookPath(program); err != nil {
			return fmt.Errorf("%w (for %s)", err, name)
		}
	}
	for _, name := range []string{systemdHelper, perlModules} {
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	return nil
})

// addPackages makes the packages and adds them, with what installs them. Dir is for what is in between.
func (a *archive) addPackages(ctx context.Context, plane *lab.ControlPlane, repository, dir string, log io.Writer) (err error) {
	defer check.Return(&err)
	for name, program := range packageTools {
		file := name
		if program != "" {
			file = check.Must(lab.LookPath(program))
		}
		check.OK(a.addProgram(name, file))
	}
	for _, file := range dpkgTables {
		a.file(file, file, 0o644)
	}
	a.file(systemdHelper, systemdHelper, 0o755)
	check.OK(a.addTree(perlModules))
	a.content("/var/lib/dpkg/status", []byte(installed("mount", "util-linux")), 0o644)
	for _, dir := range []string{
		"/var/lib/dpkg/info", "/var/lib/dpkg/updates", "/var/lib/apt/lists/partial", "/var/cache/apt/archives/partial",
		"/var/log/apt", "/etc/apt/apt.conf.d", "/etc/apt/preferences.d",
	} {
		a.directory(dir)
	}
	a.content("/etc/apt/apt.conf", []byte(aptSettings), 0o644)

	kubeadm := check.Must(lab.BuildKubernetes(ctx, repository, "kubeadm", log))
	a.file(KubeletDeb, check.Must(makeDeb(ctx, dir, kubeletPackage)), 0o644)
	a.file(KubeadmDeb, check.Must(makeDeb(ctx, dir, kubeadmPackage(check.Must(os.ReadFile(kubeadm))))), 0o644)
	now, next := check.Must2(release.Packages(ctx, repository, filepath.Join(dir, "release")))
	a.file(TroupeDeb, now.Deb(), 0o644)
	a.file(NextDeb, next.Deb(), 0o644)
	a.file(AuthorityKey, filepath.Join(filepath.Dir(plane.CAFile()), "ca.key"), 0o600)
	return nil
}

// addTree adds a directory of the host with all below it, and the libraries of its shared objects.
func (a *archive) addTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		a.file(path, path, 0o644)
		if strings.HasSuffix(path, ".so") {
			return a.addLibraries(path)
		}
		return nil
	})
}

// installed is what dpkg keeps of packages whose files are there.
func installed(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "Package: %s\nStatus: install ok installed\nMaintainer: none\nArchitecture: amd64\nVersion: 2.38\n"+
			"Description: of the machine that runs the tests\n\n", name)
	}
	return text.String()
}

// aptSettings: there is no user for what apt downloads, no terminal, and nothing to download.
const aptSettings = `APT::Sandbox::User "root";
APT::Install-Recommends "false";
Dpkg::Use-Pty "false";
`

// debian is a package: its control file, and its files by path.
type debian struct {
	name, control string
	files         map[string]debianFile
}

type debianFile struct {
	mode fs.FileMode
	data []byte
}

func script(text string) debianFile   { return debianFile{0o755, []byte("#!/bin/sh\nset -e\n" + text)} }
func textFile(text string) debianFile { return debianFile{0o644, []byte(text)} }

// kubeletPackage has what a package of the kubelet has: a program, a unit, a file of arguments, and the scripts that
// Debian's helpers write for a unit. They mask it when the package is removed.
var kubeletPackage = debian{"kubelet", "Version: 1.36.3-1.1\n", map[string]debianFile{
	"/usr/bin/kubelet": script("exec sleep infinity\n"),
	"/lib/systemd/system/kubelet.service": textFile(
		"[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"),
	KubeletSettings:     textFile("KUBELET_EXTRA_ARGS=\n"),
	"/DEBIAN/conffiles": textFile(KubeletSettings + "\n"),
	"/DEBIAN/postinst": script(`deb-systemd-helper unmask kubelet.service >/dev/null
if deb-systemd-helper --quiet was-enabled kubelet.service; then
	deb-systemd-helper enable kubelet.service >/dev/null
else
	deb-systemd-helper update-state kubelet.service >/dev/null
fi
systemctl daemon-reload
systemctl restart kubelet.service
`),
	"/DEBIAN/prerm": script("if [ \"$1\" = remove ]; then systemctl stop kubelet.service; fi\n"),
	"/DEBIAN/postrm": script(`systemctl daemon-reload
if [ "$1" = remove ]; then deb-systemd-helper mask kubelet.service >/dev/null; fi
if [ "$1" = purge ]; then
	deb-systemd-helper purge kubelet.service >/dev/null
	deb-systemd-helper unmask kubelet.service >/dev/null
fi
`),
}}

// kubeadmPackage has the drop-in by which kubeadm tells the kubelet its arguments.
func kubeadmPackage(program []byte) debian {
	return debian{"kubeadm", "Version: 1.36.3-1.1\nDepends: kubelet (>= 1.36.0)\n", map[string]debianFile{
		KubeadmPath: {0o755, program},
		"/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": textFile(`[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-` + KubeletSettings + `
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`),
	}}
}

// makeDeb builds a package below dir, and returns its file.
func makeDeb(ctx context.Context, dir string, d debian) (file string, err error) {
	defer check.Return(&err)
	root := filepath.Join(dir, "package-"+d.name)
	file = root + ".deb"
	control := "Package: " + d.name + "\nArchitecture: amd64\nMaintainer: none\nDescription: for a test\n" + d.control
	d.files["/DEBIAN/control"] = textFile(control)
	for name, f := range d.files {
		to := filepath.Join(root, name)
		check.OK(os.MkdirAll(filepath.Dir(to), 0o755))
		check.OK(os.WriteFile(to, f.data, f.mode))
	}
	out, err := exec.CommandContext(ctx, "dpkg-deb", "--root-owner-group", "-Znone", "--build", root, file).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make the package %s: %w: %s", d.name, err, out)
	}
	return file, nil
}
