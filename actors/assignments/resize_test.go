package assignments_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
)

// resizing is a node where resizes change which CPUs containers have, after its first write.
func resizing(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, func(r *rig) { r.rules.Resizes = true })
	r.disk()
	r.tells(asks("a", "1"))
	r.disk()
	r.Forget()
	return r
}

func resize(uid types.UID, cpu string) assignments.Place {
	m := asks(uid, cpu)
	m.Runs, m.Resize = true, true
	return m
}

// on says that the container of a pod runs on some CPUs alone.
func on(uid types.UID, cpu string, list ...int) assignments.Place {
	m := asks(uid, cpu)
	m.Runs, m.On = true, map[string]cpuset.CPUSet{}
	if len(list) > 0 {
		m.On["c"] = cpuset.New(list...)
	}
	return m
}

// TestResizeUp: the CPUs are in the file before the pod is told.
func TestResizeUp(t *testing.T) {
	r := resizing(t)
	r.tells(resize("a", "2"))
	r.want("not written")
	r.disk()
	r.want("written", "file: 1 pods, shared 0,3", "pods: a c 1-2; shared 0,3")
	r.tells(resize("a", "2"))
	r.want("twice", "pods: a c 1-2; shared 0,3")
	r.tells(on("a", "1", 1))
	r.disk()
	r.want("it was not wanted", "file: 1 pods, shared 0,2-3", "pods: a c 1; shared 0,2-3")
}

// TestResizeDown: what a container gives up stays its own in the file until it has left it, also over a crash.
func TestResizeDown(t *testing.T) {
	r := resizing(t)
	r.tells(resize("a", "3"))
	r.disk()
	r.Forget()
	r.tells(resize("a", "1"))
	r.want("nothing is to be written", "pods: a c 1 and leaves others; shared 0")
	r.tells(asks("b", "1"))
	r.want("others don't get it", "pods: b UnexpectedAdmissionError; shared 0")
	before := r.version
	r.actor.Crash()
	r.tells(assignments.Release{UID: "nobody"})
	r.Advance(time.Minute)
	r.tells(on("a", "1", 1))
	r.disk()
	r.want("it has left", "pods: ask again", "file: 1 pods, shared 0,2-3", "pods: a c 1; shared 0,2-3")
	if r.version == before {
		t.Error("pods that were refused are not tried again")
	}
	r.tells(asks("b", "2"))
	r.disk()
	r.want("others get it", "file: 2 pods, shared 0", "pods: b c 2-3; shared 0")
}

// TestResizeToNone: what it had is in the file until it has left it.
func TestResizeToNone(t *testing.T) {
	r := resizing(t)
	r.tells(resize("a", "500m"))
	r.want("it leaves", "pods: a and leaves others; shared 0,2-3")
	r.tells(on("a", "500m"))
	r.disk()
	r.want("it has left", "file: 0 pods, shared 0-3", "pods: a; shared 0-3")
	r.tells(resize("a", "2"))
	r.disk()
	r.want("and gets some", "file: 1 pods, shared 0,3", "pods: a c 1-2; shared 0,3")
}

// TestResizeRefused: nothing changes.
func TestResizeRefused(t *testing.T) {
	r := resizing(t)
	r.tells(asks("b", "2"))
	r.disk()
	r.Forget()
	r.tells(resize("a", "2"), resize("a", "4"))
	r.want("there are none", "pods: a refused, never false; shared 0", "pods: a refused, never true; shared 0")
	r.tells(assignments.Release{UID: "b"}, resize("a", "3"))
	r.disk()
	r.want("there are some", "file: 1 pods, shared 0,2-3", "pods: ; shared 0", "file: 1 pods, shared 0", "pods: a c 1-3; shared 0")
}

// TestTheFileHasOtherCPUs than a pod was allocated: an agent was killed during a resize.
func TestTheFileHasOtherCPUs(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.rules.Resizes = true
		r.file = (&cpus.File{Policy: "static", Shared: cpuset.New(0), Own: cpus.State{"a": {"c": cpuset.New(1, 2)}, "b": {"c": cpuset.New(3)}}}).Format()
	})
	a, b := asks("a", "1"), asks("b", "2")
	a.Runs, b.Runs = true, true
	r.tells(a, b)
	r.disk()
	r.want("a has more, b has fewer", "pods: a c 1 and leaves others, b c 3; shared 0")
	r.tells(on("a", "1", 1), on("b", "2", 3))
	r.disk()
	r.want("b gets what a has left", "file: 2 pods, shared 0,2", "pods: a c 1; shared 0", "file: 2 pods, shared 0", "pods: b c 2-3; shared 0")
}
