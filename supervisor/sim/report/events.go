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
		e := event{Kind: kinds[0], At: clock(m.At), Text: short(m.Text, 200), Where: short(m.Where, 100), at: m.At, until: min(m.Until, d.Duration)}
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

// extent is an event that lasted.
type extent struct {
	Kind     string
	At, Wide float64 // per cent
	Lane     int
}

const (
	maxLanes = 3
	// Flags don't overlap where the axis is at least this wide, in pixels: a phone held upright.
	narrowest = 215.0
)

// half is half the width of a label, in pixels.
func half(label string) float64 { return float64(6 + 4*len([]rune(label))) }

// centre is where the middle of a label is on the narrowest axis, in pixels: at its time, but not
// beyond the ends.
func centre(at, half float64) float64 {
	return min(max(half, narrowest*at/100), narrowest-half)
}

// flags puts events into lanes, each into the first that has room. If there are too many for that,
// those that find no room are added to the flag before. The lanes that are used are returned too.
func flags(all []event, end time.Duration) (put []flag, lanes int) {
	if put, lanes = layFlags(all, end, 0); put != nil {
		return put, lanes
	}
	return layFlags(all, end, half(strconv.Itoa(len(all))+"–"+strconv.Itoa(len(all))))
}

// layFlags leaves room so that each flag may become as wide as twice widest, in pixels, and come to
// stand for several events. With 0 it leaves room for the flag as it is, and gives up where events
// would have to be joined.
func layFlags(all []event, end time.Duration, widest float64) (put []flag, lanes int) {
	var free [maxLanes]float64 // where each lane begins to have room
	for _, e := range all {
		f := newFlag(e, end)
		space := max(f.Half, widest)
		at := centre(f.At, space)
		f.Lane = slices.IndexFunc(free[:], func(from float64) bool { return at-space >= from })
		switch {
		case f.Lane >= 0:
			free[f.Lane] = at + space
			lanes = max(lanes, f.Lane+1)
			put = append(put, f)
		case widest == 0:
			return nil, 0
		default:
			put[len(put)-1].join(e, all)
		}
	}
	return put, lanes
}

func newFlag(e event, end time.Duration) flag {
	f := flag{
		Label: strconv.Itoa(e.Number), Kind: e.Kind, At: percent(e.at, end), Title: e.At + " " + e.Text,
		first: e.Number, last: e.Number,
	}
	f.Half = half(f.Label)
	if e.Number <= maxEvents {
		f.Target = e.Number
	}
	return f
}

// join adds the event that follows those of the flag.
func (f *flag) join(e event, all []event) {
	f.last = e.Number
	f.Label = strconv.Itoa(f.first) + "–" + strconv.Itoa(f.last)
	f.Half = half(f.Label)
	f.Title = some(f.last-f.first+1, "event") + " from " + clock(all[f.first-1].at) + " to " + clock(e.at)
	f.Kind = kinds[max(slices.Index(kinds, f.Kind), slices.Index(kinds, e.Kind))]
}

// extents are those of the events that lasted, in the lane of their flag; of very many the first.
func extents(all []event, put []flag, end time.Duration) []extent {
	var long []extent
	for _, f := range put {
		for _, e := range all[f.first-1 : f.last] {
			if e.until > e.at && len(long) < maxEvents {
				long = append(long, extent{
					Kind: e.Kind, At: percent(e.at, end), Wide: round(percent(e.until, end) - percent(e.at, end)), Lane: f.Lane,
				})
			}
		}
	}
	return long
}
