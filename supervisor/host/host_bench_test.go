package host

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/hosttest"
)

// A plain pod: what preparing, mounting and removing costs without a child.
func BenchmarkPlainPod(b *testing.B) {
	l := newBenchLab(b)
	p := newPod()
	for b.Loop() {
		if err := hosttest.Wait(func(done func(error)) { l.PreparePod(b.Context(), p, done) }); err != nil {
			b.Fatal(err)
		}
		if _, err := l.mount(b.Context(), p, emptyDir("data", v1.EmptyDirVolumeSource{})); err != nil {
			b.Fatal(err)
		}
		if err := hosttest.Wait(func(done func(error)) { l.UnmountPod(b.Context(), p.UID, done) }); err != nil {
			b.Fatal(err)
		}
	}
}

// One call in a child process.
func BenchmarkChild(b *testing.B) {
	l := newBenchLab(b)
	for b.Loop() {
		if _, err := l.mount(b.Context(), newPod(), hostPath("/tmp", v1.HostPathDirectory)); err != nil {
			b.Fatal(err)
		}
	}
}

func newBenchLab(b *testing.B) *lab {
	b.Helper()
	root := b.TempDir()
	h, err := New(Config{Root: root + "/kubelet", LogRoot: root + "/logs"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	})
	return &lab{Host: h, root: root}
}
