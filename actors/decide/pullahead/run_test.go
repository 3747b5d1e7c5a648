package pullahead_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/pullahead"
	"github.com/troupe-dev/troupe/tests/check"
)

var quiet = pullahead.Load{Wished: noon.Add(-time.Hour), Free: true}

// answer is the answer to a step, on a node that is quiet, has room, and does not have the image.
func answer(s pullahead.Step) *pullahead.Answer {
	return &pullahead.Answer{Do: s.Do, Load: quiet, Disk: disk(50), End: pullahead.End{ID: "id"}}
}

// TestRun: what a run does one after the other, and what makes it end early.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		what string
		// change is what is answered instead, to that step.
		at     pullahead.Do
		change func(*pullahead.Answer)
		want   string
		news   string
	}{
		{what: "it is not there", want: "Ask Look Ask Measure Pull Wait", news: "pre-pulled image"},
		{what: "it is there", at: pullahead.Look, change: func(a *pullahead.Answer) { a.There, a.ID = true, "id" }, want: "Ask Look Wait"},
		{what: "pods are busy", at: pullahead.Ask, change: func(a *pullahead.Answer) { a.Load.Busy = true }, want: "Ask Wait"},
		{what: "nobody says how busy", at: pullahead.Ask, change: func(a *pullahead.Answer) { a.Why = "no answer" }, want: "Ask Wait"},
		{what: "it can't be looked for", at: pullahead.Look, change: func(a *pullahead.Answer) { a.Why = "no" }, want: "Ask Look Wait",
			news: "cannot pre-pull an image"},
		{what: "the runtime is down", at: pullahead.Look, change: func(a *pullahead.Answer) { a.Why, a.Down = "no", true },
			want: "Ask Look Wait"},
		{what: "the disk is full", at: pullahead.Measure, change: func(a *pullahead.Answer) { a.Disk = disk(90) },
			want: "Ask Look Ask Measure Wait", news: "not pre-pulling images"},
		{what: "it fails", at: pullahead.Pull, change: func(a *pullahead.Answer) { a.End = pullahead.End{Outcome: pullahead.Failed, Why: "no"} },
			want: "Ask Look Ask Measure Pull Wait", news: "cannot pre-pull an image"},
		{what: "it gives way", at: pullahead.Pull, change: func(a *pullahead.Answer) { a.End.Outcome = pullahead.GaveWay; a.Load.Busy = true },
			want: "Ask Look Ask Measure Pull Ask Measure Pull"},
		{what: "it was too big", at: pullahead.Pull, change: func(a *pullahead.Answer) { a.End.Outcome = pullahead.Stopped },
			want: "Ask Look Ask Measure Pull Wait", news: "gave up the pre-pull"},
	} {
		now := noon.Add(time.Hour)
		r := pullahead.NewRun([]pullahead.Image{{Name: "a"}}, true, low, noon)
		var did, news []string
		for step := r.Loaded(nil, now); len(did) < 8; {
			if did = append(did, step.Do.String()); step.Do == pullahead.Wait {
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
	now := noon.Add(time.Hour)
	r := pullahead.NewRun([]pullahead.Image{{Name: "a"}}, true, low, noon)
	step := r.Loaded(nil, now)
	for step.Do != pullahead.Pull {
		step = r.Answered(answer(step), now)
	}
	for range 2 {
		now = step.At
		check.Equal(t, r.Turn(now), pullahead.Step{Do: pullahead.Measure}, "then")
		step = r.Answered(&pullahead.Answer{Do: pullahead.Measure, Disk: disk(79)}, now)
		check.Equal(t, step, pullahead.Step{Name: "a", At: now.Add(5 * time.Second)}, "with room")
	}
	step = r.Answered(&pullahead.Answer{Do: pullahead.Measure, Disk: disk(80)}, now)
	check.Equal(t, step.Do, pullahead.Stop, "full")
	check.Equal(t, r.Dirty(), false, "notes to save")
	r.Answered(&pullahead.Answer{Do: pullahead.Pull, End: pullahead.End{Outcome: pullahead.Stopped}}, now)
	check.Equal(t, r.Dirty(), true, "notes to save after the end")
	check.Equal(t, r.Unsaved()["a"].Holds, 1, "times held back")
}

// TestRunWalk: whatever is answered, late or in the wrong order, and whenever images or the agent restart, one image is
// in hand at a time, what does not fit stays held back, and a run always waits for an answer or for a time.
func TestRunWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, notes := noon, map[string]pullahead.Note{}
		list := []pullahead.Image{{Name: "a"}, {Name: "b"}}
		var r *pullahead.Run
		var step, waits pullahead.Step
		begin := func() {
			r = pullahead.NewRun(list, true, low, now)
			step = r.Loaded(notes, now)
		}
		begin()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch step.Do {
			case pullahead.Ask, pullahead.Look, pullahead.Measure, pullahead.Pull:
				waits = step
			case pullahead.Wait, pullahead.Stop:
			}
			if r.Dirty() {
				notes = r.Unsaved()
			}
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); op {
			case 0:
				waits = pullahead.Step{}
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
				a := answer(pullahead.Step{Do: pullahead.Do(rapid.IntRange(int(pullahead.Ask), int(pullahead.Pull)).Draw(t, "do"))})
				if rapid.Bool().Draw(t, "expected") {
					a.Do = waits.Do
				}
				a.Load.Busy = rapid.Bool().Draw(t, "busy")
				a.There = rapid.Bool().Draw(t, "there")
				a.Disk = eviction.Left{Capacity: 100, Available: uint64(rapid.IntRange(0, 100).Draw(t, "free")), Known: true}
				a.End.Outcome = pullahead.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
				step = r.Answered(a, now)
			}
			if step.Do == pullahead.Pull {
				if n := notes[step.Name]; n.Holds > 0 && now.Before(n.Held.Add(6*time.Hour)) {
					t.Fatalf("%s is pulled, and is held back: %+v", step.Name, n)
				}
			}
			if step.Do != pullahead.Wait && step.Do != pullahead.Ask && step.Name == "" && step.Do != pullahead.Measure {
				t.Fatal(fmt.Sprint("nothing is in hand for ", step.Do))
			}
		}
	})
}
