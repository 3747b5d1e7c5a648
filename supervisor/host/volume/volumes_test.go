package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestPreparePodMakesTheKubeletsDirectories(t *testing.T) {
	l := newLab(t)
	for range 2 { // idempotent
		check.Fatal(t, l.prepare(newPod()))
	}
	for name, mode := range map[string]os.FileMode{
		"kubelet":                         0o750,
		"kubelet/pods":                    0o750,
		"kubelet/pods/u1":                 0o750,
		"kubelet/pods/u1/volumes":         0o750,
		"kubelet/pods/u1/plugins":         0o750,
		"kubelet/pods/u1/containers/app":  0o750,
		"kubelet/pods/u1/containers/init": 0o750,
		"logs/default_web_u1":             0o755,
		"logs/default_web_u1/app":         0o755,
		"logs/default_web_u1/init":        0o755,
	} {
		hosttest.WantMode(t, filepath.Join(l.root, name), mode|os.ModeDir)
	}
}

func TestNamesThatLeadElsewhere(t *testing.T) {
	l := newLab(t)
	for _, change := range []func(*v1.Pod){
		func(p *v1.Pod) { p.UID = "" },
		func(p *v1.Pod) { p.UID = ".." },
		func(p *v1.Pod) { p.UID = "../../etc" },
		func(p *v1.Pod) { p.Name = "a/b" },
		func(p *v1.Pod) { p.Namespace = "" },
		func(p *v1.Pod) { p.Spec.Containers[0].Name = "../x" },
	} {
		hosttest.WantError(t, l.prepare(newPod(change)), port.InvalidConfig, "cannot be the name of a directory")
	}
	hosttest.WantError(t, l.unmount("../x"), port.InvalidConfig)
	hosttest.WantError(t, l.remove(port.PodDirs{UID: "."}), port.InvalidConfig)
	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u", Namespace: "..", Name: "/"}), port.InvalidConfig)
	if _, err := l.mount(ctx(t), newPod(), emptyDir("..", v1.EmptyDirVolumeSource{})); err == nil {
		t.Error("a volume named .. is made")
	}
	entries, err := os.ReadDir(filepath.Join(l.root, "kubelet/pods"))
	if err != nil || len(entries) != 0 {
		t.Errorf("something was made: %v %v", entries, err)
	}
}

// TestLogDirectoryIsReplaced: people remove the directory of all logs, or have another file system there. Pods that start
// then have their logs in what is there, and what is removed with a pod is removed there.
func TestLogDirectoryIsReplaced(t *testing.T) {
	l := newLab(t)
	logs := filepath.Join(l.root, "logs")
	for _, replace := range []func() error{
		func() error { return nil },
		func() error { return os.RemoveAll(logs) },
		func() error { return errors.Join(os.Rename(logs, logs+".old"), os.Mkdir(logs, 0o755)) },
	} {
		check.Fatal(t, replace())
		check.Fatal(t, l.prepare(newPod()))
		hosttest.WantMode(t, filepath.Join(logs, "default_web_u1", "app"), os.ModeDir|0o755)
	}
	gone := port.PodDirs{UID: "u1", Namespace: "default", Name: "web"}
	check.Fatal(t, l.remove(gone))
	check.None(t, check.Value(os.ReadDir(logs))(t), "directories of logs left")
}

// A link that a pod left in place of its own directory leads nowhere.
func TestLinksOutOfTheRootAreNotFollowed(t *testing.T) {
	l := newLab(t)
	outside := t.TempDir()
	check.Fatal(t, os.Symlink(outside, filepath.Join(l.root, "kubelet/pods/u1")))
	check.Fails(t, l.prepare(newPod()), "directories were made through the link")
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 0 {
		t.Errorf("something was made outside: %v %v", entries, err)
	}
}

func TestPodDirs(t *testing.T) {
	l := newLab(t)
	for _, uid := range []types.UID{"c", "a", "b"} {
		check.Fatal(t, l.prepare(newPod(func(p *v1.Pod) { p.UID = uid })))
	}
	hosttest.Write(t, filepath.Join(l.root, "kubelet/pods/file"), "")
	type result struct {
		uids []types.UID
		err  error
	}
	c := make(chan result, 1)
	l.PodDirs(ctx(t), func(uids []types.UID, err error) { c <- result{uids, err} })
	if r := <-c; r.err != nil || !slices.Equal(r.uids, []types.UID{"a", "b", "c"}) {
		t.Errorf("got %v %v", r.uids, r.err)
	}
}

func TestRemovePod(t *testing.T) {
	l := newLab(t)
	p := newPod()
	check.Fatal(t, l.prepare(p))
	hosttest.Write(t, filepath.Join(l.root, "logs/default_web_u1/app/0.log"), "x")
	ref := port.PodDirs{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	for range 2 {
		check.Fatal(t, l.remove(ref))
	}
	hosttest.WantGone(t, filepath.Join(l.root, "kubelet/pods/u1"))
	hosttest.WantGone(t, filepath.Join(l.root, "logs/default_web_u1"))

	check.Fatal(t, l.prepare(p))
	other := newPod(func(p *v1.Pod) { p.UID = "2_u1" })
	check.Fatal(t, l.prepare(other))
	check.Fatal(t, l.remove(port.PodDirs{UID: p.UID})) // an orphan: only the UID is known
	hosttest.WantGone(t, filepath.Join(l.root, "kubelet/pods/u1"))
	hosttest.WantGone(t, filepath.Join(l.root, "logs/default_web_u1"))
	hosttest.WantMode(t, filepath.Join(l.root, "logs/default_web_2_u1"), 0o755|os.ModeDir)
}

func TestNothingIsDoneForAnEndedContext(t *testing.T) {
	l := newLab(t)
	ended, cancel := context.WithCancel(ctx(t))
	cancel()
	hosttest.WantError(t, hosttest.Wait(func(done func(error)) { l.PreparePod(ended, newPod(), done) }), port.Canceled)
}
