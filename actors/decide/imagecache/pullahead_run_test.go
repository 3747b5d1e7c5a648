package imagecache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

var quiet = imagecache.Load{Wished: pullaheadNoon.Add(-time.Hour), Free: true}

// answer is the answer to a step, on a node that is quiet, has room, and does not have the image.
func answer(s imagecache.Step) *imagecache.Answer {
	return &imagecache.Answer{Do: s.Do, Load: quiet, Disk: pullaheadDisk(50), End: imagecache.End{ID: "id"}}
}

// TestRun: what a run does one after the other, and what makes it end early.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		what string
		// change is what is answered instead, to that step.
		at     imagecache.Do
		change func(*imagecache.Answer)
		want   string
		news   string
	}{
		{what: "it is not there", want: "Ask Look Ask Measure Pull Wait", news: "pre-pulled image"},
		{what: "it is there", at: imagecache.Look, change: func(a *imagecache.Answer) { a.There, a.ID = true, "id" }, want: "Ask Look Wait"},
		{what: "pods are busy", at: imagecache.Ask, change: func(a *imagecache.Answer) { a.Load.Busy = true }, want: "Ask Wait"},
		{what: "nobody says how busy", at: imagecache.Ask, change: func(a *imagecache.Answer) { a.Why = "no answer" }, want: "Ask Wait"},
		{what: "it can't be looked for", at: imagecache.Look, change: func(a *imagecache.Answer) { a.Why = "no" }, want: "Ask Look Wait",
			news: "cannot pre-pull an image"},
		{what: "the runtime is down", at: imagecache.Look, change: func(a *imagecache.Answer) { a.Why, a.Down = "no", true },
			want: "Ask Look Wait"},
		{what: "the disk is full", at: imagecache.Measure, change: func(a *imagecache.Answer) { a.Disk = pullaheadDisk(90) },
			want: "Ask Look Ask Measure Wait", news: "not pre-pulling images"},
		{what: "it fails", at: imagecache.Pull, change: func(a *imagecache.Answer) { a.End = imagecache.End{Outcome: imagecache.Failed, Why: "no"} },
			want: "Ask Look Ask Measure Pull Wait", news: "cannot pre-pull an image"},
		{what: "it gives way", at: imagecache.Pull, change: func(a *imagecache.Answer) { a.End.Outcome = imagecache.GaveWay; a.Load.Busy = true },
			want: "Ask Look Ask Measure Pull Ask Measure Pull"},
		{what: "it was too big", at: imagecache.Pull, change: func(a *imagecache.Answer) { a.End.Outcome = imagecache.Stopped },
			want: "Ask Look Ask Measure Pull Wait", news: "gave up the pre-pull"},
	} {
		now := pullaheadNoon.Add(time.Hour)
		r := imagecache.NewRun([]imagecache.Image{{Name: "a"}}, true, low, pullaheadNoon)
		var did, news []string
		for step := r.Loaded(nil, now); len(did) < 8; {
			if did = append(did, step.Do.String()); step.Do == imagecache.Wait {
				break
			}
			a := answer(step)
			if c.change != nil && step.Do == c.at {
				c.change(a)
			}
			step = r.Answered(a, now)
			for _, n := range r.News() {
				news = append(news, n.Text)
			}
		}
		if got := strings.Join(did, " "); got != c.want && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if len(news) > 0 != (c.news != "") || len(news) > 0 && !strings.HasPrefix(news[0], c.news) {
			t.Errorf("%s: %q, want %q", c.what, news, c.news)
		}
	}
}

// TestWatch: the disk is measured while an image is pulled; a pull that fills it is stopped, and goes on until it ends.
func TestWatch(t *testing.T) {
	now := pullaheadNoon.Add(time.Hour)
	r := imagecache.NewRun([]imagecache.Image{{Name: "a"}}, true, low, pullaheadNoon)
	step := r.Loaded(nil, now)
	for step.Do != imagecache.Pull {
		step = r.Answered(answer(step), now)
	}
	for range 2 {
		now = step.At
		check.Equal(t, r.Turn(now), imagecache.Step{Do: imagecache.Measure}, "then")
		step = r.Answered(&imagecache.Answer{Do: imagecache.Measure, Disk: pullaheadDisk(79)}, now)
		check.Equal(t, step, imagecache.Step{Name: "a", At: now.Add(5 * time.Second)}, "with room")
	}
	step = r.Answered(&imagecache.Answer{Do: imagecache.Measure, Disk: pullaheadDisk(80)}, now)
	check.Equal(t, step.Do, imagecache.Stop, "full")
	check.Equal(t, r.Dirty(), false, "notes to save")
	r.Answered(&imagecache.Answer{Do: imagecache.Pull, End: imagecache.End{Outcome: imagecache.Stopped}}, now)
	check.Equal(t, r.Dirty(), true, "notes to save after the end")
	check.Equal(t, r.Unsaved()["a"].Holds, 1, "times held back")
}

// TestChangedWhileMeasured: an image that came, or came and was removed, while the disk was measured for it is not pulled.
func TestChangedWhileMeasured(t *testing.T) {
	now := pullaheadNoon.Add(time.Hour)
	for _, removed := range []bool{false, true} {
		r := imagecache.NewRun([]imagecache.Image{{Name: "a"}}, true, low, pullaheadNoon)
		step := r.Loaded(nil, now)
		for step.Do != imagecache.Measure {
			step = r.Answered(answer(step), now)
		}
		r.Listed([]observed.Image{{ID: "id", RepoTags: []string{"a"}}}, now, now)
		if removed {
			r.Gone("id", now)
		}
		check.Equal(t, r.Answered(answer(step), now).Do, imagecache.Wait, "what to do")
	}
}

// TestRunWalk: whatever is answered, late or in the wrong order, and whenever images or the agent restart, one image is
// in hand at a time, what does not fit stays held back, and a run always waits for an answer or for a time.
func TestRunWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, notes := pullaheadNoon, map[string]imagecache.Note{}
		list := []imagecache.Image{{Name: "a"}, {Name: "b"}}
		var r *imagecache.Run
		var step, waits imagecache.Step
		begin := func() {
			r = imagecache.NewRun(list, true, low, now)
			step = r.Loaded(notes, now)
		}
		begin()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch step.Do {
			case imagecache.Ask, imagecache.Look, imagecache.Measure, imagecache.Pull:
				waits = step
			case imagecache.Wait, imagecache.Stop:
			}
			if r.Dirty() {
				notes = r.Unsaved()
			}
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); op {
			case 0:
				waits = imagecache.Step{}
				begin()
			case 1:
				step = r.Restarted(now)
			case 2:
				step = r.Gone("id", now)
			case 3:
				step = r.Listed([]observed.Image{{ID: "id", RepoTags: []string{"a"}}}, now, now)
			case 4:
				now = now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second)
				step = r.Turn(now)
			default:
				a := answer(imagecache.Step{Do: imagecache.Do(rapid.IntRange(int(imagecache.Ask), int(imagecache.Pull)).Draw(t, "do"))})
				if rapid.Bool().Draw(t, "expected") {
					a.Do = waits.Do
				}
				a.Load.Busy = rapid.Bool().Draw(t, "busy")
				a.There = rapid.Bool().Draw(t, "there")
				a.Disk = eviction.Left{Capacity: 100, Available: uint64(rapid.IntRange(0, 100).Draw(t, "free")), Known: true}
				a.End.Outcome = imagecache.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
				step = r.Answered(a, now)
			}
			if step.Do == imagecache.Pull {
				if n := notes[step.Name]; n.Holds > 0 && now.Before(n.Held.Add(6*time.Hour)) {
					t.Fatalf("%s is pulled, and is held back: %+v", step.Name, n)
				}
			}
			if step.Do != imagecache.Wait && step.Do != imagecache.Ask && step.Name == "" && step.Do != imagecache.Measure {
				t.Fatal(fmt.Sprint("nothing is in hand for ", step.Do))
			}
		}
	})
}
