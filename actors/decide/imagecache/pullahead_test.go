package imagecache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

var pullaheadNoon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const low = 80

func pullaheadDisk(used uint64) eviction.Left {
	return eviction.Left{Available: 100 - used, Capacity: 100, Known: true}
}

func show(s imagecache.Step, now time.Time) string {
	switch {
	case s.Do == imagecache.Look:
		return "look " + s.Name
	case s.Do == imagecache.Pull:
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
		change        func(l *imagecache.List)
		want          string
	}{
		{what: "nothing is known", wished: time.Minute, want: "look reg.io/a:1"},
		{what: "a pod waits for an image", busy: true, wished: time.Minute, want: "wait 10s"},
		{what: "a pod wanted one", wished: 4 * time.Second, want: "wait 6s"},
		{what: "a pod wanted one, and waits", busy: true, wished: 0, want: "wait 10s"},
		{what: "the first is there", wished: time.Minute, change: func(l *imagecache.List) { l.Looked("reg.io/a:1", "a", pullaheadNoon) },
			want: "look reg.io/b:1"},
		{what: "the first is not there", wished: time.Minute, change: func(l *imagecache.List) { l.Looked("reg.io/a:1", "", pullaheadNoon) },
			want: "pull reg.io/a:1"},
		{what: "a pull would make others wait", held: true, wished: time.Minute,
			change: func(l *imagecache.List) { l.Looked("reg.io/a:1", "", pullaheadNoon) }, want: "wait 10s"},
		{what: "the first failed", wished: time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "", pullaheadNoon)
			l.Failed("reg.io/a:1", "no", pullaheadNoon)
		}, want: "look reg.io/b:1"},
		{what: "all is there", wished: time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "a", pullaheadNoon)
			l.Pulled("reg.io/b:1", "b", pullaheadNoon)
		}, want: "wait 24h0m0s"},
		{what: "one is due again", wished: time.Minute, after: day, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "a", pullaheadNoon)
			l.Pulled("reg.io/b:1", "b", pullaheadNoon)
		}, want: "pull reg.io/b:1"},
		{what: "all failed, one twice", wished: time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "", pullaheadNoon)
			l.Failed("reg.io/a:1", "no", pullaheadNoon)
			l.Failed("reg.io/a:1", "no", pullaheadNoon)
			l.Failed("reg.io/b:1", "no", pullaheadNoon)
		}, want: "wait 1m0s"},
		{what: "the backoff is over", wished: time.Minute, after: 2 * time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "", pullaheadNoon)
			l.Failed("reg.io/a:1", "no", pullaheadNoon)
			l.Failed("reg.io/a:1", "no", pullaheadNoon)
			l.Pulled("reg.io/b:1", "b", pullaheadNoon)
		}, want: "pull reg.io/a:1"},
		{what: "one was removed", wished: time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "a", pullaheadNoon)
			l.Pulled("reg.io/b:1", "b", pullaheadNoon)
			l.Removed("a", pullaheadNoon)
		}, want: "wait 6h0m0s"},
		{what: "one was removed again", wished: time.Minute, after: time.Hour, change: func(l *imagecache.List) {
			l.Pulled("reg.io/b:1", "b", pullaheadNoon)
			for range 2 {
				l.Looked("reg.io/a:1", "a", pullaheadNoon)
				l.Removed("a", pullaheadNoon)
			}
		}, want: "wait 11h0m0s"},
		{what: "a list has one no more", wished: time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "a", pullaheadNoon.Add(-time.Second))
			l.Pulled("reg.io/b:1", "b", pullaheadNoon.Add(-time.Second))
			l.See(there("b"), pullaheadNoon, pullaheadNoon)
		}, want: "wait 6h0m0s"},
		{what: "a list from before the pull", wished: time.Minute, change: func(l *imagecache.List) {
			l.Pulled("reg.io/a:1", "a", pullaheadNoon)
			l.Pulled("reg.io/b:1", "b", pullaheadNoon)
			l.See(there("b"), pullaheadNoon.Add(-time.Second), pullaheadNoon)
		}, want: "wait 24h0m0s"},
		{what: "pods pulled one", wished: time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "", pullaheadNoon.Add(-time.Second))
			l.Pulled("reg.io/b:1", "b", pullaheadNoon.Add(-time.Second))
			l.See(there("a", "b"), pullaheadNoon, pullaheadNoon)
		}, want: "wait 23h59m59s"},
		{what: "one did not fit", wished: time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "", pullaheadNoon)
			l.Outgrew("reg.io/a:1", 20, pullaheadNoon)
			l.Pulled("reg.io/b:1", "b", pullaheadNoon)
		}, want: "wait 6h0m0s"},
		{what: "the disk is full", wished: time.Minute, change: func(l *imagecache.List) {
			l.Looked("reg.io/a:1", "", pullaheadNoon)
			l.Pulled("reg.io/b:1", "b", pullaheadNoon)
			l.Room("reg.io/a:1", pullaheadDisk(80), low, pullaheadNoon)
		}, want: "wait 5m0s"},
	} {
		l := imagecache.NewList([]imagecache.Image{{Name: "reg.io/a:1"}, {Name: "reg.io/b:1", Every: day}, {Name: "reg.io/a:1", Every: day}})
		if c.change != nil {
			c.change(l)
		}
		now := pullaheadNoon.Add(c.after)
		step := l.Next(now, imagecache.Load{Wished: now.Add(-c.wished), Busy: c.busy, Free: !c.held})
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
		{what: "below", disk: pullaheadDisk(70), room: 10, ok: true},
		{what: "at the threshold", disk: pullaheadDisk(80), news: true},
		{what: "over it", disk: pullaheadDisk(95), news: true},
		{what: "not known", news: true},
		{what: "as little as did not do", disk: pullaheadDisk(70), need: 10, room: 10},
		{what: "more than did not do", disk: pullaheadDisk(69), need: 10, room: 11, ok: true},
	} {
		l := imagecache.NewList([]imagecache.Image{{Name: "a"}})
		l.Looked("a", "", pullaheadNoon)
		if c.need > 0 {
			l.Outgrew("a", c.need, pullaheadNoon)
		}
		room, ok, news := l.Room("a", c.disk, low, pullaheadNoon)
		if room != c.room || ok != c.ok || news != c.news {
			t.Errorf("%s: %d, %v, %v", c.what, room, ok, news)
		}
		if _, _, again := l.Room("a", c.disk, low, pullaheadNoon); again {
			t.Errorf("%s: told twice", c.what)
		}
	}
}

// TestNotes: what outlives an agent holds an image back as before.
func TestNotes(t *testing.T) {
	of := []imagecache.Image{{Name: "a"}, {Name: "b"}}
	l := imagecache.NewList(of)
	l.Pulled("a", "id", pullaheadNoon)
	l.Looked("b", "", pullaheadNoon)
	l.Outgrew("b", 20, pullaheadNoon)
	check.Equal(t, l.Count(pullaheadNoon), (imagecache.Counts{Present: 1, Held: 1}), "counted")
	next := imagecache.NewList(of)
	next.Take(l.Notes())
	next.Looked("a", "id", pullaheadNoon)
	next.Looked("b", "", pullaheadNoon)
	check.Equal(t, show(next.Next(pullaheadNoon, imagecache.Load{Wished: pullaheadNoon.Add(-time.Minute), Free: true}), pullaheadNoon), "wait 6h0m0s", "it")
	if _, ok, _ := next.Room("b", pullaheadDisk(60), low, pullaheadNoon); ok {
		t.Error("it fits where it did not")
	}
	next.Removed("id", pullaheadNoon)
	next.Failed("b", "no", pullaheadNoon)
	check.Equal(t, next.Count(pullaheadNoon), (imagecache.Counts{Held: 1, Failed: 1}), "counted")
	check.Equal(t, next.Count(pullaheadNoon.Add(7*time.Hour)), (imagecache.Counts{Waiting: 1, Failed: 1}), "later, counted")
	var told []string
	for _, why := range []string{"no", "no", "other", "other"} {
		told = append(told, fmt.Sprint(next.Failed("a", why, pullaheadNoon)))
	}
	check.Same(t, told, []string{"true", "false", "true", "false"}, "failures are news: %s", strings.Join(told, " "))
}
