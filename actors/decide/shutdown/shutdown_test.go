package shutdown_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/tests/check"
)

const second = time.Second

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestGroups compares the groups of a configuration, as "priority=period".
func TestGroups(t *testing.T) {
	show := func(g shutdown.Groups) string {
		var out []string
		for _, group := range g {
			out = append(out, fmt.Sprintf("%d=%v", group.Priority, group.Period))
		}
		return strings.Join(out, " ")
	}
	for name, c := range map[string]struct {
		got  shutdown.Groups
		want string
	}{
		"nothing":             {shutdown.TwoGroups(0, 0), ""},
		"all of one":          {shutdown.TwoGroups(30*second, 0), "0=30s 2000000000=0s"},
		"critical pods":       {shutdown.TwoGroups(30*second, 10*second), "0=20s 2000000000=10s"},
		"only critical pods":  {shutdown.TwoGroups(30*second, 30*second), "0=0s 2000000000=30s"},
		"sorted":              {shutdown.ByPriority([]shutdown.Group{{10, second}, {-5, 2 * second}, {0, 3 * second}}), "-5=2s 0=3s 10=1s"},
		"time enough":         {shutdown.TwoGroups(30*second, 10*second).Fit(30 * second), "0=20s 2000000000=10s"},
		"a third of the time": {shutdown.TwoGroups(30*second, 10*second).Fit(10 * second), "0=6.666666666s 2000000000=3.333333333s"},
		"no time":             {shutdown.TwoGroups(30*second, 10*second).Fit(0), "0=0s 2000000000=0s"},
		"negative time":       {shutdown.TwoGroups(30*second, 10*second).Fit(-1), "0=0s 2000000000=0s"},
	} {
		check.Equal(t, show(c.got), c.want, "%s", name)
	}
	check.Equal(t, shutdown.ByPriority([]shutdown.Group{{1, second}, {0, 2 * second}}).Total(), 3*second, "in total")
}

func TestNext(t *testing.T) {
	groups := shutdown.Groups{{0, 10 * second}, {100, 20 * second}, {1000, 5 * second}}
	pod := func(uid string, priority int32, grace time.Duration) shutdown.Pod {
		return shutdown.Pod{UID: types.UID(uid), Priority: priority, Grace: grace}
	}
	ended := func(p shutdown.Pod) shutdown.Pod { p.Ended = true; return p }
	asked := func(p shutdown.Pod, ago time.Duration) shutdown.Pod { p.Asked = noon.Add(-ago); return p }
	low, mid, high := pod("low", 0, 30*second), pod("mid", 999, 30*second), pod("high", 5000, 2*second)
	at := func(group int, ago time.Duration) shutdown.Progress {
		return shutdown.Progress{Group: group, Since: noon.Add(-ago)}
	}
	for name, c := range map[string]struct {
		at   shutdown.Progress
		pods []shutdown.Pod
		want string
	}{
		"nothing runs":              {want: "group 3: done"},
		"the lowest group begins":   {pods: []shutdown.Pod{low, mid, high}, want: "group 0 for 10s: low in 10s"},
		"below all groups":          {pods: []shutdown.Pod{pod("lowest", -7, second), mid}, want: "group 0 for 10s: lowest in 1s"},
		"an empty group":            {pods: []shutdown.Pod{mid, high}, want: "group 1 for 20s: mid in 20s"},
		"its own grace is shorter":  {pods: []shutdown.Pod{high}, want: "group 2 for 5s: high in 2s"},
		"waits for its pods":        {at(0, 3*second), []shutdown.Pod{asked(low, 3*second), mid}, "group 0 for 7s:"},
		"a pod that comes late":     {at(0, 3*second), []shutdown.Pod{asked(low, 3*second), pod("late", 1, 30*second)}, "group 0 for 7s: late in 7s"},
		"late in an earlier group":  {at(1, 3*second), []shutdown.Pod{pod("late", 1, 30*second), asked(mid, 3*second)}, "group 1 for 17s: late in 17s"},
		"all have ended":            {at(0, 3*second), []shutdown.Pod{ended(low), mid, high}, "group 1 for 20s: mid in 20s"},
		"the period is over":        {at(0, 10*second), []shutdown.Pod{asked(low, 10*second), mid}, "group 1 for 20s: mid in 20s"},
		"none waits for the others": {at(1, 3*second), []shutdown.Pod{asked(low, 13*second), ended(mid), high}, "group 2 for 5s: high in 2s"},
		"the last period is over":   {at(2, 5*second), []shutdown.Pod{asked(high, 5*second)}, "group 3: done"},
		"the last has ended":        {at(2, second), []shutdown.Pod{ended(high)}, "group 3: done"},
		"too late for its period":   {at(2, 5*second), []shutdown.Pod{high}, "group 3: high in 0s done"},
		"another agent goes on":     {pods: []shutdown.Pod{ended(asked(low, 9*second)), asked(mid, 5*second), high}, want: "group 1 for 15s:"},
		"the clock was set back":    {at(0, -3*second), []shutdown.Pod{asked(low, -3*second)}, "group 0 for 10s:"},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, said(groups.Next(c.at, c.pods, noon)), c.want, "got")
		})
	}
	none := shutdown.TwoGroups(10*second, 0)
	if got := said(none.Next(at(0, 10*second), []shutdown.Pod{pod("critical", 2_000_000_000, second)}, noon)); got != "group 2: critical in 0s done" {
		t.Errorf("a period of 0: %s", got)
	}
}

func said(s shutdown.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "group %d", s.Group)
	if !s.Done {
		fmt.Fprintf(&b, " for %v", s.Left)
	}
	b.WriteByte(':')
	for _, o := range s.End {
		fmt.Fprintf(&b, " %s in %v", o.UID, o.Grace)
	}
	if s.Done {
		b.WriteString(" done")
	}
	return b.String()
}

// TestInOrder: whatever the pods and however long they take, each is asked once, none before one of a lower
// group whose time is not over, and all is over in the total time.
func TestInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var groups shutdown.Groups
		for i := range rapid.IntRange(1, 4).Draw(rt, "groups") {
			groups = append(groups, shutdown.Group{Priority: int32(i * 10), Period: time.Duration(rapid.IntRange(0, 9).Draw(rt, "period")) * second})
		}
		var pods []shutdown.Pod
		takes, was := map[types.UID]time.Duration{}, map[types.UID]int{}
		for i := range rapid.IntRange(0, 12).Draw(rt, "pods") {
			p := shutdown.Pod{
				UID: types.UID(fmt.Sprint("p", i)), Priority: int32(rapid.IntRange(-5, 45).Draw(rt, "priority")),
				Grace: time.Duration(rapid.IntRange(0, 12).Draw(rt, "grace")) * second,
			}
			takes[p.UID] = time.Duration(rapid.IntRange(0, 15).Draw(rt, "takes")) * second
			pods = append(pods, p)
		}
		var at shutdown.Progress
		now, kills := noon, rapid.Bool().Draw(rt, "restarts")
		for {
			s := groups.Next(at, pods, now)
			if s.Group < at.Group || s.Done != (s.Group == len(groups)) {
				rt.Fatalf("from %+v to %+v", at, s)
			}
			for _, o := range s.End {
				i := index(pods, o.UID)
				if !pods[i].Asked.IsZero() || o.Grace > pods[i].Grace || o.Grace > s.Left {
					rt.Fatalf("%+v, asked for %+v, with %v left", o, pods[i], s.Left)
				}
				pods[i].Asked, was[o.UID] = now, s.Group
			}
			if at = s.Progress; s.Done {
				break
			}
			now = now.Add(second)
			for i := range pods {
				p := &pods[i]
				p.Ended = p.Ended || !p.Asked.IsZero() && now.Sub(p.Asked) >= takes[p.UID]
			}
			if kills {
				at = shutdown.Progress{}
			}
		}
		if took := now.Sub(noon); took > groups.Total() {
			rt.Fatalf("%v, longer than %v", took, groups.Total())
		}
		for _, p := range pods {
			if p.Asked.IsZero() {
				rt.Fatalf("%+v was never asked", p)
			}
			for _, q := range pods {
				if p.Priority > q.Priority && p.Asked.Before(q.Asked) {
					rt.Fatalf("%+v was asked before %+v", p, q)
				}
			}
		}
	})
}

func index(pods []shutdown.Pod, uid types.UID) int {
	for i := range pods {
		if pods[i].UID == uid {
			return i
		}
	}
	return -1
}
