package actortest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
)

// Transcript is what an actor has said, one line for each message and call. A line may begin with who
// was told it, and a colon: "web: found 1".
type Transcript struct {
	rig   *Rig
	lines []string
}

// NewTranscript makes a transcript beside that of the Rig itself.
func (r *Rig) NewTranscript() *Transcript { return &Transcript{rig: r} }

// Say adds a line.
func (t *Transcript) Say(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// Lines are those since the last comparison.
func (t *Transcript) Lines() []string { return slices.Clone(t.lines) }

// Count is how many lines since the last comparison are this one.
func (t *Transcript) Count(line string) (n int) {
	for _, l := range t.lines {
		if l == line {
			n++
		}
	}
	return n
}

// Keep forgets the lines that do not begin with one of these.
func (t *Transcript) Keep(beginnings ...string) {
	t.lines = slices.DeleteFunc(t.lines, func(line string) bool {
		return !slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(line, b) })
	})
}

// Forget forgets all lines.
func (t *Transcript) Forget() { t.lines = nil }

// Want handles all messages, compares the lines since the last time, and forgets them. If they are
// others, the test ends.
func (t *Transcript) Want(what string, want ...string) {
	t.rig.T.Helper()
	t.rig.Settle()
	got := t.lines
	t.lines = nil
	if !slices.Equal(got, want) {
		t.rig.T.Fatalf("%s: at %v was said\n  %s\nwant\n  %s",
			what, t.rig.Since(), strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// WantAfter lets time pass, and compares as Want does.
func (t *Transcript) WantAfter(what string, d time.Duration, want ...string) {
	t.rig.T.Helper()
	t.rig.Advance(d)
	t.Want(what, want...)
}

// WantByListener compares as Want does, but the order counts for each listener on its own: two actors
// run side by side.
func (t *Transcript) WantByListener(what string, want ...string) {
	t.rig.T.Helper()
	t.rig.Settle()
	slices.SortStableFunc(t.lines, byListener)
	slices.SortStableFunc(want, byListener)
	t.Want(what, want...)
}

func byListener(x, y string) int {
	to, _, _ := strings.Cut(x, ":")
	other, _, _ := strings.Cut(y, ":")
	return strings.Compare(to, other)
}

// Events are the events that an actor records, as lines "POD UID: REASON: MESSAGE", "NODE: REASON: MESSAGE", or
// "KIND NAMESPACE/NAME UID: REASON: MESSAGE". Each annotation follows as "; KEY=VALUE".
type Events struct{ *Transcript }

// NewEvents makes a recorder of events.
func (r *Rig) NewEvents() Events { return Events{r.NewTranscript()} }

// Record implements port.Recorder.
func (e Events) Record(event port.Event) {
	of := event.Node
	switch o := event.Of; {
	case event.Pod != nil:
		of = string(event.Pod.UID)
	case o != nil:
		of = fmt.Sprintf("%s %s/%s %s", o.Kind, o.Namespace, o.Name, o.UID)
	}
	var annotations strings.Builder
	for _, a := range event.Annotations {
		annotations.WriteString("; " + a.Key + "=" + a.Value)
	}
	e.Say("%s: %s: %s%s", of, event.Reason, event.Message, annotations.String())
}
