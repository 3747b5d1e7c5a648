package machine

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheckpointsGoBack: a checkpoint can be lost, and can be the one before the last save.
func TestCheckpointsGoBack(t *testing.T) {
	v, m := faulty("", Fault{})
	c := m.Checkpoints
	save := func(data string) {
		c.Save(context.Background(), "pods", []byte(data), func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		v.Advance(time.Second)
	}
	want := func(when, want string) {
		t.Helper()
		check.Equal(t, string(c.Get("pods")), want, "%s it", when)
	}
	c.Rollback("pods")
	save("one")
	c.Rollback("pods")
	want("before the first save", "")
	save("one")
	save("two")
	save("three")
	c.Rollback("pods")
	want("before the last save", "two")
	c.Rollback("pods")
	want("undone already", "two")
	c.Lose("pods")
	want("lost", "")
}

// TestLosePower: mounts, what is in memory, cgroups and calls under way are gone; the disk is not.
func TestLosePower(t *testing.T) {
	v, m := faulty("PreparePod", Fault{})
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}
	ok := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	ctx := context.Background()
	m.Host.PreparePod(ctx, p, ok)
	v.Advance(time.Second)
	for name, memory := range map[string]bool{"disk": false, "memory": true} {
		content := &volumefiles.Content{Files: []volumefiles.File{{Path: "a", Data: []byte("b")}}, Memory: memory}
		m.Host.MountVolume(ctx, port.MountVolume{Pod: p, Volume: &v1.Volume{Name: name}, Content: content},
			func(_ string, err error) { ok(err) })
	}
	m.Cgroups.Put("1", "/kubepods/pod1")
	v.Advance(time.Second)
	m.Host.RemovePod(ctx, port.PodDirs{UID: "1"}, func(err error) {
		check.Equal(t, port.KindOf(err), port.StateConflict, "with something mounted: %v", err)
	})
	v.Advance(time.Second)
	var late error
	m.SetFault(func(Call) Fault { return Fault{WorkLate: time.Second} })
	m.Checkpoints.Save(ctx, "pods", []byte("late"), func(err error) { late = err })
	m.Checkpoints.Put("stops", []byte("kept"))
	v.Advance(100 * time.Millisecond)

	m.LosePower()
	v.Advance(time.Minute)
	if port.KindOf(late) != port.Canceled || m.Checkpoints.Get("pods") != nil {
		t.Errorf("a call under way: %v, %s", late, m.Checkpoints.Get("pods"))
	}
	check.Equal(t, m.Host.Content("1", "disk")+m.Host.Content("1", "memory"), "a=b\n", "in the volumes")
	if string(m.Checkpoints.Get("stops")) != "kept" || m.Cgroups.Has(types.UID("1")) || len(m.Cgroups.Values()) != 0 {
		t.Errorf("checkpoint %s, cgroups %v", m.Checkpoints.Get("stops"), m.Cgroups.Values())
	}
	m.SetFault(nil)
	m.Host.RemovePod(ctx, port.PodDirs{UID: "1"}, ok)
	v.Advance(time.Second)
	check.Equal(t, m.Host.Pods(), 0, "its directories are left")
	m.Cgroups.Set(ctx, podcgroup.Name{"kubepods"}, podcgroup.Values{}, ok)
	v.Advance(time.Second)
	check.Equal(t, len(m.Cgroups.Values()), 1, "no cgroup can be made afterwards")
}
