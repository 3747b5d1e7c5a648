package actortree

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
)

// Changes tells what is new from one tree to the next, for outputs that are no
// terminal: actors that come, go, change their status or crash, and calls that
// hang and that come back.
type Changes struct {
	known map[string]string
	hung  map[kernel.EffectID]string
	begun bool
}

// Lines are what is new in t.
func (c *Changes) Lines(t admin.Tree) []string {
	at := t.At.Format(time.TimeOnly)
	known, hung := map[string]string{}, map[kernel.EffectID]string{}
	var out []string
	for i := range t.Actors {
		a := &t.Actors[i]
		state := fmt.Sprintf("%s, %s", a.Status, count(int(a.Restarts), "restart"))
		if a.LastCrash != nil && a.Crashes > 0 {
			state += fmt.Sprintf(", %d crashes: %s", a.Crashes, screen.Line(a.LastCrash.Reason, reasonLimit))
		}
		who := a.Path
		if a.Label != "" {
			who += " (" + a.Label + ")"
		}
		known[who] = state
		if c.begun && c.known[who] != state {
			out = append(out, at+" "+who+" "+state)
		}
		for j := range a.Effects {
			e := &a.Effects[j]
			text, loud := call(e, t.At)
			if !loud {
				continue
			}
			hung[e.ID] = who + " " + strings.TrimSpace(e.Kind+" "+e.Object)
			if _, told := c.hung[e.ID]; !told {
				out = append(out, at+" "+who+" "+text)
			}
		}
	}
	var gone []string
	for who := range c.known { // order-free: sorted below
		if _, ok := known[who]; !ok {
			gone = append(gone, at+" "+who+" is gone")
		}
	}
	slices.Sort(gone)
	var back []string
	for id, what := range c.hung { // order-free: sorted below
		if _, ok := hung[id]; !ok {
			back = append(back, at+" "+what+": no longer hangs")
		}
	}
	slices.Sort(back)
	if !c.begun {
		out = append(summary(t), out...)
	}
	c.known, c.hung, c.begun = known, hung, true
	return append(append(out, gone...), back...)
}
