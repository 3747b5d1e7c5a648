package podtable

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
)

// Changes tells which rows are new or changed from one view to the next, for
// outputs that are no terminal, as kubectl get pods --watch does.
type Changes struct {
	known    map[types.UID]Row
	problems []string
	widths   []int
}

// Lines are the rows of v that are news, the header before the first of them,
// and the problems that came and went.
func (c *Changes) Lines(v podview.View, o Options) []string {
	var out []string
	now := Rows(v, o)
	known := map[types.UID]Row{}
	var news [][]string
	for _, r := range now {
		known[r.Key] = r
		if before, ok := c.known[r.Key]; !ok || before.Same != r.Same {
			news = append(news, r.Cells)
		}
	}
	var gone []Row
	for uid, r := range c.known { // order-free: sorted below
		if _, ok := known[uid]; !ok {
			gone = append(gone, r)
		}
	}
	slices.SortFunc(gone, func(a, b Row) int { return slices.Compare(a.Cells, b.Cells) })
	for _, r := range gone {
		cells := slices.Clone(r.Cells)
		cells[3] = "Removed"
		news = append(news, cells)
	}
	if c.widths == nil && len(news) > 0 {
		news = append([][]string{Header(o)}, news...)
	}
	c.widths = screen.Widths(c.widths, news...)
	for _, cells := range news {
		out = append(out, screen.Format(cells, c.widths))
	}
	problems := Problems(v)
	for _, p := range problems {
		if !slices.Contains(c.problems, p) {
			out = append(out, "problem: "+p)
		}
	}
	for _, p := range c.problems {
		if !slices.Contains(problems, p) {
			out = append(out, "solved: "+p)
		}
	}
	c.known, c.problems = known, problems
	return out
}
