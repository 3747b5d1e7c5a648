package eviction

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/tests/check"
)

func victim(p *v1.Pod, grace time.Duration) Victim {
	return Victim{Pod: p, Stop: podlife.Stop{At: t0, Grace: grace, Reason: Reason}}
}

func names(pods []*v1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

// TestEndings: each of several pods is waited for, none is chosen again, and one that takes too long is named once.
func TestEndings(t *testing.T) {
	a, b, c := pod("a", 0, ""), pod("b", 0, ""), pod("c", 0, "")
	all := []*v1.Pod{a, b, c}
	var e Endings
	e = e.Begin(victim(a, time.Second), v1.ResourceEphemeralStorage, t0)
	e = e.Begin(victim(b, time.Minute), Inodes, t0)
	if got := names(e.Candidates(all)); fmt.Sprint(got) != "[c]" {
		t.Errorf("candidates %v", got)
	}
	if e.Awaits(v1.ResourceMemory) || !e.Awaits(Inodes) || !e.Awaits(v1.ResourceEphemeralStorage) {
		t.Error("the end of pods on disk is awaited for disk alone")
	}
	e, late := e.Overdue(t0.Add(endWait))
	check.Equal(t, len(late), 0, "late within its grace: %+v", late)
	e, late = e.Overdue(t0.Add(endWait + time.Second))
	if len(late) != 1 || late[0].Pod != a || late[0].Stop.Grace != 0 || late[0].Stop.At != t0.Add(endWait+time.Second) {
		t.Errorf("late: %+v", late)
	}
	if e, late = e.Overdue(t0.Add(endWait + 2*time.Second)); len(late) != 0 || !e.Has("a") {
		t.Errorf("named twice, or forgotten: %+v", late)
	}
	e = e.Ended([]*v1.Pod{a, c}, nil)
	if e.Awaits(Inodes) || !e.Has("a") || e.Has("b") {
		t.Error("b is gone, and a is late")
	}
	ended := a.DeepCopy()
	ended.Status.Phase = v1.PodFailed
	if e = e.Ended([]*v1.Pod{ended, b, c}, nil); e.Has("a") {
		t.Error("a has ended")
	}
}

// TestEndingsOfVolumes: the end of a pod frees memory when its processes are gone, disk when its volumes are, and memory
// too if files in it are.
func TestEndingsOfVolumes(t *testing.T) {
	a, b, c := pod("a", 0, ""), pod("b", 0, ""), pod("c", 0, "")
	c.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
		EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory},
	}}}
	e := Endings{}.Begin(victim(a, time.Second), Inodes, t0).Begin(victim(b, time.Second), v1.ResourceMemory, t0).
		Begin(victim(c, time.Second), v1.ResourceMemory, t0)
	a.Status.Phase, b.Status.Phase, c.Status.Phase = v1.PodFailed, v1.PodFailed, v1.PodFailed
	all := []*v1.Pod{a, b, c}
	holding := map[types.UID]bool{"a": true, "b": true, "c": true}
	if e = e.Ended(all, holding); !e.Has("a") || e.Has("b") || !e.Has("c") {
		t.Error("a has volumes yet, and c has files in memory; what is mounted is nothing to the memory of b")
	}
	if e = e.Ended(all, nil); e.Has("a") || e.Has("c") {
		t.Error("the volumes of a and c are gone")
	}
}

// TestEndingsOverASetClock: a clock that is set back does not make the wait longer.
func TestEndingsOverASetClock(t *testing.T) {
	a := pod("a", 0, "")
	e := Endings{}.Begin(victim(a, time.Second), v1.ResourceMemory, t0)
	back := t0.Add(-time.Hour)
	e, _ = e.Overdue(back)
	if _, late := e.Overdue(back.Add(endWait + time.Second)); len(late) != 1 {
		t.Errorf("late: %+v", late)
	}
}

// TestEndingsNeverChooseTwice: whatever happens in whatever order, a pod that was evicted is no candidate before it
// has ended, is named late at most once, and is awaited exactly until then.
func TestEndingsNeverChooseTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Endings
		now := t0
		type state struct {
			until time.Time
			late  bool
		}
		model := map[types.UID]state{}
		var all []*v1.Pod
		for i := range 4 {
			all = append(all, pod(fmt.Sprint(i), 0, ""))
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p := all[rapid.IntRange(0, 3).Draw(t, "pod")]
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				if _, is := model[p.UID]; !is {
					grace := time.Duration(rapid.IntRange(0, 60).Draw(t, "grace")) * time.Second
					e, model[p.UID] = e.Begin(victim(p, grace), v1.ResourceMemory, now), state{until: now.Add(grace + endWait)}
				}
			case 1:
				ended := p.DeepCopy()
				ended.Status.Phase = v1.PodFailed
				list := append([]*v1.Pod{ended}, all...)
				for i, o := range list[1:] {
					if o == p {
						list = append(list[:i+1], list[i+2:]...)
						break
					}
				}
				e = e.Ended(list, nil)
				delete(model, p.UID)
			case 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
				var late []Victim
				e, late = e.Overdue(now)
				want := 0
				for uid, s := range model {
					if !s.late && !now.Before(s.until) {
						model[uid] = state{s.until, true}
						want++
					}
				}
				check.Fatal(t, check.Is(len(late), want, "%d are late", len(late)))
			}
			awaited := false
			for _, s := range model {
				awaited = awaited || !s.late
			}
			if e.Awaits(v1.ResourceMemory) != awaited || len(e.Candidates(all)) != len(all)-len(model) {
				t.Fatalf("%+v, want %+v", e, model)
			}
		}
	})
}
