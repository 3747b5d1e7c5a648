package imagecache

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

const (
	// Quiet is how long no pod has wanted an image before one is pulled ahead.
	Quiet = 10 * time.Second
	// fullWait is the time between looks at a disk without room.
	fullWait = 5 * time.Minute
)

// retry is the wait after a pull that failed, hold that after the image was removed or did not fit on the disk.
var (
	retry = backoff.Policy{Base: time.Minute, Max: time.Hour}
	hold  = backoff.Policy{Base: 6 * time.Hour, Max: 7 * 24 * time.Hour}
)

// Image is an image of a list.
type Image struct {
	Name string
	// Every is how often it is pulled again while it is there; 0: never.
	Every time.Duration
}

// Note is what is known of an image over a restart of the agent.
type Note struct {
	// Pulled is when it was pulled ahead last.
	Pulled time.Time `json:"pulled,omitzero"`
	// Held is when it was removed last, or did not fit on the disk; Holds how often that was.
	Held  time.Time `json:"held,omitzero"`
	Holds int       `json:"holds,omitempty"`
	// Need is how many bytes it is known to need on the disk.
	Need uint64 `json:"need,omitempty"`
}

type state uint8

const (
	unknown state = iota
	absent
	present
)

type entry struct {
	Image
	Note
	state state
	id    string // while it is there
	// knownAt is when the runtime was asked for it, or pulled it.
	knownAt time.Time
	// failures are those of pulls and looks since the last success.
	failures backoff.Failures
}

// List are the images of all lists of a node, with what became of them.
type List struct {
	of []entry
	// fullAt is when the disk had no room last; zero for room.
	fullAt time.Time
}

// NewList makes a list. The second of two with one name does not count.
func NewList(images []Image) *List {
	l := &List{}
	for _, i := range images {
		if l.find(i.Name) == nil {
			l.of = append(l.of, entry{Image: i})
		}
	}
	return l
}

func (l *List) find(name string) *entry {
	for i := range l.of {
		if l.of[i].Name == name {
			return &l.of[i]
		}
	}
	return nil
}

// Take gives the list what an earlier agent noted, by name.
func (l *List) Take(notes map[string]Note) {
	for i := range l.of {
		l.of[i].Note = notes[l.of[i].Name]
	}
}

// Notes are what must be kept, by name.
func (l *List) Notes() map[string]Note {
	out := map[string]Note{}
	for i := range l.of {
		if l.of[i].Note != (Note{}) {
			out[l.of[i].Name] = l.of[i].Note
		}
	}
	return out
}

// Looked notes what the runtime said of an image; id is empty if it is not there.
func (l *List) Looked(name, id string, now time.Time) {
	e := l.find(name)
	e.id, e.state, e.failures, e.knownAt = id, absent, backoff.Failures{}, now
	if id != "" {
		e.state = present
	}
}

// Pulled notes that an image was pulled.
func (l *List) Pulled(name, id string, now time.Time) {
	l.Looked(name, id, now)
	l.find(name).Pulled = now
}

// Failed notes that an image could not be looked for or pulled. news: people have not been told this yet.
func (l *List) Failed(name, why string, now time.Time) (news bool) {
	e := l.find(name)
	news = e.failures.Count == 0 || e.failures.Message != why
	e.failures = e.failures.Failed(now, why)
	return news
}

// Outgrew notes that the pull of an image was given up because it needed more than the room that there was, in bytes.
func (l *List) Outgrew(name string, room uint64, now time.Time) {
	e := l.find(name)
	e.Need = max(e.Need, room+1)
	e.gone(now)
}

// Removed notes that an image with that ID was removed.
func (l *List) Removed(id string, now time.Time) (changed bool) {
	for i := range l.of {
		if e := &l.of[i]; e.state == present && e.id == id {
			e.gone(now)
			changed = true
		}
	}
	return changed
}

func (e *entry) gone(now time.Time) {
	e.state, e.id, e.Held, e.Holds = absent, "", now, e.Holds+1
}

// See compares the list with the images that the runtime had, when it was asked. What is gone counts as removed.
func (l *List) See(there []observed.Image, asked, now time.Time) (changed bool) {
	find := Finder(there)
	for i := range l.of {
		e := &l.of[i]
		switch id, ok := find(e.Name); {
		case e.state == unknown, e.knownAt.After(asked):
		case ok:
			e.state, e.id = present, id
		case !ok && e.state == present:
			e.gone(now)
			changed = true
		}
	}
	return changed
}

// Counts are how many images are in which state.
type Counts struct{ Present, Waiting, Failed, Held int }

// Count counts them.
func (l *List) Count(now time.Time) (c Counts) {
	for i := range l.of {
		e := &l.of[i]
		switch {
		case e.failures.Count > 0:
			c.Failed++
		case e.state == present:
			c.Present++
		case now.Before(e.heldUntil()):
			c.Held++
		default:
			c.Waiting++
		}
	}
	return c
}

// heldUntil is zero for an image that is not held back.
func (e *entry) heldUntil() time.Time {
	if e.Holds == 0 {
		return time.Time{}
	}
	return e.Held.Add(backoff.Retry(hold, e.Holds))
}

// due is when an image is looked for or pulled next; ok is false for never.
func (l *List) due(e *entry) (at time.Time, ok bool) {
	at = e.failures.RetryAt(retry)
	switch {
	case e.state == unknown:
		return at, true
	case e.state == present && e.Every == 0:
		return at, false
	case e.state == present:
		at = later(at, e.Pulled.Add(e.Every))
	default:
		at = later(at, e.heldUntil())
	}
	if !l.fullAt.IsZero() {
		at = later(at, l.fullAt.Add(fullWait))
	}
	return at, true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Next says what to do. Before a pull, ask Room.
func (l *List) Next(now time.Time, pulls Load) Step {
	var first *entry
	var at time.Time
	for i := range l.of {
		due, ok := l.due(&l.of[i])
		if ok && !due.After(now) {
			first = &l.of[i]
			break
		}
		if ok && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	switch quiet := pulls.Wished.Add(Quiet); {
	case first == nil:
		return Step{Do: Wait, At: at}
	case pulls.Busy:
		return Step{Do: Wait, At: now.Add(Quiet)}
	case now.Before(quiet):
		return Step{Do: Wait, At: quiet}
	case first.state == unknown:
		return Step{Do: Look, Name: first.Name}
	case !pulls.Free:
		return Step{Do: Wait, At: now.Add(Quiet)}
	default:
		return Step{Do: Pull, Name: first.Name}
	}
}

// Room says whether an image may be pulled: the disk is below the low threshold of image garbage collection, a
// percentage, and stays below it with what the image is known to need. room is how many bytes are left up to there. A
// disk that is not known has no room. If the disk is full, news says that people have not been told yet.
func (l *List) Room(name string, disk eviction.Left, low int, now time.Time) (room uint64, ok, news bool) {
	e := l.find(name)
	room = Below(disk, low)
	if room == 0 {
		news, l.fullAt = l.fullAt.IsZero(), now
		return 0, false, news
	}
	l.fullAt = time.Time{}
	if e.Need > room {
		e.Held, e.Holds = now, max(e.Holds, 1)
		return room, false, false
	}
	return room, true, false
}
