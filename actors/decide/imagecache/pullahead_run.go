package imagecache

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// watch is the time between measurements of the disk during a pull.
const watch = 5 * time.Second

// Stage is how far the image in hand is.
//
//	Loading ──notes of an earlier agent──► Resting
//
//	         one is due            quiet
//	Resting ────────────► Asking ─┬────────► Looking ──────────────────► Resting
//	   ▲                     │    └────────► Measuring ──room──► Pulling ───┐
//	   └──pulls are busy─────┴─────────────────no room──────────────┴─ended─┘
//
// While Pulling, the disk is measured every watch; if it is full, the pull is to be stopped, and ends soon.
type Stage uint8

// The stages of a run.
const (
	Loading Stage = iota
	Resting
	Asking
	Looking
	Measuring
	Pulling
)

func (s Stage) String() string {
	return [...]string{"Loading", "Resting", "Asking", "Looking", "Measuring", "Pulling"}[s]
}

// Run has the images of a list pulled, one at a time. Each event gives the next step, which the caller performs.
// Answers that come in another stage are too late, and change nothing.
type Run struct {
	List
	stage Stage
	name  string // of the image in hand
	// measured: something measures the disk of images. low is imageGCLowThresholdPercent.
	measures bool
	low      int
	// room is what was left on the disk before the pull, in bytes.
	room uint64
	// since is when the run began, or found that the runtime does not answer.
	since time.Time
	dirty bool
	news  []News
}

// News is for the log.
type News struct {
	Warn   bool
	Text   string
	Fields []any // keys and values
}

// NewRun makes a run with a list. measures: something measures the disk of images.
func NewRun(images []Image, measures bool, low int, now time.Time) *Run {
	return &Run{List: *NewList(images), measures: measures, low: low, since: now}
}

// Do is what to do next.
type Do uint8

// What to do.
const (
	Wait    Do = iota
	Ask        // how busy pulls are; then Told
	Look       // whether the image is there; then Looked
	Measure    // the disk; then Measured
	Pull       // then Ended
	Stop       // the pull; then Ended, as before
)

func (d Do) String() string {
	return [...]string{"Wait", "Ask", "Look", "Measure", "Pull", "Stop"}[d]
}

// Step is the next thing to do, for the image of that name. At is when to come back in any case; zero: with the next
// event.
type Step struct {
	Do   Do
	Name string
	At   time.Time
}

// News gives what to log since the last call.
func (r *Run) News() []News {
	n := r.news
	r.news = nil
	return n
}

func (r *Run) warn(text string, fields ...any) { r.news = append(r.news, News{true, text, fields}) }

// Dirty says that there are notes to save.
func (r *Run) Dirty() bool { return r.dirty && r.stage != Loading }

// Unsaved gives the notes to save. They count as saved then.
func (r *Run) Unsaved() map[string]Note {
	r.dirty = false
	return r.Notes()
}

// NotSaved says that notes could not be written: they are, with the next change.
func (r *Run) NotSaved() { r.dirty = true }

// Loaded begins with what an earlier agent noted.
func (r *Run) Loaded(notes map[string]Note, now time.Time) Step {
	r.Take(notes)
	return r.rest(now)
}

func (r *Run) rest(now time.Time) Step {
	r.stage, r.name = Resting, ""
	return r.Turn(now)
}

// Turn says what to do when the time of a step has come.
func (r *Run) Turn(now time.Time) Step {
	switch r.stage {
	case Pulling:
		if r.measures {
			return Step{Do: Measure}
		}
	case Resting:
		if step := r.Next(now, Load{Wished: r.since, Free: true}); step.Do == Wait {
			return step
		}
		r.stage = Asking
		return Step{Do: Ask}
	case Loading, Asking, Looking, Measuring:
	}
	return Step{}
}

// Listed compares the list with the images that the runtime had at a time.
func (r *Run) Listed(there []observed.Image, at, now time.Time) Step {
	return r.changed(r.See(there, at, now), now)
}

// Gone notes that the image with that ID was removed.
func (r *Run) Gone(id string, now time.Time) Step { return r.changed(r.Removed(id, now), now) }

func (r *Run) changed(changed bool, now time.Time) Step {
	r.dirty = r.dirty || changed
	if r.stage != Resting {
		return Step{}
	}
	return r.Turn(now)
}

// Answered notes what came of a step. An answer that comes in another stage is too late.
func (r *Run) Answered(a *Answer, now time.Time) Step {
	switch {
	case a.Do == Ask && r.stage == Asking:
		return r.told(a.Load, a.Why == "", now)
	case a.Do == Look && r.stage == Looking && a.Why != "":
		return r.failed("the runtime does not say whether it is there: "+a.Why, a.Down, now)
	case a.Do == Look && r.stage == Looking:
		if !a.There {
			a.ID = ""
		}
		r.Looked(r.name, a.ID, now)
		return r.rest(now)
	case a.Do == Measure:
		return r.measured(a.Disk, now)
	case a.Do == Pull && r.stage == Pulling && a.Why != "":
		return r.failed(a.Why, a.Down, now)
	case a.Do == Pull && r.stage == Pulling:
		return r.ended(a.End, now)
	}
	return Step{}
}

// told begins with an image, if pulls are not busy. ok is false if nobody says so.
func (r *Run) told(load Load, ok bool, now time.Time) Step {
	load.Wished = later(load.Wished, r.since)
	step := r.Next(now, load)
	switch {
	case !ok:
		r.stage = Resting
		return Step{At: now.Add(Quiet)}
	case step.Do == Wait:
		r.stage = Resting
		return step
	case step.Do == Look:
		r.stage = Looking
	case r.measures:
		r.stage, step.Do = Measuring, Measure
	default:
		r.stage, step.At = Pulling, now.Add(watch)
	}
	r.name = step.Name
	return step
}

// failed tells people of a failure, once for each reason. While the runtime is down, no image is to blame, and all
// wait.
func (r *Run) failed(why string, down bool, now time.Time) Step {
	if down {
		r.since = now
	} else if r.Failed(r.name, why, now) {
		r.warn("cannot pre-pull an image; retrying with backoff: check its name in --pull-ahead-images or "+
			"--pull-ahead-lists, its registry and the credentials of this node", "image", r.name, "error", why)
	}
	return r.rest(now)
}

// measured pulls the image in hand, if there is room for it, or stops its pull if there is none any more.
func (r *Run) measured(disk eviction.Left, now time.Time) Step {
	switch r.stage {
	case Measuring:
		room, ok, news := r.Room(r.name, disk, r.low, now)
		if news {
			r.warn("not pre-pulling images: the image file system is not below imageGCLowThresholdPercent, or can't be "+
				"measured; it is measured again every 5 minutes",
				"image", r.name, "imageGCLowThresholdPercent", r.low, "usedPercent", Percent(disk))
		}
		if !ok {
			r.dirty = r.dirty || room > 0 // then it is held back
			return r.rest(now)
		}
		if at, due := r.due(r.find(r.name)); !due || at.After(now) {
			return r.rest(now) // it came, or was removed, while the disk was measured
		}
		r.stage, r.room = Pulling, room
		return Step{Pull, r.name, now.Add(watch)}
	case Pulling:
		step := Step{Name: r.name, At: now.Add(watch)}
		if disk.Known && Below(disk, r.low) == 0 {
			step.Do = Stop
		}
		return step
	case Loading, Resting, Asking, Looking:
	}
	return Step{}
}

// ended notes how the pull of the image in hand has ended.
func (r *Run) ended(end End, now time.Time) Step {
	switch end.Outcome {
	case Pulled:
		r.Pulled(r.name, end.ID, now)
		r.dirty = true
		r.news = append(r.news, News{
			Text:   "pre-pulled image",
			Fields: []any{"image", r.name, "took", end.Took.Round(time.Millisecond).String()},
		})
	case Failed:
		return r.failed(end.Why, end.Down, now)
	case Stopped:
		r.Outgrew(r.name, r.room, now)
		r.dirty = true
		r.warn("gave up the pre-pull of an image: with it, the image file system would be over imageGCLowThresholdPercent; "+
			"it is tried again when there is more room, after 6 hours at the earliest", "image", r.name)
	case GaveWay:
	}
	return r.rest(now)
}

// Restarted begins anew, because nobody knows what becomes of what was asked for: an image that was being pulled is
// looked for again.
func (r *Run) Restarted(now time.Time) Step {
	switch r.stage {
	case Pulling:
		r.find(r.name).state = unknown
		return r.rest(now)
	case Asking:
		return r.rest(now)
	case Loading, Resting, Looking, Measuring:
	}
	return Step{}
}
