package volume

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// A plain pod: what preparing, mounting and removing costs without a child.
func BenchmarkPlainPod(b *testing.B) {
	l := newBenchLab(b)
	p := newPod()
	for b.Loop() {
		check.Fatal(b, hosttest.Wait(func(done func(error)) { l.PreparePod(b.Context(), p, done) }))
		check.Value(l.mount(b.Context(), p, emptyDir("data", v1.EmptyDirVolumeSource{})))(b)
		check.Fatal(b, hosttest.Wait(func(done func(error)) { l.UnmountPod(b.Context(), p.UID, done) }))
	}
}

// One call in a child process.
func BenchmarkChild(b *testing.B) {
	l := newBenchLab(b)
	for b.Loop() {
		check.Value(l.mount(b.Context(), newPod(), hostPath("/tmp", v1.HostPathDirectory)))(b)
	}
}

func newBenchLab(b *testing.B) *lab {
	b.Helper()
	root := b.TempDir()
	h := open(b, root+"/kubelet", root+"/logs")
	b.Cleanup(func() { check.Error(b, h.closeAll()) })
	return &lab{Volumes: h, root: root}
}
