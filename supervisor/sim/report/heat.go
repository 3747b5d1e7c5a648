package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// heatMap is what the template draws: rows of nodes, columns of time.
type heatMap struct {
	// Wide and Tall are the size of the drawing in columns and rows. The last column is cut where
	// the run ends.
	Wide float64
	Tall int
	// Pixels is how high it is.
	Pixels int
	Rows   []tick // names or numbers of nodes, beside the rows
	Named  bool   // Rows has names
	Cells  []heatCell
	// Tile is how high a row is where the rows are set apart; 0 where they are not.
	Tile int
	// Unit says what a cell is: "8 nodes × 15m".
	Unit string
	// Starts and Restarts are the most that a cell has.
	Starts, Restarts string
}

// heatCell is a rectangle: a cell, or a few beside each other that look the same.
type heatCell struct {
	X, Y, W int
	// Class says how it looks in each of the three modes.
	Class string
	// Down is how much of it is covered, from below, for nodes that were down; 0 is nothing. Where
	// at least half were, the class says so for the whole.
	Down float64
	// Under is where that begins, in rows.
	Under float64
	Title string
}

const (
	readyLevels = 8 // level 0 is none, 8 is all
	countLevels = 6 // level 0 is none, 6 is the most
)

func drawHeat(d *Data) heatMap {
	g := group(d.Heat, maxRows, maxColumns)
	if len(g.rows) == 0 || d.Duration <= 0 {
		return heatMap{}
	}
	var starts, restarts uint32
	for _, row := range g.rows {
		for _, c := range row.cells {
			starts, restarts = max(starts, c.Starts), max(restarts, c.Restarts)
		}
	}
	m := heatMap{
		Wide: round(float64(d.Duration) / float64(g.column)), Tall: len(g.rows), Pixels: len(g.rows) * rowPixels(len(g.rows)),
		Unit: some(g.rows[0].nodes, "node") + " × " + axisTime(g.column), Starts: count(starts), Restarts: count(restarts),
	}
	for y, row := range g.rows {
		m.Cells = append(m.Cells, drawRow(y, row, g.column, d.Duration, starts, restarts)...)
	}
	m.Rows, m.Named = rowTicks(g.rows)
	if m.Named {
		m.Tile = rowPixels(m.Tall)
	}
	return m
}

func drawRow(y int, row heatRow, column, end time.Duration, starts, restarts uint32) []heatCell {
	var cells []heatCell
	for x := 0; x < len(row.cells); {
		class, down := cellClass(row.cells[x], starts, restarts), downPart(row.cells[x])
		run, to := row.cells[x], x+1
		for to < len(row.cells) && cellClass(row.cells[to], starts, restarts) == class && downPart(row.cells[to]) == down {
			run.add(row.cells[to])
			to++
		}
		if class != "" {
			until := min(time.Duration(to)*column, end)
			title := row.name() + "\n" + clock(time.Duration(x)*column) + " – " + clock(until) + "\n" + run.describe()
			cells = append(cells,
				heatCell{X: x, Y: y, W: to - x, Class: class, Down: down, Under: round(float64(y+1) - down), Title: title})
		}
		x = to
	}
	return cells
}

// cellClass is empty where there is nothing to draw.
func cellClass(c Cell, starts, restarts uint32) string {
	if c.Looks == 0 {
		return ""
	}
	class := "idle"
	switch {
	case mostlyDown(c):
		class = "down"
	case c.Pods > 0:
		class = fmt.Sprintf("r%d", readyLevel(c))
	}
	if c.Starts > 0 {
		class += fmt.Sprintf(" s%d", countLevel(c.Starts, starts))
	}
	if c.Restarts > 0 {
		class += fmt.Sprintf(" x%d", countLevel(c.Restarts, restarts))
	}
	return class
}

func mostlyDown(c Cell) bool { return c.Down > 0 && 2*c.Down >= c.Looks }

// downPart is the share of the looks with the node down, in fifths and rounded up, if it is less
// than a half: even one of many nodes must be visible.
func downPart(c Cell) float64 {
	if c.Looks == 0 || mostlyDown(c) {
		return 0
	}
	return math.Ceil(5*float64(c.Down)/float64(c.Looks)) / 5
}

// readyLevel is highest only where all are ready, and lowest only where none is.
func readyLevel(c Cell) int {
	switch c.Ready {
	case 0:
		return 0
	case c.Pods:
		return readyLevels
	default:
		return 1 + min(readyLevels-2, int((readyLevels-1)*float64(c.Ready)/float64(c.Pods)))
	}
}

// countLevel is of n, which is not 0, by the logarithm: a few must be seen beside many.
func countLevel(n, most uint32) int {
	share := math.Log1p(float64(n)) / math.Log1p(float64(most))
	return min(countLevels, max(1, int(math.Ceil(countLevels*share)))) // rounding may go beyond
}

func (r heatRow) name() string {
	first := short(r.first, 20)
	if r.nodes == 1 {
		return first
	}
	return first + " to " + short(r.last, 20) + " (" + some(r.nodes, "node") + ")"
}

func (c Cell) describe() string {
	var parts []string
	if c.Pods == 0 {
		parts = append(parts, "no pods")
	} else {
		share := 100 * float64(c.Ready) / float64(c.Pods)
		// Neither all nor none is shown where it is not so.
		switch {
		case c.Ready < c.Pods && share > 99.9:
			share = 99.9
		case c.Ready > 0 && share < 0.1:
			share = 0.1
		}
		parts = append(parts,
			fmt.Sprintf("%s %% ready of %s pods a node", trimmed(share), trimmed(float64(c.Pods)/float64(c.Looks))))
	}
	if c.Starts > 0 {
		parts = append(parts, some(c.Starts, "start"))
	}
	if c.Restarts > 0 {
		parts = append(parts, some(c.Restarts, "restart"))
	}
	if c.Down > 0 {
		parts = append(parts, fmt.Sprintf("down %s %% of the time", trimmed(100*float64(c.Down)/float64(c.Looks))))
	}
	return strings.Join(parts, ", ")
}

// rowPixels is how high a row is where there are so many.
func rowPixels(rows int) int {
	switch {
	case rows <= namedRows:
		return 18
	case rows <= 30:
		return 10
	default:
		return 7
	}
}

// namedRows is how many rows have room for a name each.
const namedRows = 14

// rowTicks are the names of the nodes if each row is one and has room for it, and else their
// numbers, counted from 1, beside some of the rows.
func rowTicks(rows []heatRow) (ticks []tick, named bool) {
	middle := func(i int) float64 { return round(100 * (float64(i) + 0.5) / float64(len(rows))) }
	if len(rows) <= namedRows && rows[0].nodes == 1 {
		for i, r := range rows {
			ticks = append(ticks, tick{At: middle(i), Text: short(r.first, 13), Title: short(r.first, 253)})
		}
		return ticks, true
	}
	for i := 0; i < len(rows); i += max(1, ceilDiv(len(rows), 6)) {
		ticks = append(ticks, tick{At: middle(i), Text: "#" + count(rows[i].begin+1)})
	}
	return ticks, false
}
