package main

import (
	"context"
	"debug/buildinfo"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
)

//go:embed files
var own embed.FS

// packages takes the place of the package kubelet: the same program name, the same unit, the same file of arguments.
// Old packages of kubeadm depend on kubelet in a version, which this provides.
func packages(_ context.Context, r release) error {
	staged, err := stage()
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged) //nolint:errcheck // a directory for what is in between
	for _, t := range r.nodes() {
		kubernetes, err := kubernetesOf(r.program(t))
		if err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(format, t, kubernetes, staged); err != nil {
				return fmt.Errorf("%s for %s: %w", format, t, err)
			}
		}
	}
	return nil
}

// stage writes the files that are part of this program to a directory, where the packager reads them.
func stage() (string, error) {
	dir, err := os.MkdirTemp("", "packaging-")
	if err != nil {
		return "", err
	}
	entries, err := own.ReadDir("files")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		text, err := own.ReadFile("files/" + e.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), text, 0o644)
		}
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// kubernetesOf is the version of Kubernetes whose API the program was built with, without a v.
func kubernetesOf(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	for _, m := range info.Deps {
		if v, ok := strings.CutPrefix(m.Version, "v0."); ok && m.Path == "k8s.io/api" {
			return "1." + v, nil
		}
	}
	return "", fmt.Errorf("%s was built without k8s.io/api", program)
}

func (r release) pack(format string, t target, kubernetes, staged string) error {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: program, Arch: t.arch, Platform: t.system, Version: r.version, Release: "1",
		Section: "admin", Priority: "optional",
		Maintainer: maintainer, Homepage: home, License: "Apache-2.0", MTime: r.date,
		Description: "Kubernetes node agent on the actor model, in the place of the kubelet\n" +
			"It takes the kubelet's flags, configuration and state, and the pods that\nrun go on running.",
		Overridables: nfpm.Overridables{
			Depends: []string{"mount", "util-linux"},
			// The package kubelet depends on kubernetes-cni, which has the plugins of pods' networks. Without a package that
			// wants it, it goes with the kubelet: at once with dnf, at the next autoremove with apt.
			Recommends: []string{"iptables", "e2fsprogs", "kubernetes-cni"},
			Suggests:   []string{"nfs-common", "xfsprogs"},
			Conflicts:  []string{"kubelet"},
			Replaces:   []string{"kubelet"},
			Provides:   []string{"kubelet (= " + kubernetes + ")"},
			Contents:   r.contents(format, t, staged),
			Umask:      0o022,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(staged, "postinst.sh"), PreRemove: filepath.Join(staged, "prerm.sh"),
				PostRemove: filepath.Join(staged, "postrm.sh"),
			},
			RPM: nfpm.RPM{BuildHost: "troupe", Group: "System Environment/Daemons", Compression: "gzip:9"},
			Deb: nfpm.Deb{Compression: "gzip"},
		},
	})
	if format == "rpm" {
		info.Depends = []string{"util-linux"}
		info.Suggests = []string{"nfs-utils", "xfsprogs"}
		info.Provides = []string{"kubelet = " + kubernetes}
		info.Replaces = nil // an rpm that obsoletes another takes its place at each upgrade of the system, unasked
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	file, err := os.Create(r.file(packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // closed below, if it was written
	if err := packager.Package(info, file); err != nil {
		return err
	}
	return file.Close()
}

// contents are the files of a package.
func (r release) contents(format string, t target, staged string) files.Contents {
	zsh := "vendor-completions"
	if format == "rpm" {
		zsh = "site-functions"
	}
	file := func(from, to string, mode os.FileMode) *files.Content {
		return &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.date}}
	}
	unit := func(name string) string { return filepath.Join(staged, name) }
	name, link := program, "kubelet"
	if format == "rpm" {
		// SELinux labels a file of this name kubelet_exec_t, and no link: systemd starts it in the kubelet's domain.
		name, link = link, name
	}
	out := files.Contents{
		file(r.program(t), "/usr/bin/"+name, 0o755),
		{
			Source: name, Destination: "/usr/bin/" + link, Type: files.TypeSymlink,
			FileInfo: &files.ContentFileInfo{MTime: r.date},
		},
		file(unit("kubelet.service"), "/usr/lib/systemd/system/kubelet.service", 0o644),
		{
			Destination: "/etc/kubernetes/manifests", Type: files.TypeDir,
			FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.date},
		},
		file(r.licenses(t), "/usr/share/doc/troupe/copyright", 0o644),
		file(filepath.Join(r.root, changelog), "/usr/share/doc/troupe/CHANGELOG.md", 0o644),
		file(r.program(t)+".cdx.json", "/usr/share/doc/troupe/troupe.cdx.json", 0o644),
		file(filepath.Join(r.out, "completion", "troupe.bash"), "/usr/share/bash-completion/completions/troupe", 0o644),
		file(filepath.Join(r.out, "completion", "_troupe"), "/usr/share/zsh/"+zsh+"/_troupe", 0o644),
		file(filepath.Join(r.out, "completion", "troupe.fish"), "/usr/share/fish/vendor_completions.d/troupe.fish", 0o644),
		file(filepath.Join(r.out, "man")+"/*.gz", "/usr/share/man/man"+section, 0o644),
		{
			Source: program + "-node." + section + ".gz", Type: files.TypeSymlink,
			Destination: "/usr/share/man/man" + section + "/kubelet." + section + ".gz",
			FileInfo:    &files.ContentFileInfo{MTime: r.date},
		},
	}
	if format == "rpm" {
		// Debian would ask what to do about a file that the package kubelet has left. An RPM that does not own it loses it.
		settings := file(unit("extra-args"), "/etc/sysconfig/kubelet", 0o644)
		settings.Type = files.TypeConfigNoReplace
		out = append(out, settings)
	}
	return out
}
