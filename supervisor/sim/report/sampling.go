package report

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// What a report draws at most, however much there is: it bounds the size of the file, and more would
// not be seen on a screen.
const (
	maxBins     = 480
	maxRows     = 48
	maxColumns  = 80
	maxBars     = 40
	maxEvents   = 100
	maxFailures = 50
)

// bin has the mean number of pods in each phase from its time until that of the next bin.
type bin struct {
	at   time.Duration
	pods [phaseCount]float64
}

// phaseBins makes at most limit bins of the looks. Where there are more looks than that, bins are of
// equal width, and a look counts by how long it held: the pod-seconds of each phase stay the same.
func phaseBins(looks []PhaseSample, end time.Duration, limit int) []bin {
	looks = lastOfEachTime(looks)
	if len(looks) <= limit {
		bins := make([]bin, len(looks))
		for i, s := range looks {
			bins[i].at = s.At
			for p, n := range s.Pods {
				bins[i].pods[p] = float64(n)
			}
		}
		return bins
	}
	begin := looks[0].At
	edge := func(i int) time.Duration {
		return begin + time.Duration(math.Round(float64(end-begin)*float64(i)/float64(limit)))
	}
	bins := make([]bin, limit)
	look := 0
	for i := range bins {
		from, to := edge(i), edge(i+1)
		bins[i].at = from
		for at := from; at < to; {
			for look+1 < len(looks) && looks[look+1].At <= at {
				look++
			}
			until := to
			if look+1 < len(looks) {
				until = min(until, looks[look+1].At)
			}
			share := float64(until-at) / float64(to-from)
			for p, n := range looks[look].Pods {
				bins[i].pods[p] += float64(n) * share
			}
			at = until
		}
	}
	return bins
}

// lastOfEachTime leaves out the looks that did not hold for any time.
func lastOfEachTime(looks []PhaseSample) []PhaseSample {
	var kept []PhaseSample
	for _, s := range looks {
		if n := len(kept); n > 0 && kept[n-1].At == s.At {
			kept[n-1] = s
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// peaks are the most pods that each phase had at any look.
func peaks(looks []PhaseSample) PhaseCounts {
	var most PhaseCounts
	for _, s := range looks {
		for p, n := range s.Pods {
			most[p] = max(most[p], n)
		}
	}
	return most
}

// add puts what happened in another cell to this one.
func (c *Cell) add(o Cell) {
	c.Looks += o.Looks
	c.Down += o.Down
	c.Pods += o.Pods
	c.Ready += o.Ready
	c.Starts += o.Starts
	c.Restarts += o.Restarts
}

// heatRow is a number of nodes that are neighbours.
type heatRow struct {
	first, last string // names
	begin       int    // place of the first among all nodes
	nodes       int
	cells       []Cell // all rows have the same number of them
}

// grouped is a heat map that is small enough to be drawn.
type grouped struct {
	column time.Duration
	rows   []heatRow
}

// group adds up neighbours, in nodes and in time, until there are at most rows × columns.
func group(h Heat, rows, columns int) grouped {
	longest := 0
	for _, n := range h.Nodes {
		longest = max(longest, len(n.Cells))
	}
	tall, wide := ceilDiv(len(h.Nodes), rows), ceilDiv(longest, columns)
	if longest == 0 {
		return grouped{}
	}
	g := grouped{column: h.Column * time.Duration(wide)}
	for nodes := range slices.Chunk(h.Nodes, tall) {
		row := heatRow{
			first: nodes[0].Name, last: nodes[len(nodes)-1].Name, begin: len(g.rows) * tall, nodes: len(nodes),
			cells: make([]Cell, ceilDiv(longest, wide)),
		}
		for _, n := range nodes {
			for i, c := range n.Cells {
				row.cells[i/wide].add(c)
			}
		}
		g.rows = append(g.rows, row)
	}
	return g
}

func ceilDiv(n, by int) int { return (n + by - 1) / by }

// bar has the pods that took at least from, and less than to.
type bar struct {
	from, to time.Duration
	pods     int
}

// histogram is a distribution, in bars that follow each other without a gap. They have the same
// width on the axis, which is logarithmic where the slowest takes much longer than most.
type histogram struct {
	log  bool
	bars []bar
}

// Where the slowest is this many times the median, a linear axis would show one bar and a long tail.
const longTail = 8

// bars makes at most limit bars.
func bars(starts []Latency, limit int) histogram {
	starts = slices.DeleteFunc(slices.Clone(starts), func(l Latency) bool { return l.Pods == 0 })
	if len(starts) == 0 {
		return histogram{}
	}
	slices.SortFunc(starts, func(a, b Latency) int { return cmp.Compare(a.Took, b.Took) })
	slowest := starts[len(starts)-1].Took
	h := histogram{log: slowest > longTail*max(median(starts), time.Millisecond)}
	edges := linearEdges(slowest, limit)
	if h.log {
		edges = logEdges(starts[0].Took, slowest, limit)
	}
	for i := range len(edges) - 1 {
		h.bars = append(h.bars, bar{from: edges[i], to: edges[i+1]})
	}
	i := 0
	for _, l := range starts {
		for i+1 < len(h.bars) && l.Took >= h.bars[i].to {
			i++
		}
		h.bars[i].pods += l.Pods
	}
	return h
}

// median of latencies that are sorted.
func median(starts []Latency) time.Duration {
	all := 0
	for _, l := range starts {
		all += l.Pods
	}
	below := 0
	for _, l := range starts {
		if below += l.Pods; 2*below >= all {
			return l.Took
		}
	}
	return 0
}

// linearEdges are from 0 to beyond the slowest, in steps that people can read.
func linearEdges(slowest time.Duration, limit int) []time.Duration {
	step := max(time.Millisecond, niceStep(slowest/time.Duration(limit-1)))
	edges := []time.Duration{0}
	for last := time.Duration(0); last <= slowest; edges = append(edges, last) {
		last += step
	}
	return edges
}

// logEdges are from at most the fastest, or a millisecond, to beyond the slowest: equal parts of
// each power of ten.
func logEdges(fastest, slowest time.Duration, limit int) []time.Duration {
	fastest = max(fastest, time.Millisecond)
	decades := math.Log10(float64(slowest) / float64(fastest))
	parts := math.Max(1, math.Min(20, math.Floor(float64(limit-2)/decades)))
	edge := func(i float64) time.Duration { return time.Duration(math.Round(math.Pow(10, i/parts))) }
	i := math.Floor(parts * math.Log10(float64(fastest)))
	edges := []time.Duration{edge(i)}
	for edges[len(edges)-1] <= slowest {
		i++
		edges = append(edges, edge(i))
	}
	return edges
}
