// Package podline prints the timeline of a pod: why it is not ready, and what happened
// to it.
package podline

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

const (
	// textLimit bounds what was said, in characters, soon what continues for less.
	textLimit = 200
	soon      = time.Second
	timeForm  = "15:04:05.000"
)

// Options are how it is drawn.
type Options struct {
	Color bool
	// Newest is how many of the newest entries are drawn, 0 for all.
	Newest int
}

// Draw gives the whole.
func Draw(t admin.Timeline, o Options) string {
	var b strings.Builder
	for _, line := range head(t, o) {
		b.WriteString(line + "\n")
	}
	header := []string{"TIME", "AGO", "KIND", "WHAT", "TOOK", "DETAILS"}
	type row struct {
		cells []string
		bad   bool
	}
	rows := make([]row, 0, len(t.Entries)+1)
	for i := range t.Entries {
		if t.Dropped > 0 && i == t.DroppedAfter {
			rows = append(rows, row{cells: []string{"…", "", "", fmt.Sprintf("(%d entries left out)", t.Dropped)}})
		}
		rows = append(rows, row{cells(&t.Entries[i], t.At), t.Entries[i].Bad})
	}
	if o.Newest > 0 && len(rows) > o.Newest {
		rows = rows[len(rows)-o.Newest:]
	}
	all := [][]string{header}
	for _, r := range rows {
		all = append(all, r.cells)
	}
	widths := screen.Widths(nil, all...)
	b.WriteString(screen.Bold(screen.Format(header, widths), o.Color) + "\n")
	for _, r := range rows {
		b.WriteString(screen.Red(screen.Format(r.cells, widths), o.Color && r.bad) + "\n")
	}
	return b.String()
}

// head says which pod it is, how it is, and why.
func head(t admin.Timeline, o Options) []string {
	title := fmt.Sprintf("%s/%s (%s)", screen.Line(t.Namespace, 0), screen.Line(t.Name, 0), screen.Line(string(t.UID), 0))
	lines := []string{screen.Bold(title, o.Color) + ": " + state(t)}
	if t.Pod != nil && t.Pod.Why != nil {
		why := t.Pod.Why
		lines = append(lines, screen.Red("Why:  "+screen.Line(why.Text, 0), o.Color && why.Wrong))
		if why.Next != "" {
			lines = append(lines, "Do:   "+screen.Line(why.Next, 0))
		}
	}
	return append(lines, "")
}

func state(t admin.Timeline) string {
	switch {
	case t.Pod != nil:
		return stateOf(t.Pod)
	case t.Ended != nil:
		return fmt.Sprintf("removed from this node at %s", t.Ended.Local().Format(time.DateTime))
	case t.Silent != "":
		return screen.Line(t.Silent, 0)
	}
	return "this node no longer has it"
}

func stateOf(p *podview.Pod) string {
	s := p.Phase
	switch {
	case p.Life == "Terminating" || p.Life == "Rejected":
		s = p.Life
	case p.Ready:
		s += ", ready"
	case p.Phase != "Succeeded":
		s += ", not ready"
	}
	if p.Restarts > 0 {
		s += fmt.Sprintf(", restarts: %d", p.Restarts)
	}
	return s
}

func cells(e *timeline.Entry, now time.Time) []string {
	newest := e.At
	if e.Last != nil {
		newest = *e.Last
	}
	kind := e.Kind
	if e.By != "" {
		kind += " of " + e.By
	}
	what := strings.TrimSpace(e.What + " " + e.Object)
	if e.Count > 1 {
		what += fmt.Sprintf(" ×%d", e.Count)
	}
	return []string{
		e.At.Local().Format(timeForm), age(now, newest), screen.Line(kind, 0), screen.Line(what, textLimit), took(e, now),
		screen.Middle(said(e), textLimit),
	}
}

func said(e *timeline.Entry) string {
	if e.Kind != timeline.Call.String() || goes(e) || e.Phase == "finished" {
		return e.Text
	}
	if e.Text == "" {
		return e.Phase
	}
	return e.Phase + ": " + e.Text
}

// goes says that a call continues.
func goes(e *timeline.Entry) bool { return e.Phase == "queued" || e.Phase == "running" }

func took(e *timeline.Entry, now time.Time) string {
	switch {
	case e.Kind != timeline.Call.String():
		return ""
	case goes(e):
		return e.Phase + " " + age(now, e.At)
	case e.Took == 0 && e.Phase != "finished":
		return ""
	case e.Waited > 10*time.Millisecond:
		return fmt.Sprintf("%v +%v queued", short(e.Took), short(e.Waited))
	}
	return short(e.Took).String()
}

// short leaves of a duration what counts.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= 100*time.Microsecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

func age(now, at time.Time) string { return duration.HumanDuration(max(0, now.Sub(at))) }

// Changes gives what is new of a timeline that is asked for again and again.
type Changes struct {
	why   string
	shown map[uint32]string
	uid   string
}

// Lines are the entries that are new or have come to an end, and the reason why
// the pod is not ready if it is another.
func (c *Changes) Lines(t admin.Timeline) []string {
	if c.shown == nil || c.uid != string(t.UID) {
		*c = Changes{shown: map[uint32]string{}, uid: string(t.UID)}
	}
	var lines []string
	now := map[uint32]string{}
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Phase == "queued" || e.Phase == "running" && t.At.Sub(e.At) < soon {
			continue // its end says more
		}
		key := fmt.Sprint(e.Phase, e.Count)
		now[e.Seq] = key
		if c.shown[e.Seq] == key {
			continue
		}
		x := cells(e, t.At)
		text := x[0] + "  " + x[2] + ": " + x[3]
		for _, more := range x[4:] {
			if more != "" {
				text += ": " + more
			}
		}
		lines = append(lines, text)
	}
	c.shown = now
	if why := whyOf(t); why != c.why {
		c.why = why
		lines = append(lines, t.At.Local().Format(timeForm)+"  "+why)
	}
	return lines
}

func whyOf(t admin.Timeline) string {
	if t.Pod != nil && t.Pod.Why != nil {
		return state(t) + ": " + screen.Line(t.Pod.Why.Text, 0)
	}
	return state(t)
}
