package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	registry "github.com/google/go-containerregistry/pkg/v1"
)

// wanted are the packages whose programs the node agent runs: mount and its helpers, makers of file systems, iptables.
// base-files has the texts of common licenses, and says which Debian it is.
var wanted = []string{
	"base-files", "ca-certificates", "e2fsprogs", "iptables", "kmod", "mount", "netbase", "nfs-common", "util-linux",
	"xfsprogs",
}

// unneeded are packages, by the start of their names, that the wanted ones need to be configured, or for programs that
// nobody runs in the image.
var unneeded = []string{
	"adduser", "cdebconf", "debconf", "dpkg", "gpgv", "init-system-helpers", "libdb5", "libgdbm", "libicu", "libperl",
	"libpython3", "libsqlite3", "libxml2", "mawk", "media-types", "openssl", "passwd", "perl", "python3",
	"readline-common", "sensible-utils", "tar_", "ucf",
}

// undocumented are what no program reads. What Debian has on the license of a package stays, and what it refers to.
var undocumented = []string{
	"usr/share/bash-completion/", "usr/share/bug/", "usr/share/doc/", "usr/share/doc-base/", "usr/share/info/",
	"usr/share/lintian/", "usr/share/locale/", "usr/share/man/", "usr/share/perl", "usr/lib/python3",
}

// merged are the directories that Debian has in /usr. Some packages of older releases still name them without it.
var merged = []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin"}

// alternatives are the programs between which update-alternatives would have chosen.
var alternatives = []string{
	"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore",
}

// debian is a layer with Debian's programs for the machine, of the release and the mirror that apt is set up for here,
// and the list of its packages with their versions. Nothing of it is run: so it can be for another architecture.
func debian(ctx context.Context, arch, work string) (layer registry.Layer, list string, err error) {
	archives, err := download(ctx, arch, work)
	if err != nil {
		return nil, "", err
	}
	tree := newTree()
	var names strings.Builder
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".deb")
		fmt.Fprintln(&names, name)
		if err := tree.unpack(ctx, archive); err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		// Here scanners of vulnerabilities look for Debian's packages where there is no dpkg.
		about, err := exec.CommandContext(ctx, "dpkg-deb", "--field", archive).Output()
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		if err := tree.write("var/lib/dpkg/status.d/"+strings.Split(name, "_")[0], about); err != nil {
			return nil, "", err
		}
	}
	if err := tree.finish(); err != nil {
		return nil, "", err
	}
	layer, err = layerOf(tree.text.Bytes())
	return layer, names.String(), err
}

// download has apt find and verify the packages for an architecture as if nothing were installed.
func download(ctx context.Context, arch, work string) (archives []string, err error) {
	state := filepath.Join(work, "apt-"+arch)
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(state, dir), 0o755); err != nil {
			return nil, err
		}
	}
	settings := []string{
		"-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch, "-o", "APT::Sandbox::User=root",
		"-o", "Dir::State::lists=" + filepath.Join(state, "lists"), "-o", "Dir::State::status=/dev/null",
		"-o", "Dir::Cache=" + filepath.Join(state, "cache"), "-qq", "-y", "--no-install-recommends",
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "--download-only"}, wanted...)} {
		c := exec.CommandContext(ctx, "apt-get", append(slices.Clone(settings), args...)...)
		if said, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("apt-get %s: %w: %s", args[0], err, said)
		}
	}
	all, err := filepath.Glob(filepath.Join(state, "cache", "archives", "*.deb"))
	if err != nil {
		return nil, err
	}
	archives = slices.DeleteFunc(all, func(p string) bool { return starts(filepath.Base(p), unneeded) })
	if len(archives) == 0 {
		return nil, errors.New("apt-get downloaded no package")
	}
	return archives, nil
}

func starts(s string, with []string) bool {
	return slices.ContainsFunc(with, func(p string) bool { return strings.HasPrefix(s, p) })
}

// tree is a layer that is being made.
type tree struct {
	text  *bytes.Buffer
	w     *tar.Writer
	there map[string]bool // names, and usr/NAME/ for each directory of it that has something
	certs bytes.Buffer    // of the authorities that Mozilla trusts, one after the other
}

func newTree() *tree {
	t := &tree{text: &bytes.Buffer{}, there: map[string]bool{}}
	t.w = tar.NewWriter(t.text)
	return t
}

func (t *tree) unpack(ctx context.Context, archive string) error {
	c := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", archive)
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	err = t.copy(tar.NewReader(out))
	return errors.Join(err, c.Wait())
}

func (t *tree) copy(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		h.Name = inUsr(h.Name)
		key := strings.TrimSuffix(h.Name, "/")
		if key == "" || slices.Contains(merged, key) || starts(h.Name, undocumented) && !onLicense(h) || t.there[key] {
			continue
		}
		t.there[key] = true
		if parts := strings.SplitN(key, "/", 3); len(parts) == 3 {
			t.there[parts[0]+"/"+parts[1]+"/"] = true
		}
		h.Uname, h.Gname, h.Format = "", "", tar.FormatUnknown
		if h.Typeflag == tar.TypeLink {
			h.Linkname = inUsr(h.Linkname)
		}
		if err := t.w.WriteHeader(h); err != nil {
			return err
		}
		to := io.Writer(t.w)
		if strings.HasPrefix(h.Name, "usr/share/ca-certificates/") {
			to = io.MultiWriter(t.w, &t.certs)
		}
		if _, err := io.Copy(to, r); err != nil {
			return err
		}
	}
}

// onLicense says whether a file says under which license a package is, or is a link to the directory of one that does.
func onLicense(h *tar.Header) bool {
	const docs = "usr/share/doc/"
	dir, name := path.Split(h.Name)
	return strings.HasPrefix(dir, docs) && name == "copyright" || h.Typeflag == tar.TypeSymlink && dir == docs
}

// inUsr is the name of a file where Debian's directories are merged.
func inUsr(name string) string {
	name = strings.TrimPrefix(name, "./")
	if first, _, below := strings.Cut(name, "/"); below && slices.Contains(merged, first) && name != first+"/" {
		return "usr/" + name
	}
	return name
}

// finish adds what the packages' scripts would have made.
func (t *tree) finish() error {
	headers := []*tar.Header{}
	for _, name := range merged {
		if t.there["usr/"+name+"/"] {
			headers = append(headers, &tar.Header{Name: name, Linkname: "usr/" + name})
		}
	}
	// Talos mounts the host's /run at /var/run, and sockets are looked for at both. Debian's link is in a package of whole
	// systems.
	headers = append(headers, &tar.Header{Name: "var/run", Linkname: "/run"})
	for _, name := range alternatives {
		head, tail, _ := strings.Cut(name, "-")
		if tail != "" {
			tail = "-" + tail
		}
		headers = append(headers, &tar.Header{Name: "usr/sbin/" + name, Linkname: head + "-nft" + tail})
	}
	for _, h := range headers {
		h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
		if err := t.w.WriteHeader(h); err != nil {
			return err
		}
	}
	return errors.Join(t.write("etc/ssl/certs/ca-certificates.crt", t.certs.Bytes()), t.w.Close())
}

// write adds a file that no package has.
func (t *tree) write(name string, text []byte) error {
	if err := t.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text)),
	}); err != nil {
		return err
	}
	_, err := t.w.Write(text)
	return err
}
