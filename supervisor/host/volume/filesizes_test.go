package volume

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestUseOfFiles: volumes with files of the API are among those that are measured, once for each of their contents.
func TestUseOfFiles(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	secret := secretVolume()
	config := &v1.Volume{Name: "c", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}
	p := newPod(with(secret, config))
	write := func(v *v1.Volume, memory bool, bytes int) string {
		t.Helper()
		path := check.Value(l.mountRequest(ctx(t), port.MountVolume{Pod: p, Volume: v, Content: &volumefiles.Content{
			Memory: memory, Files: []volumefiles.File{{Path: "key", Data: []byte(strings.Repeat("x", bytes)), Mode: 0o644}},
		}}))(t)
		return path
	}
	write(secret, true, 50_000)
	dir := write(config, false, 50_000)
	use := func(what string, least, most uint64) {
		t.Helper()
		found, err := l.VolumeUse(ctx(t), []*v1.Pod{p}, false)
		if err != nil || names(found[0]) != "s c" {
			t.Fatalf("%s: %v %+v", what, err, found)
		}
		for i, plugin := range []string{"kubernetes.io/secret", "kubernetes.io/configmap"} {
			v := found[0][i]
			if v.Plugin != plugin || v.Local != (v.Name == "c") || *v.Disk.Used < least || *v.Disk.Used > most ||
				*v.Disk.Capacity < *v.Disk.Used || *v.Disk.InodesUsed < 4 {
				t.Errorf("%s: %s of %s, local %v: %d of %d bytes, %d files", what, v.Name, v.Plugin, v.Local, *v.Disk.Used, *v.Disk.Capacity, *v.Disk.InodesUsed)
			}
		}
	}
	use("at first", 50_000, 90_000)
	// Nobody but the agent writes there. This shows that it does not look again.
	hosttest.Write(t, filepath.Join(dir, "other"), strings.Repeat("x", 300_000))
	use("again", 50_000, 90_000)
	write(secret, true, 150_000)
	write(config, false, 150_000)
	use("with new content", 150_000, 500_000)
	if found, err := l.VolumeUse(ctx(t), []*v1.Pod{p}, true); err != nil || len(found[0]) != 0 {
		t.Errorf("of claims: %v %+v", err, found)
	}
	check.Fatal(t, l.unmount("u1"))
	if _, is := l.last.Size("u1", "c"); is {
		t.Error("the size of a volume that is no more is kept")
	}
}
