package pullahead_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/pullahead"
	"github.com/troupe-dev/troupe/tests/check"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const low = 80

func disk(used uint64) eviction.Left {
	return eviction.Left{Available: 100 - used, Capacity: 100, Known: true}
}

func show(s pullahead.Step, now time.Time) string {
	switch {
	case s.Do == pullahead.Look:
		return "look " + s.Name
	case s.Do == pullahead.Pull:
		return "pull " + s.Name
	case s.At.IsZero():
		return "wait"
	default:
		return fmt.Sprintf("wait %v", s.At.Sub(now))
	}
}

// TestNext: what happened to a list of a and b, which is pulled again every day, and what is next.
func TestNext(t *testing.T) {
	const day = 24 * time.Hour
	there := func(ids ...string) (out []observed.Image) {
		for _, id := range ids {
			out = append(out, observed.Image{ID: id, RepoTags: []string{"reg.io/" + id + ":1"}})
		}
		return out
	}
	for _, c := range []struct {
		what string
		busy bool
		held bool // registryPullQPS leaves no turn
		// wished is how long ago a pod wanted an image, after how much later than noon it is.
		wished, after time.Duration
		change        func(l *pullahead.List)
		want          string
	}{
		{what: "nothing is known", wished: time.Minute, want: "look reg.io/a:1"},
		{what: "a pod waits for an image", busy: true, wished: time.Minute, want: "wait 10s"},
		{what: "a pod wanted one", wished: 4 * time.Second, want: "wait 6s"},
		{what: "a pod wanted one, and waits", busy: true, wished: 0, want: "wait 10s"},
		{what: "the first is there", wished: time.Minute, change: func(l *pullahead.List) { l.Looked("reg.io/a:1", "a", noon) },
			want: "look reg.io/b:1"},
		{what: "the first is not there", wished: time.Minute, change: func(l *pullahead.List) { l.Looked("reg.io/a:1", "", noon) },
			want: "pull reg.io/a:1"},
		{what: "a pull would make others wait", held: true, wished: time.Minute,
			change: func(l *pullahead.List) { l.Looked("reg.io/a:1", "", noon) }, want: "wait 10s"},
		{what: "the first failed", wished: time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "", noon)
			l.Failed("reg.io/a:1", "no", noon)
		}, want: "look reg.io/b:1"},
		{what: "all is there", wished: time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "a", noon)
			l.Pulled("reg.io/b:1", "b", noon)
		}, want: "wait 24h0m0s"},
		{what: "one is due again", wished: time.Minute, after: day, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "a", noon)
			l.Pulled("reg.io/b:1", "b", noon)
		}, want: "pull reg.io/b:1"},
		{what: "all failed, one twice", wished: time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "", noon)
			l.Failed("reg.io/a:1", "no", noon)
			l.Failed("reg.io/a:1", "no", noon)
			l.Failed("reg.io/b:1", "no", noon)
		}, want: "wait 1m0s"},
		{what: "the backoff is over", wished: time.Minute, after: 2 * time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "", noon)
			l.Failed("reg.io/a:1", "no", noon)
			l.Failed("reg.io/a:1", "no", noon)
			l.Pulled("reg.io/b:1", "b", noon)
		}, want: "pull reg.io/a:1"},
		{what: "one was removed", wished: time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "a", noon)
			l.Pulled("reg.io/b:1", "b", noon)
			l.Removed("a", noon)
		}, want: "wait 6h0m0s"},
		{what: "one was removed again", wished: time.Minute, after: time.Hour, change: func(l *pullahead.List) {
			l.Pulled("reg.io/b:1", "b", noon)
			for range 2 {
				l.Looked("reg.io/a:1", "a", noon)
				l.Removed("a", noon)
			}
		}, want: "wait 11h0m0s"},
		{what: "a list has one no more", wished: time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "a", noon.Add(-time.Second))
			l.Pulled("reg.io/b:1", "b", noon.Add(-time.Second))
			l.See(there("b"), noon, noon)
		}, want: "wait 6h0m0s"},
		{what: "a list from before the pull", wished: time.Minute, change: func(l *pullahead.List) {
			l.Pulled("reg.io/a:1", "a", noon)
			l.Pulled("reg.io/b:1", "b", noon)
			l.See(there("b"), noon.Add(-time.Second), noon)
		}, want: "wait 24h0m0s"},
		{what: "pods pulled one", wished: time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "", noon.Add(-time.Second))
			l.Pulled("reg.io/b:1", "b", noon.Add(-time.Second))
			l.See(there("a", "b"), noon, noon)
		}, want: "wait 23h59m59s"},
		{what: "one did not fit", wished: time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "", noon)
			l.Outgrew("reg.io/a:1", 20, noon)
			l.Pulled("reg.io/b:1", "b", noon)
		}, want: "wait 6h0m0s"},
		{what: "the disk is full", wished: time.Minute, change: func(l *pullahead.List) {
			l.Looked("reg.io/a:1", "", noon)
			l.Pulled("reg.io/b:1", "b", noon)
			l.Room("reg.io/a:1", disk(80), low, noon)
		}, want: "wait 5m0s"},
	} {
		l := pullahead.New([]pullahead.Image{{Name: "reg.io/a:1"}, {Name: "reg.io/b:1", Every: day}, {Name: "reg.io/a:1", Every: day}})
		if c.change != nil {
			c.change(l)
		}
		now := noon.Add(c.after)
		step := l.Next(now, pullahead.Load{Wished: now.Add(-c.wished), Busy: c.busy, Free: !c.held})
		check.Equal(t, show(step, now), c.want, "%s", c.what)
	}
}

// TestRoom: a pull begins only below the low threshold, and with room for what the image is known to need.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		what     string
		disk     eviction.Left
		need     uint64 // more than this did not fit
		room     uint64
		ok, news bool
	}{
		{what: "below", disk: disk(70), room: 10, ok: true},
		{what: "at the threshold", disk: disk(80), news: true},
		{what: "over it", disk: disk(95), news: true},
		{what: "not known", news: true},
		{what: "as little as did not do", disk: disk(70), need: 10, room: 10},
		{what: "more than did not do", disk: disk(69), need: 10, room: 11, ok: true},
	} {
		l := pullahead.New([]pullahead.Image{{Name: "a"}})
		l.Looked("a", "", noon)
		if c.need > 0 {
			l.Outgrew("a", c.need, noon)
		}
		room, ok, news := l.Room("a", c.disk, low, noon)
		if room != c.room || ok != c.ok || news != c.news {
			t.Errorf("%s: %d, %v, %v", c.what, room, ok, news)
		}
		if _, _, again := l.Room("a", c.disk, low, noon); again {
			t.Errorf("%s: told twice", c.what)
		}
	}
}

// TestNotes: what outlives an agent holds an image back as before.
func TestNotes(t *testing.T) {
	of := []pullahead.Image{{Name: "a"}, {Name: "b"}}
	l := pullahead.New(of)
	l.Pulled("a", "id", noon)
	l.Looked("b", "", noon)
	l.Outgrew("b", 20, noon)
	check.Equal(t, l.Count(noon), (pullahead.Counts{Present: 1, Held: 1}), "counted")
	next := pullahead.New(of)
	next.Take(l.Notes())
	next.Looked("a", "id", noon)
	next.Looked("b", "", noon)
	check.Equal(t, show(next.Next(noon, pullahead.Load{Wished: noon.Add(-time.Minute), Free: true}), noon), "wait 6h0m0s", "it")
	if _, ok, _ := next.Room("b", disk(60), low, noon); ok {
		t.Error("it fits where it did not")
	}
	next.Removed("id", noon)
	next.Failed("b", "no", noon)
	check.Equal(t, next.Count(noon), (pullahead.Counts{Held: 1, Failed: 1}), "counted")
	check.Equal(t, next.Count(noon.Add(7*time.Hour)), (pullahead.Counts{Waiting: 1, Failed: 1}), "later, counted")
	var told []string
	for _, why := range []string{"no", "no", "other", "other"} {
		told = append(told, fmt.Sprint(next.Failed("a", why, noon)))
	}
	check.Same(t, told, []string{"true", "false", "true", "false"}, "failures are news: %s", strings.Join(told, " "))
}
