package volume

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestBoundVersionStays: a container was created with a file of a ConfigMap, by subPath, and is started after the
// ConfigMap has changed. The file can still be mounted, as the runtime does it then.
func TestBoundVersionStays(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	settings := v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}
	volume := &v1.Volume{Name: "settings", VolumeSource: v1.VolumeSource{ConfigMap: &settings}}
	var root string
	update := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			root = check.Value(l.mountRequest(context.Background(), port.MountVolume{
				Pod: newPod(), Volume: volume, Content: &volumefiles.Content{Files: []volumefiles.File{
					{Path: "dir/f", Data: []byte(text), Mode: 0o644},
				}},
			}))(t)
		}
	}
	versions := func() (n int) {
		t.Helper()
		entries := check.Value(os.ReadDir(root))(t)
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), "..") {
				n++
			}
		}
		return n
	}
	create := func(sub string) string {
		t.Helper()
		paths := check.Value(l.subPaths(containerplan.SubPath{Volume: "settings", Root: root, SubPath: sub}))(t)
		return paths[0]
	}
	update("1", "2")
	check.Equal(t, versions(), 1, "nobody has an old version: there")
	for sub, file := range map[string]string{"dir/f": "", "dir": "f"} {
		update("2")
		path := create(sub)
		update("3", "4", "5")
		again := filepath.Join(t.TempDir(), "again")
		if file == "" {
			hosttest.Write(t, again, "")
		} else if err := os.Mkdir(again, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(path, again, "", unix.MS_BIND, ""); err != nil {
			t.Fatalf("subPath %s is to be mounted when the container starts: %v", sub, err)
		}
		text, err := os.ReadFile(filepath.Join(again, file))
		if string(text) != "2" || err != nil {
			t.Errorf("subPath %s shows %q, %v", sub, text, err)
		}
		check.Fatal(t, unix.Unmount(again, unix.MNT_DETACH))
		if n := versions(); n != 2 {
			t.Errorf("subPath %s: there are %d versions, want the one that a container has, and the newest", sub, n)
		}
		// The next incarnation has the newest. The one before is not needed any more.
		path = create(sub)
		if text, err := os.ReadFile(filepath.Join(path, file)); string(text) != "5" || err != nil {
			t.Errorf("subPath %s of the next incarnation shows %q, %v", sub, text, err)
		}
		update("5")
		if n := versions(); n != 1 {
			t.Errorf("subPath %s: there are %d versions, want the one that a container has, which is the newest", sub, n)
		}
	}
	// A request to bind a part may have found a version, and not bound it yet.
	end := l.binding.begin("u1")
	update("6", "7")
	check.Count(t, versions(), 3, "a part is being bound: there are %d versions, want all 3")
	end()
	update("7")
	check.Count(t, versions(), 2, "when it was bound, there are %d versions, want that and the newest")
	check.Fatal(t, l.unmount("u1"))
}
