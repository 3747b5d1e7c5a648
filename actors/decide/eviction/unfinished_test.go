package eviction

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestUnfinished: a part of a pod that can't be counted to its end for a minute is told of once, until it is counted.
func TestUnfinished(t *testing.T) {
	a, b := pod("a", 0, ""), pod("b", 0, "")
	part := func(partial bool) DiskUse { return DiskUse{Bytes: 7, Inodes: 3, Partial: partial} }
	use := func(volume, other bool) Use {
		return Use{Volumes: []VolumeUse{{"v", part(volume)}}, Other: part(other)}
	}
	both := []*v1.Pod{a, b}
	var u Unfinished
	for _, c := range []struct {
		after int
		pods  []*v1.Pod
		uses  []Use
		want  string
	}{
		{0, both, []Use{use(true, false), use(false, false)}, ""},
		{50, both, []Use{use(true, false), use(true, false)}, ""},
		{60, both, []Use{use(true, false), use(true, false)}, "a/v"},
		{70, both, []Use{use(true, true), use(true, false)}, ""},
		{110, both, []Use{use(true, true), use(false, false)}, ""}, // b was counted to its end
		{130, both, []Use{use(true, true), use(true, false)}, "a/"},
		{180, both, []Use{use(true, true), use(true, false)}, ""},
		{190, both, []Use{use(true, true), use(true, false)}, "b/v"},
		{200, both[:1], []Use{use(false, true)}, ""}, // b is gone
		{210, both, []Use{use(true, true), use(true, false)}, ""},
		{270, both, []Use{use(true, true), use(true, false)}, "a/v b/v"},
		{280, both, nil, ""}, // no answer
		{285, both, []Use{use(false, false), use(false, false)}, ""},
		{290, both, []Use{use(true, false), use(false, false)}, ""},
		{-3600, both, []Use{use(true, false), use(false, false)}, ""}, // the clock was set back
		{-3550, both, []Use{use(true, false), use(false, false)}, ""},
		{-3540, both, []Use{use(true, false), use(false, false)}, "a/v"},
	} {
		var tell []Part
		u, tell = u.Measured(c.pods, c.uses, t0.Add(time.Duration(c.after)*time.Second))
		got := ""
		for i, p := range tell {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprint(p.Pod.Name, "/", p.Volume)
			if p.Bytes != 7 || p.Inodes != 3 {
				t.Errorf("after %d s: %+v was counted", c.after, p.DiskUse)
			}
		}
		check.Equal(t, got, c.want, "after %d s: told of", c.after)
	}
}
