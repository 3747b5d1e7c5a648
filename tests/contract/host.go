package contract

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// HostSubject is one implementation of port.Host.
type HostSubject struct {
	Passing
	Host port.Host
	// Directory exists on the host.
	Directory string
	// Content reads a file of a volume of files.
	Content func(t *testing.T, uid types.UID, volume, path, file string) string
}

type hostSuite struct {
	suite
	HostSubject
	pod *v1.Pod
}

// Host runs the suite for port.Host. open is called once per test and cleans up after
// itself with t.Cleanup.
func Host(t *testing.T, open func(t *testing.T) HostSubject) {
	for _, c := range []struct {
		name string
		test func(*hostSuite)
	}{
		{"Directories", testHostDirectories},
		{"VolumePaths", testHostVolumePaths},
		{"Content", testHostContent},
		{"SubPaths", testHostSubPaths},
		{"MountedIsNotRemoved", testHostMountedIsNotRemoved},
		{"NothingThere", testHostNothingThere},
		{"ContextEnded", testHostContextEnded},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			c.test(&hostSuite{suite: *h.suite(t), HostSubject: h, pod: &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "contract", Name: "web", UID: "0c0ffee0-1111-2222-3333-444444444444"},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}}},
			}})
		})
	}
}

func (s *hostSuite) prepare(ctx context.Context) *pending[struct{}] {
	return beginErr(&s.suite, "PreparePod", func(done func(error)) { s.Host.PreparePod(ctx, s.pod, done) })
}

func (s *hostSuite) mount(r port.MountVolume) *pending[string] {
	r.Pod = s.pod
	return begin(&s.suite, "MountVolume "+r.Volume.Name, func(done func(string, error)) {
		s.Host.MountVolume(context.Background(), r, done)
	})
}

func (s *hostSuite) unmount() *pending[struct{}] {
	return beginErr(&s.suite, "UnmountPod", func(done func(error)) { s.Host.UnmountPod(context.Background(), s.pod.UID, done) })
}

func (s *hostSuite) remove() *pending[struct{}] {
	return beginErr(&s.suite, "RemovePod", func(done func(error)) {
		s.Host.RemovePod(context.Background(), port.PodDirs{UID: s.pod.UID, Namespace: s.pod.Namespace, Name: s.pod.Name}, done)
	})
}

func (s *hostSuite) dirs() []types.UID {
	s.Helper()
	return begin(&s.suite, "PodDirs", func(done func([]types.UID, error)) { s.Host.PodDirs(context.Background(), done) }).noError()
}

func emptyDir(name string, medium v1.StorageMedium) port.MountVolume {
	return port.MountVolume{Volume: &v1.Volume{
		Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}},
	}}
}

func configMap(name, value string) port.MountVolume {
	return port.MountVolume{
		Volume: &v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}},
		}},
		Content: &volumefiles.Content{Files: []volumefiles.File{{Path: "key", Data: []byte(value), Mode: 0o644}}},
	}
}

func testHostDirectories(s *hostSuite) {
	for range 2 {
		s.prepare(context.Background()).noError()
		check.Same(s, s.dirs(), []types.UID{s.pod.UID}, "there are directories of")
	}
	for range 2 {
		s.remove().noError()
		check.None(s, s.dirs(), "directories are left of")
	}
}

// testHostVolumePaths: port.Host says what the path of a volume is, by its type.
func testHostVolumePaths(s *hostSuite) {
	s.prepare(context.Background()).noError()
	paths := map[string]string{}
	for _, r := range []port.MountVolume{
		emptyDir("disk", v1.StorageMediumDefault),
		{Volume: &v1.Volume{Name: "unsaid"}},
		configMap("config", "one"),
		{Volume: &v1.Volume{Name: "here", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: s.Directory}}}},
		{Volume: &v1.Volume{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "a.test/b:1"}}}},
	} {
		name := r.Volume.Name
		path := s.mount(r).noError()
		check.Count(s, s.mount(r).noError(), path, "volume %s is at %q, then at %q", name, path)
		switch name {
		case "image":
			check.Equal(s, path, "", "an image is at %q: the runtime mounts it", path)
			continue
		case "here":
			check.Equal(s, path, s.Directory, "hostPath %s is at %q", s.Directory, path)
		}
		if other, taken := paths[path]; taken || !filepath.IsAbs(path) {
			s.Errorf("volume %s is at %q, as is %q", name, path, other)
		}
		paths[path] = name
	}
	for range 2 {
		s.unmount().noError()
	}
	s.remove().noError()
}

// testHostContent: a volume of files has the newest content, at the same path.
func testHostContent(s *hostSuite) {
	s.prepare(context.Background()).noError()
	first := ""
	for _, value := range []string{"one", "two", "two"} {
		path := s.mount(configMap("config", value)).noError()
		if first == "" {
			first = path
		}
		if got := s.Content(s.T, s.pod.UID, "config", path, "key"); got != value || path != first {
			s.Errorf("at %s is %q, want %q at %s", path, got, value, first)
		}
	}
	s.unmount().noError()
	s.remove().noError()
}

func testHostSubPaths(s *hostSuite) {
	s.prepare(context.Background()).noError()
	root := s.mount(emptyDir("disk", v1.StorageMediumDefault)).noError()
	r := port.MountSubPaths{Pod: s.pod, Container: "app", Parts: []containerplan.SubPath{
		{Index: 0, Volume: "disk", Root: root, SubPath: "a"}, {Index: 1, Volume: "disk", Root: root, SubPath: "b/c"},
	}}
	var before []string
	for range 2 {
		got := begin(&s.suite, "MountSubPaths", func(done func([]string, error)) {
			s.Host.MountSubPaths(context.Background(), r, done)
		}).noError()
		if len(got) != 2 || got[0] == got[1] || got[0] == "" || before != nil && !slices.Equal(got, before) {
			s.Errorf("two parts of a volume are at %q, before at %q", got, before)
		}
		before = got
	}
	s.unmount().noError()
	s.remove().noError()
}

func testHostMountedIsNotRemoved(s *hostSuite) {
	s.prepare(context.Background()).noError()
	s.mount(emptyDir("memory", v1.StorageMediumMemory)).noError()
	s.remove().kind(port.StateConflict)
	if got := s.dirs(); len(got) != 1 {
		s.Errorf("there are directories of %v", got)
	}
	s.unmount().noError()
	s.remove().noError()
	check.None(s, s.dirs(), "directories are left of")
}

// testHostNothingThere: taking away what is not there is no error.
func testHostNothingThere(s *hostSuite) {
	check.None(s, s.dirs(), "there are directories of")
	s.unmount().noError()
	s.remove().noError()
}

func testHostContextEnded(s *hostSuite) {
	ctx, cancel := s.context()
	cancel()
	s.prepare(ctx).kind(port.Canceled)
	check.None(s, s.dirs(), "there are directories of")
}
