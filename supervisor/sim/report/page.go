package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// page is what the template shows: texts as people read them, and places on axes.
type page struct {
	// Program is the command that the page is of.
	Program string
	Title   string
	Facts   []string
	Badges  []badge
	Command string
	Figures []figure
	Hash    string
	Version string

	Failures     []failure
	MoreFailures string // how many are not listed; empty if all are

	Time       []tick // the axis of time
	Phases     phaseChart
	Wide       lanes
	Narrow     lanes
	Events     []event
	MoreEvents string

	Starts startChart
	Heat   heatMap

	Story *story
}

type badge struct{ Class, Text string }

// figure is a number at the top: Name, Value large, Note small.
type figure struct{ ID, Name, Value, Note string }

type failure struct{ At, Want, Got, Where string }

// Lanes are the two layouts, if there are events.
func (p page) Lanes() []lanes {
	if p.Wide.Count == 0 {
		return nil
	}
	return []lanes{p.Wide, p.Narrow}
}

func newPage(d *Data) page {
	all := events(d)
	p := page{
		Program: "troupe sim", Story: drawStory(d.Story),
		Title: "Simulation", Facts: facts(d), Badges: badges(d), Figures: figures(d), Command: short(shell(d.Command), 4000),
		Hash: short(d.Figures.TraceHash, 128), Version: short(d.Version, 80),
		Time: timeTicks(d.Duration, axisTime), Phases: drawPhases(d), Starts: drawStarts(d), Heat: drawHeat(d),
		Events: all[:min(len(all), maxEvents)],
	}
	if d.Story != nil {
		p.Program = "troupe chaos"
	}
	if d.Title != "" {
		p.Title = short(d.Title, 160)
	}
	if more := len(all) - maxEvents; more > 0 {
		p.MoreEvents = some(more, "later event")
	}
	if d.Duration > 0 {
		p.Wide = layFlags("wide", all, d.Duration, leastWide)
		p.Narrow = layFlags("narrow", all, d.Duration, leastNarrow)
	}
	for _, f := range d.Failures[:min(len(d.Failures), maxFailures)] {
		p.Failures = append(p.Failures,
			failure{At: clock(f.At), Want: short(f.Want, 300), Got: short(f.Got, 300), Where: short(f.Where, 100)})
	}
	if more := len(d.Failures) - maxFailures; more > 0 {
		p.MoreFailures = some(more, "more failure")
	}
	return p
}

func facts(d *Data) []string {
	if d.Story != nil {
		return []string{fmt.Sprintf("seed %d", d.Seed), some(d.Figures.Nodes, "node"), some(d.Figures.Pods, "pod"),
			axisTime(d.Duration) + " simulated"}
	}
	var all []string
	if d.Scenario != "" {
		all = append(all, short(d.Scenario, 120))
	}
	return append(all, fmt.Sprintf("seed %d", d.Seed), some(d.Figures.Nodes, "node"), some(d.Figures.Pods, "pod"),
		axisTime(d.Duration)+" simulated")
}

func badges(d *Data) []badge {
	if d.Story != nil {
		return []badge{storyBadge(d.Story)}
	}
	var all []badge
	switch n := max(d.Expectations, len(d.Failures)); {
	case len(d.Failures) > 0:
		all = append(all, badge{"bad", fmt.Sprintf("%s of %s not met", count(len(d.Failures)), some(n, "expectation"))})
	case n > 0 && !d.Interrupted:
		all = append(all, badge{"good", "all of " + some(n, "expectation") + " met"})
	}
	if d.Interrupted {
		all = append(all, badge{"warn", "interrupted after " + clock(d.Duration)})
	}
	return all
}

func figures(d *Data) []figure {
	if d.Story != nil {
		return storyFigures(d.Story)
	}
	f := d.Figures
	start := func(id, name string, took time.Duration, note string) figure {
		if len(d.Starts) == 0 {
			return figure{id, name, "–", "no pod has started"}
		}
		return figure{id, name, span(took), note}
	}
	speed := figure{"speed", "Speed", "–", "no time has passed"}
	if f.Wall > 0 {
		speed.Value = significant(d.Duration.Seconds()/f.Wall.Seconds()) + "×"
		speed.Note = axisTime(d.Duration) + " simulated in " + span(f.Wall)
	}
	heap := figure{"heap", "Heap", size(f.HeapBytes), ""}
	if f.Pods > 0 {
		heap.Note = size(f.HeapBytes/uint64(f.Pods)) + " per pod"
	}
	messages := figure{"messages", "Messages", count(f.Messages), ""}
	if f.Wall > 0 {
		messages.Note = count(uint64(math.Round(float64(f.Messages)/f.Wall.Seconds()))) + " per s"
	}
	restarts := figure{"restarts", "Container restarts", count(f.Restarts), "none"}
	if f.Restarts > 0 && f.Pods > 0 {
		restarts.Note = trimmed(float64(f.Restarts)/float64(f.Pods)) + " per pod"
	}
	return []figure{
		{"running", "Pods running", count(f.PodsRunning), "of " + count(f.Pods) + " on " + some(f.Nodes, "node")},
		start("p50", "Start p50", f.StartP50, "half of the pods"),
		start("p90", "Start p90", f.StartP90, "9 of 10 pods"),
		start("p99", "Start p99", f.StartP99, "99 of 100 pods"),
		restarts, messages, speed, heap,
	}
}

// phaseChart is the chart of pods by phase over time.
type phaseChart struct {
	// Areas in the order in which they are drawn, each over the one before: the path of a phase
	// goes along the top of its pods and of all that are below them in the stack.
	Areas []area
	// Keys name the areas, from the bottom of the stack.
	Keys  []key
	Count []tick
	// Series is what the cross-hair reads.
	Series series
}

type area struct {
	Phase int
	Name  string
	Path  string
}

type key struct {
	Phase     int
	Name      string
	Now, Peak string
}

type series struct {
	End    int64       `json:"end"`    // ms
	At     []int64     `json:"at"`     // ms
	Phases []int       `json:"phases"` // the phases that Pods has rows for
	Pods   [][]float64 `json:"pods"`
}

// The drawing's own units, before it is stretched to the screen.
const (
	drawWide = 4800
	drawTall = 1000
)

func drawPhases(d *Data) phaseChart {
	if len(d.Phases) == 0 || d.Duration <= 0 {
		return phaseChart{}
	}
	bins := phaseBins(d.Phases, d.Duration, maxBins)
	most := 0.0
	for _, b := range bins {
		most = math.Max(most, b.upTo(phaseCount-1))
	}
	top, ticks := countTicks(most)
	c := phaseChart{Count: ticks, Series: series{End: d.Duration.Milliseconds()}}
	for _, b := range bins {
		c.Series.At = append(c.Series.At, b.at.Milliseconds())
	}
	last, peak := d.Phases[len(d.Phases)-1].Pods, peaks(d.Phases)
	for p := range phaseCount {
		if peak[p] == 0 {
			continue
		}
		c.Areas = append([]area{{int(p), p.String(), outline(bins, p, d.Duration, top)}}, c.Areas...)
		c.Keys = append(c.Keys, key{int(p), p.String(), count(last[p]), count(peak[p])})
		c.Series.Phases = append(c.Series.Phases, int(p))
		var pods []float64
		for _, b := range bins {
			pods = append(pods, math.Round(b.pods[p]*10)/10)
		}
		c.Series.Pods = append(c.Series.Pods, pods)
	}
	return c
}

// upTo is how many pods are in the phases up to this one.
func (b bin) upTo(last Phase) float64 {
	sum := 0.0
	for p := Ready; p <= last; p++ {
		sum += b.pods[p]
	}
	return sum
}

// outline is the path around the pods in the phases up to this one.
func outline(bins []bin, p Phase, end time.Duration, top float64) string {
	x := func(at time.Duration) int { return int(math.Round(drawWide * float64(at) / float64(end))) }
	y := func(b bin) int { return drawTall - int(math.Round(drawTall*b.upTo(p)/top)) }
	var path strings.Builder
	fmt.Fprintf(&path, "M%d %d", x(bins[0].at), drawTall)
	at := drawTall
	for _, b := range bins {
		if y(b) != at {
			at = y(b)
			fmt.Fprintf(&path, "H%dV%d", x(b.at), at)
		}
	}
	fmt.Fprintf(&path, "H%dV%dZ", drawWide, drawTall)
	return path.String()
}

// startChart is the histogram of start latencies.
type startChart struct {
	Bars  []startBar
	Marks []startMark
	Took  []tick
	Count []tick
	Log   bool
	Pods  string
}

type startBar struct {
	X, Y, W, H float64
	Title      string
}

// startMark is a percentile: a line, and a label in one of three rows above the plot.
type startMark struct {
	At    float64
	Name  string
	Value string
	Left  bool // the label is on the left of the line
	Row   int  // of the label, from 1 at the bottom
}

func drawStarts(d *Data) startChart {
	h := bars(d.Starts, maxBars)
	if len(h.bars) == 0 {
		return startChart{}
	}
	most, all := 0, 0
	for _, b := range h.bars {
		most, all = max(most, b.pods), all+b.pods
	}
	top, ticks := countTicks(float64(most))
	a := axis{h.log, h.bars[0].from, h.bars[len(h.bars)-1].to}
	c := startChart{Took: a.ticks(), Count: ticks, Log: h.log, Pods: some(all, "pod")}
	for _, b := range h.bars {
		if b.pods == 0 {
			continue
		}
		tall := round(drawTall * float64(b.pods) / top)
		x := a.at(b.from)
		c.Bars = append(c.Bars, startBar{
			X: x, W: round(a.at(b.to) - x), Y: round(drawTall - tall), H: tall,
			Title: span(b.from) + " – " + span(b.to) + ": " + some(b.pods, "pod"),
		})
	}
	for _, m := range []struct {
		name string
		took time.Duration
	}{{"p50", d.Figures.StartP50}, {"p90", d.Figures.StartP90}, {"p99", d.Figures.StartP99}} {
		c.Marks = append(c.Marks, startMark{At: a.at(m.took), Name: m.name, Value: span(m.took)})
	}
	placeLabels(c.Marks)
	return c
}

// labelRoom is how much of the narrowest plot a label needs beside its line, in per cent.
const labelRoom = 35

// placeLabels keeps the labels of three marks, which are from left to right, clear of the lines of
// the others: a line begins in the row of its own label and goes down.
func placeLabels(m []startMark) {
	rows := []int{2, 1, 3}
	switch {
	case m[2].At <= 100-labelRoom: // all on the right: the leftmost gets the top row
		rows = []int{3, 2, 1}
	case m[0].At >= labelRoom:
		rows = []int{1, 2, 3}
		m[0].Left, m[1].Left, m[2].Left = true, true, true
	default:
		m[1].Left, m[2].Left = m[1].At > 100-labelRoom, true
	}
	for i := range m {
		m[i].Row = rows[i]
	}
}
