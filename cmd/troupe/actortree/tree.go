// Package actortree prints the actor tree of a running node.
package actortree

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
)

// Hung is the age from which a call stands out.
const Hung = 5 * time.Second

const reasonLimit = 140 // characters of a crash's reason

// node is an actor in the tree; without info, only a part of a path.
type node struct {
	name     string
	info     *kernel.ActorInfo
	children []*node
}

// build puts the actors, which are in order of path, below each other.
func build(actors []kernel.ActorInfo) *node {
	root := &node{}
	for i := range actors {
		at := root
		for part := range strings.SplitSeq(strings.Trim(actors[i].Path, "/"), "/") {
			n := slices.IndexFunc(at.children, func(c *node) bool { return c.name == part })
			if n < 0 {
				at.children = append(at.children, &node{name: part})
				n = len(at.children) - 1
			}
			at = at.children[n]
		}
		at.info = &actors[i]
	}
	return root
}

// nameLimit is how much is shown of a name, in characters, that has a label.
const nameLimit = 8

// title is the name for people; of one with a label, which says more, the label
// and as much of the name as finds it.
func (n *node) title() string {
	if n.info == nil || n.info.Label == "" {
		return screen.Line(n.name, 0)
	}
	return fmt.Sprintf("%s (%s)", screen.Line(n.info.Label, 0), screen.Line(n.name, nameLimit))
}

// line is a row of the drawing: an actor with its columns, or a note below one.
type line struct {
	cells []string
	note  string
	loud  bool
}

// Write draws the tree, and on top what it sums up to.
func Write(w io.Writer, t admin.Tree, color bool) error {
	d := drawing{now: t.At}
	for _, n := range build(t.Actors).children {
		d.draw(n, "", "", "")
	}
	rows := [][]string{header()}
	for _, l := range d.lines {
		if l.cells != nil {
			rows = append(rows, l.cells)
		}
	}
	widths := screen.Widths(nil, rows...)
	var b strings.Builder
	for _, s := range summary(t) {
		b.WriteString(s + "\n")
	}
	b.WriteString("\n" + screen.Bold(screen.Format(header(), widths), color) + "\n")
	for _, l := range d.lines {
		text := l.note
		if l.cells != nil {
			text = screen.Format(l.cells, widths)
		}
		b.WriteString(screen.Red(text, color && l.loud) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func header() []string {
	return []string{"ACTOR", "STATUS", "RESTARTS", "MAILBOX", "OLDEST", "HANDLING"}
}

type drawing struct {
	now   time.Time
	lines []line
}

// draw adds a node and what is below it. lead is before its own name, rest
// before what follows below its siblings' line.
func (d *drawing) draw(n *node, lead, branch, rest string) {
	cells := []string{lead + branch + n.title()}
	loud := false
	if n.info != nil {
		cells = append(cells, columns(n.info, d.now)...)
		loud = unwell(n.info, d.now)
	}
	d.lines = append(d.lines, line{cells: cells, loud: loud})
	below := lead + rest
	stem := below + "   "
	if len(n.children) > 0 {
		stem = below + "│  "
	}
	if n.info != nil {
		for _, note := range notes(n.info, d.now) {
			d.lines = append(d.lines, line{note: stem + note.note, loud: note.loud})
		}
	}
	for i, c := range n.children {
		if i == len(n.children)-1 {
			d.draw(c, below, "└─ ", "   ")
		} else {
			d.draw(c, below, "├─ ", "│  ")
		}
	}
}

func columns(a *kernel.ActorInfo, now time.Time) []string {
	oldest, handling := "-", "-"
	if a.Oldest != nil {
		oldest = ago(now, *a.Oldest)
	}
	if a.Handling != "" {
		handling = a.Handling
		if a.Since != nil {
			handling += " for " + ago(now, *a.Since)
		}
	}
	return []string{a.Status, strconv.Itoa(int(a.Restarts)), strconv.Itoa(a.Depth), oldest, handling}
}

func unwell(a *kernel.ActorInfo, now time.Time) bool {
	return a.Status != kernel.Running.String() || old(now, a.Oldest) || old(now, a.Since)
}

func old(now time.Time, at *time.Time) bool { return at != nil && now.Sub(*at) >= Hung }

// notes are the lines below an actor: its calls, and its last crash.
func notes(a *kernel.ActorInfo, now time.Time) []line {
	var out []line
	for i := range a.Effects {
		text, hung := call(&a.Effects[i], now)
		out = append(out, line{note: text, loud: hung})
	}
	if c := a.LastCrash; c != nil {
		out = append(out, line{note: crash(c, now), loud: a.Status != kernel.Running.String()})
	}
	return out
}

// call is one effect; hung ones have a mark that is seen without colors, too.
func call(e *kernel.EffectInfo, now time.Time) (text string, hung bool) {
	text = strings.TrimSpace(e.Kind + " " + e.Object)
	text = fmt.Sprintf("%s: %s for %s", screen.Line(text, 0), e.Phase, ago(now, e.Since))
	if e.HoldsSlot != "" {
		text += ", uses a slot of pool " + e.HoldsSlot
	}
	if e.Phase != kernel.EffectQueued && !e.Standing && now.Sub(e.Since) >= max(Hung, e.Patience) {
		return "‼ " + text + "  HUNG?", true
	}
	return "· " + text, false
}

func crash(c *kernel.CrashReport, now time.Time) string {
	text := fmt.Sprintf("✗ crashed %s ago on %s: %s", ago(now, c.At), orNothing(c.Message),
		screen.Line(c.Reason, reasonLimit))
	next := c.At.Add(c.RetryAfter)
	switch {
	case c.Decision == kernel.Escalate || c.Decision == kernel.Ended:
		text += " (" + c.Decision.String() + ")"
	case next.After(now):
		text += fmt.Sprintf(" (%s, next start in %s)", c.Decision, ago(next, now))
	default:
		text += fmt.Sprintf(" (%s, recent crashes: %d)", c.Decision, c.Crashes)
	}
	return text
}

func orNothing(message string) string {
	if message == "" {
		return "no message"
	}
	return message
}

// summary is what the tree sums up to, a line each.
func summary(t admin.Tree) []string {
	var restarts uint32
	quarantined, waiting, hung := 0, 0, 0
	for i := range t.Actors {
		a := &t.Actors[i]
		restarts += a.Restarts
		waiting += a.Depth
		if a.Status == kernel.Quarantined.String() {
			quarantined++
		}
		for j := range a.Effects {
			if _, h := call(&a.Effects[j], t.At); h {
				hung++
			}
		}
	}
	first := fmt.Sprintf("node %s at %s: %s, %s, %s quarantined, %s waiting, %s hung, %s, %d dropped",
		t.Node, t.At.Format(time.TimeOnly), count(len(t.Actors), "actor"), count(int(restarts), "restart"),
		strconv.Itoa(quarantined), count(waiting, "message"), count(hung, "call"),
		count(int(t.DeadLetters), "dead letter"), t.Dropped)
	out := []string{first}
	for _, p := range t.Pools {
		out = append(out, fmt.Sprintf("pool %s: %d of %d slots in use, %d waiting", p.Name, p.Held, p.Size, p.Waiting))
	}
	if n := len(t.Crashes); n > 0 {
		c := t.Crashes[n-1]
		out = append(out, fmt.Sprintf("last crash: %s: %s", c.Path, strings.TrimPrefix(crash(c, t.At), "✗ ")))
	}
	return out
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// ago is an age to a tenth of a second while that matters.
func ago(now, at time.Time) string {
	d := max(0, now.Sub(at))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
