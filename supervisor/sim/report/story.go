package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Story is what happened in one case of troupe chaos: pod by pod, in order of time.
type Story struct {
	// Case is the case as text, one line for each operation and fault; Verdict held, violated or
	// stale; Unreached are the lines that make it stale.
	Case, Verdict string
	Unreached     []string
	Figures       []StoryFigure
	// Lanes are so many nodes, then pods; Entries what happened to them, in order of time.
	Nodes   int
	Lanes   []string
	Entries []StoryEntry
}

// StoryFigure is a number at the top.
type StoryFigure struct {
	Name  string
	Value int
	Note  string
}

// StoryKind is the kind of a StoryEntry. At one instant, entries are in the order of kinds.
type StoryKind int

// The kinds.
const (
	StoryOperation StoryKind = iota // what the case does
	StoryFault                      // what the case lets go wrong
	StoryCrash                      // of an actor
	StoryMessage                    // that an actor handles
	StoryCall                       // an effect of an actor
	StoryRuntime                    // a change of a sandbox or container
	StoryEvent                      // as users see it
	StoryShown                      // a version of the pod in the API
	StoryBroke                      // here a rule was broken
)

// storyKinds are classes of the style sheet, and what people read.
var storyKinds = [...]struct{ class, text string }{
	{"operation", "operation"}, {"fault", "fault"}, {"crash", "crash"}, {"message", "message"}, {"call", "call"},
	{"runtime", "runtime"}, {"event", "event"}, {"shown", "status"}, {"broke", "rule broken"},
}

// StoryEntry is one thing that happened.
type StoryEntry struct {
	// At is when it began, Took how long it took.
	At, Took time.Duration
	// Lane is the index of its lane.
	Lane       int
	Kind       StoryKind
	What, Text string
	// Count is how often it came in a row, if more than once.
	Count int
	// Bad: it failed, or warns.
	Bad bool
}

// Sort puts the entries in order.
func (s *Story) Sort() {
	slices.SortStableFunc(s.Entries, func(a, b StoryEntry) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Kind, b.Kind))
	})
}

func (d *Data) validateStory() error {
	if d.Story == nil {
		return nil
	}
	for i, e := range d.Story.Entries {
		if e.At < 0 || e.At > d.Duration || e.Lane < 0 || e.Lane >= len(d.Story.Lanes) || e.Kind < 0 ||
			int(e.Kind) >= len(storyKinds) {
			return fmt.Errorf("report: Story.Entries[%d] (%q) is of kind %d, in lane %d of %d, at %v: the run is from 0 to %v",
				i, e.Text, e.Kind, e.Lane, len(d.Story.Lanes), e.At, d.Duration)
		}
	}
	return nil
}

// Around the text of the case in a page, for programs that read it. In between it is escaped HTML.
const (
	CaseBegin = `<pre id="case">`
	CaseEnd   = `</pre>`
)

// story is how a Story is shown.
type story struct {
	Case      []string
	Unreached []string
	Lanes     []string
	// Wide: there are too many lanes for columns.
	Wide    bool
	Kinds   []storyFilter
	Rows    []storyRow
	LeftOut string
	// Broke: there is a row where a rule was broken.
	Broke bool
}

// storyFilter shows or hides the entries of a kind.
type storyFilter struct {
	Class, Text string
	On          bool
	Count       string
}

type storyRow struct {
	// At is the time, Later how much of it has passed since what came before, if that is much.
	At, Later string
	// Mark is whether the page is to jump here.
	Mark             bool
	Class, Kind      string
	Column           int
	Lane, What, Text string
	Note             string
}

const (
	// mostLanes are as many columns as people can read beside each other.
	mostLanes = 7
	// mostRows are those from each end of a story.
	mostRows = 1200
	// longWhile is a pause that is told.
	longWhile = 5 * time.Second
)

func drawStory(s *Story) *story {
	if s == nil {
		return nil
	}
	out := &story{Unreached: s.Unreached, Wide: len(s.Lanes) > mostLanes}
	for line := range strings.Lines(s.Case) {
		out.Case = append(out.Case, short(strings.TrimSpace(line), 2000))
	}
	for _, l := range s.Lanes {
		out.Lanes = append(out.Lanes, short(l, 80))
	}
	counts := [len(storyKinds)]int{}
	last := time.Duration(0)
	for i, e := range s.Entries {
		counts[e.Kind]++
		if n := len(s.Entries); e.Kind > StoryFault && e.Kind < StoryBroke && i >= mostRows && i < n-mostRows {
			out.LeftOut = some(n-2*mostRows, "entry") + " in the middle of the run left out"
			continue
		}
		row := storyRow{
			At: instant(e.At), Class: storyKinds[e.Kind].class, Kind: storyKinds[e.Kind].text, Column: e.Lane + 2,
			Lane: out.Lanes[e.Lane], What: short(e.What, 160), Text: short(e.Text, 400), Note: note(&e),
		}
		if e.Bad {
			row.Class += " bad"
		}
		if e.At-last > longWhile {
			row.Later = "+" + axisTime(e.At-last)
		}
		last = e.At
		row.Mark = e.Kind == StoryBroke && counts[StoryBroke] == 1
		out.Broke = out.Broke || row.Mark
		out.Rows = append(out.Rows, row)
	}
	for k := StoryCrash; k < StoryBroke; k++ {
		if counts[k] > 0 {
			out.Kinds = append(out.Kinds, storyFilter{storyKinds[k].class, filterNames[k], k != StoryMessage, count(counts[k])})
		}
	}
	return out
}

var filterNames = map[StoryKind]string{
	StoryCrash: "Crashes", StoryMessage: "Messages", StoryCall: "Calls", StoryRuntime: "Runtime", StoryEvent: "Events",
	StoryShown: "Status in the API",
}

// note is how long an entry took, and how often it came.
func note(e *StoryEntry) string {
	var all []string
	if e.Took > 0 {
		all = append(all, "took "+span(e.Took))
	}
	if e.Count > 1 {
		all = append(all, fmt.Sprintf("%d times", e.Count))
	}
	return strings.Join(all, ", ")
}

// instant is a time to the millisecond: 2:05.120.
func instant(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%d:%02d.%03d", ms/60000, ms/1000%60, ms%1000)
}

// storyFigures are the numbers at the top.
func storyFigures(s *Story) (out []figure) {
	for _, f := range s.Figures {
		out = append(out, figure{strings.ToLower(strings.ReplaceAll(f.Name, " ", "-")), f.Name, count(f.Value), f.Note})
	}
	return out
}

// storyBadge says what the case has shown.
func storyBadge(s *Story) badge {
	class := map[string]string{"held": "good", "violated": "bad"}[s.Verdict]
	return badge{cmp.Or(class, "warn"), s.Verdict}
}
