// Package simtable prints the progress and the summary of a simulated run.
package simtable

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/troupe-dev/troupe/supervisor/sim/run"
)

// Write prints what a run came to.
func Write(w io.Writer, s *run.Summary) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // Flush tells
	}
	if s.Scenario != "" {
		row("scenario", "%s", s.Scenario)
	}
	row("seed", "%d", s.Seed)
	row("nodes", "%d", s.Nodes)
	row("pods running", "%d of %d", s.PodsRunning, s.Pods)
	row("start latency", "p50 %s, p90 %s, p99 %s", ms(s.Start.P50), ms(s.Start.P90), ms(s.Start.P99))
	row("restarts", "%d", s.Restarts)
	row("messages", "%d", s.Messages)
	row("simulated time", "%s in %s", seconds(s.SimSeconds), seconds(s.WallSeconds))
	if s.WallSeconds > 0 {
		row("speed", "%.3g simulated seconds per second", s.SimSeconds/s.WallSeconds)
	}
	row("heap", "%.1f MiB", float64(s.HeapBytes)/(1<<20))
	if s.PeakRSSBytes > 0 {
		row("peak RSS", "%.1f MiB", float64(s.PeakRSSBytes)/(1<<20))
	}
	row("trace hash", "%s", s.TraceHash)
	if s.Expectations > 0 {
		row("expectations", "%d, %d not met", s.Expectations, len(s.Failures))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, f := range s.Failures {
		if _, err := fmt.Fprintln(w, "NOT MET "+f); err != nil {
			return err
		}
	}
	if s.Interrupted {
		_, err := fmt.Fprintln(w, "interrupted: partial results")
		return err
	}
	return nil
}

func ms(v float64) string {
	return time.Duration(v * float64(time.Millisecond)).Round(time.Millisecond).String()
}

func seconds(v float64) string {
	d := time.Duration(v * float64(time.Second))
	if d > time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// Bar shows on one line of a terminal how far a run is.
type Bar struct {
	w    io.Writer
	now  func() time.Time
	last time.Time
	wide int
}

// NewBar makes a bar; now is the wall clock.
func NewBar(w io.Writer, now func() time.Time) *Bar { return &Bar{w: w, now: now} }

// often is how often the line is rewritten.
const often = 100 * time.Millisecond

// Show says how far a simulated run is.
func (b *Bar) Show(p run.Progress) { b.Say(func() string { return progress(p) }) }

// Say writes a text as the line, if the last one is not of a moment ago.
func (b *Bar) Say(text func() string) {
	if now := b.now(); now.Sub(b.last) >= often {
		b.last = now
		b.line(text())
	}
}

func progress(p run.Progress) string {
	const width = 30
	line := ""
	switch {
	case p.Of > 0:
		full := int(min(float64(p.Simulated)/float64(p.Of), 1) * width)
		line = fmt.Sprintf("[%s%s] %v of %v", strings.Repeat("#", full), strings.Repeat(".", width-full),
			p.Simulated.Truncate(time.Second), p.Of)
	default:
		line = fmt.Sprintf("%v simulated", p.Simulated.Truncate(time.Second))
	}
	return line + fmt.Sprintf(", %d of %d pods run, %s", p.Running, p.Pods, p.Doing)
}

// Clear takes the line away.
func (b *Bar) Clear() {
	if b.wide > 0 {
		b.line("")
		_, _ = io.WriteString(b.w, "\r") // it is only for the eyes
	}
}

func (b *Bar) line(text string) {
	pad := max(b.wide-len(text), 0)
	b.wide = len(text)
	_, _ = fmt.Fprintf(b.w, "\r%s%s", text, strings.Repeat(" ", pad)) // it is only for the eyes
}
