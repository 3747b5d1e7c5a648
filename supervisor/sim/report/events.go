package report

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// event is a mark or a failure, as the list of events has it.
type event struct {
	Number int
	// Kind is "step", "fault" or "failed": a class of the style sheet, too.
	Kind        string
	At          string
	Text, Where string

	at, until time.Duration
}

// kinds go by how much they ask to be looked at.
var kinds = []string{"step", "fault", "failed"}

// events are the marks and the failures in order of time, numbered from 1.
func events(d *Data) []event {
	var all []event
	for _, m := range d.Marks {
		e := event{Kind: kinds[0], At: clock(m.At), Text: short(m.Text, 200), Where: short(m.Where, 100), at: m.At,
			until: min(m.Until, d.Duration)}
		if m.Kind == Fault {
			e.Kind = kinds[1]
		}
		if m.Until > m.At {
			e.At += " – " + clock(m.Until)
		}
		all = append(all, e)
	}
	for _, f := range d.Failures {
		text := "Not met: " + short(f.Want, 100) + ". There was: " + short(f.Got, 100)
		all = append(all, event{Kind: kinds[2], At: clock(f.At), Text: text, Where: short(f.Where, 100), at: f.At})
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for i := range all {
		all[i].Number = i + 1
	}
	return all
}

// flag stands over the axis of time for one event, or for several that follow each other where
// there is no room for each.
type flag struct {
	// Label is the number of the event, or the first and the last: "3–7".
	Label string
	Kind  string
	// At is its place in per cent, Half half its width in pixels, Lane its row, from 0 at the top.
	At, Half float64
	Lane     int
	Title    string
	// Target is the number of the event in the list; 0 if the list is too short for it.
	Target int

	first, last int
}

// extent is an event that lasted, in the lane of its flag.
type extent struct {
	Kind     string
	At, Wide float64 // per cent
	Lane     int
}

// lanes are the flags over an axis of at least some width.
type lanes struct {
	Class   string
	Count   int
	Flags   []flag
	Extents []extent
}

// A screen shows one of two layouts, by its width; see .wide and .narrow in the style sheet. These are
// the least widths of the axis in each, in pixels.
const (
	leastWide   = 640.0
	leastNarrow = 180.0
)

const maxLanes = 3

// half is half the width of a label, in pixels.
func half(label string) float64 { return float64(6 + 4*len([]rune(label))) }

// centre is where the middle of a flag is on an axis of this width, in pixels: at its time, but not
// beyond the ends.
func (f *flag) centre(width float64) float64 {
	return min(max(f.Half, width*f.At/100), width-f.Half)
}

// layFlags makes a flag for each event, if there is room. If not, the axis is cut into as many parts
// as there is room for, and the events of a part share a flag.
func layFlags(class string, all []event, end time.Duration, width float64) lanes {
	each := func(e event) int { return e.Number }
	flags := joined(all, end, each)
	count, fit := place(flags, width)
	for parts := 64; !fit; parts-- {
		flags = joined(all, end, func(e event) int { return int(float64(parts) * percent(e.at, end) / 101) })
		count, fit = place(flags, width)
	}
	return lanes{class, count, flags, extents(all, flags, end)}
}

// joined has one flag for events that follow each other and are of the same part.
func joined(all []event, end time.Duration, part func(event) int) []flag {
	var flags []flag
	for i, e := range all {
		if i > 0 && part(e) == part(all[i-1]) {
			flags[len(flags)-1].join(e, all)
			continue
		}
		f := flag{
			Label: strconv.Itoa(e.Number), Kind: e.Kind, At: percent(e.at, end), Title: e.At + " " + e.Text,
			first: e.Number, last: e.Number,
		}
		f.Half = half(f.Label)
		if e.Number <= maxEvents {
			f.Target = e.Number
		}
		flags = append(flags, f)
	}
	return flags
}

// join adds the event that follows those of the flag.
func (f *flag) join(e event, all []event) {
	f.last = e.Number
	f.Label = strconv.Itoa(f.first) + "–" + strconv.Itoa(f.last)
	f.Half = half(f.Label)
	f.Title = some(f.last-f.first+1, "event") + " from " + clock(all[f.first-1].at) + " to " + clock(e.at)
	f.Kind = kinds[max(slices.Index(kinds, f.Kind), slices.Index(kinds, e.Kind))]
}

// place puts each flag into the first lane that has room, and says how many are used and whether
// there was room for all. A single flag always has room.
func place(flags []flag, width float64) (count int, fit bool) {
	var free [maxLanes]float64 // where each lane begins to have room
	for i := range flags {
		f := &flags[i]
		at := f.centre(width)
		f.Lane = slices.IndexFunc(free[:], func(from float64) bool { return at-f.Half >= from })
		if f.Lane < 0 {
			return 0, false
		}
		free[f.Lane] = at + f.Half
		count = max(count, f.Lane+1)
	}
	return count, true
}

// extents are those of the events that lasted. Of too many to be told apart there are none.
func extents(all []event, flags []flag, end time.Duration) []extent {
	const most = 16
	var long []extent
	for _, f := range flags {
		for _, e := range all[f.first-1 : f.last] {
			if e.until > e.at {
				long = append(long, extent{
					Kind: e.Kind, At: percent(e.at, end), Wide: round(percent(e.until, end) - percent(e.at, end)), Lane: f.Lane,
				})
			}
		}
	}
	if len(long) > most {
		return nil
	}
	return long
}
