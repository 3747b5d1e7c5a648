package mounts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestLocalMount(t *testing.T) {
	all := []Mount{
		{Point: "/", Type: "ext4"}, {Point: "/data", Type: "xfs"}, {Point: "/data/nfs", Type: "nfs4"},
		{Point: "/data/nfs/cache", Type: "tmpfs"}, {Point: "/twice", Type: "fuse"}, {Point: "/twice", Type: "tmpfs"},
	}
	for path, want := range map[string]string{
		"/": "/", "/etc/x": "/", "/data": "/data", "/data/a/b": "/data", "/database": "/",
		"/data/nfs": "", "/data/nfs/a": "", "/data/nfs/cache/a": "", "/twice/a": "", "/data/nfs2": "/data",
	} {
		if got, ok := localMount(all, path); got != want || ok != (want != "") {
			t.Errorf("localMount(%s) = %q, %v; want %q", path, got, ok, want)
		}
	}
	if got, ok := localMount(nil, "/etc"); ok {
		t.Errorf("without mounts: %q", got)
	}
}

func TestStatLocal(t *testing.T) {
	all := check.Value(Now())(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	check.Fatal(t, os.WriteFile(file, nil, 0o600))
	link := func(name, to string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		check.Fatal(t, os.Symlink(to, name))
		return name
	}
	if info, ok := StatLocal(all, file); !ok || !info.Mode().IsRegular() {
		t.Fatalf("a file: %v, %v; is the directory for temporary files not on a local file system?", info, ok)
	}
	if info, ok := StatLocal(all, link("link", "file")); !ok || !info.Mode().IsRegular() {
		t.Errorf("a link to it: %v, %v", info, ok)
	}
	for what, path := range map[string]string{
		"nothing": filepath.Join(dir, "none"), "a link to nothing": link("dangling", "none"),
		"another file system": "/proc/version", "a link to another file system": link("away", "/proc/version"),
	} {
		if info, ok := StatLocal(all, path); ok {
			t.Errorf("%s: %v; want none of it", what, info)
		}
	}
	for path, want := range map[string]bool{
		file: true, "link": true, "none": true, "dangling": true, "file/x": true, "away": false, "/proc/version": false,
	} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		check.Equal(t, IsLocal(all, path), want, "%s is local", path)
	}
	with := append(slices.Clone(all), Mount{Point: filepath.Join(dir, "below", "nfs"), Type: "nfs4"})
	check.Equal(t, IsLocal(with, dir), false, "with a server's file system below it, it is local")
}
