package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goreleaser/nfpm/v2/files"
)

// TestVersion: the version and its date are those of the first heading that has both.
func TestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"# Changelog\n\n## v0.37.1 (2027-01-31)\n\n## v0.37.0 (2026-12-01)\n": "0.37.1 2027-01-31",
		"## Next\n## v1.2.3-rc.1 (2027-01-31)\n":                              "1.2.3-rc.1 2027-01-31",
		"## v1.2.3\n":                                                         "no heading",
		"## v1.2.3 (2027-13-31)\n":                                            "out of range",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, changelog), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := newRelease(dir, dir)
		got := r.version + " " + r.date.Format("2006-01-02")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	for wanted, want := range map[string]string{
		"": "linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64", "linux-arm64": "linux-arm64",
		"darwin-arm64,linux-amd64": "linux-amd64 darwin-arm64", "linux-arm64,plan9-arm": "there is no plan9-arm: want some of linux-amd64,",
	} {
		chosen, err := choose(targets, wanted)
		got := strings.Join(named(chosen), " ")
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: %s, want %s", wanted, got, want)
		}
	}
}

// TestProgramOfPackages: in an RPM the program is a file named kubelet, which SELinux knows.
func TestProgramOfPackages(t *testing.T) {
	for format, want := range map[string]string{"deb": "troupe, kubelet -> troupe", "rpm": "kubelet, troupe -> kubelet"} {
		var got []string
		for _, c := range (release{}).contents(format, target{}, "") {
			if name, is := strings.CutPrefix(c.Destination, "/usr/bin/"); is {
				if c.Type == files.TypeSymlink {
					name += " -> " + c.Source
				}
				got = append(got, name)
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %s, want %s", format, text, want)
		}
	}
}

// TestTree: what packages of before and after Debian's merge of directories have comes into one tree, once.
func TestTree(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "./"}, {Typeflag: tar.TypeDir, Name: "./bin/"}, {Typeflag: tar.TypeReg, Name: "./bin/mount"},
		{Typeflag: tar.TypeLink, Name: "./bin/again", Linkname: "./bin/mount"}, {Typeflag: tar.TypeReg, Name: "./usr/bin/mount"},
		{Typeflag: tar.TypeSymlink, Name: "./lib64/ld.so", Linkname: "/lib/x/ld.so"}, {Typeflag: tar.TypeReg, Name: "./usr/share/doc/mount/copyright"},
		{Typeflag: tar.TypeReg, Name: "./usr/share/doc/mount/README"},
		{Typeflag: tar.TypeSymlink, Name: "./usr/share/doc/libmount", Linkname: "mount"},
		{Typeflag: tar.TypeReg, Name: "./usr/share/ca-certificates/mozilla/a.crt", Size: 3},
	} {
		h.Mode = 0o755
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("abc")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	made := newTree()
	if err := errors.Join(made.copy(tar.NewReader(&archive)), made.finish()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(made.text); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := got[h.Name]; twice {
			t.Errorf("%s is there twice", h.Name)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h.Linkname + string(text)
	}
	for name, want := range map[string]string{
		"usr/bin/mount": "", "usr/bin/again": "usr/bin/mount", "bin": "usr/bin", "usr/lib64/ld.so": "/lib/x/ld.so", "lib64": "usr/lib64",
		"usr/sbin/ip6tables-save": "ip6tables-nft-save", "usr/sbin/iptables": "iptables-nft", "etc/ssl/certs/ca-certificates.crt": "abc",
		"var/run": "/run", "usr/share/doc/mount/copyright": "", "usr/share/doc/libmount": "mount",
	} {
		if link, is := got[name]; !is || link != want {
			t.Errorf("%s: %q, %v, want %q", name, link, is, want)
		}
	}
	for _, name := range []string{"sbin", "lib", "bin/", "usr/share/doc/mount/README"} {
		if _, is := got[name]; is {
			t.Errorf("%s is there", name)
		}
	}
}

// TestLicenses: each text is there once, with all that have it, also where only a part of a module has it. What has none
// is an error.
func TestLicenses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/LICENSE": "free\n", "a/part/NOTICE": "of a part", "a/other/COPYING": "not of what is used", "a/license.go": "package a",
		"b/sub/b.go": "", "b/License.txt": "free", "go/LICENSE": "of Go", "go/src/fmt/print.go": "", "none/none.go": "",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	listed := strings.ReplaceAll("a v1\t$/a\t$/a\na v1\t$/a\t$/a/part\nb v2\t$/b\t$/b/sub\nGo\t$/go\t$/go/src/fmt\n", "$", dir)
	text, err := licensesOf(listed)
	if err != nil {
		t.Fatal(err)
	}
	for part, times := range map[string]int{
		"a v1 LICENSE\nb v2 License.txt\n\nfree\n": 1, "a v1 part/NOTICE\n\nof a part\n": 1, "Go LICENSE\n\nof Go\n": 1, "not of": 0, dir: 0,
	} {
		if n := strings.Count(text, part); n != times {
			t.Errorf("%q is there %d times, want %d: %s", part, n, times, text)
		}
	}
	_, err = licensesOf(listed + strings.ReplaceAll("none v3\t$/none\t$/none\n", "$", dir))
	if err == nil || !strings.Contains(err.Error(), "none v3 has no license") {
		t.Errorf("without a license: %v", err)
	}
}
