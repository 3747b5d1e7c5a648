package report

import (
	"errors"
	"fmt"
	"time"
)

// longest is beyond any run; sums of times stay far from overflow.
const longest = 10 * 365 * 24 * time.Hour

// Validate says what of the data can't be drawn, naming the field.
func (d *Data) Validate() error {
	if d.Duration < 0 || d.Duration > longest {
		return fmt.Errorf("report: Data.Duration is %v: it can't be negative, or more than %v", d.Duration, longest)
	}
	return errors.Join(d.Figures.validate(), d.validatePhases(), d.validateStarts(), d.validateHeat(), d.validateMarks(),
		d.validateStory())
}

func (f *Figures) validate() error {
	for _, count := range []struct {
		name string
		n    int
	}{{"Nodes", f.Nodes}, {"Pods", f.Pods}, {"PodsRunning", f.PodsRunning}, {"Restarts", f.Restarts}} {
		if count.n < 0 {
			return fmt.Errorf("report: Figures.%s is %d: it can't be negative", count.name, count.n)
		}
	}
	if f.Wall < 0 {
		return fmt.Errorf("report: Figures.Wall is %v: it can't be negative", f.Wall)
	}
	if f.StartP50 < 0 || f.StartP50 > f.StartP90 || f.StartP90 > f.StartP99 {
		return fmt.Errorf("report: Figures.StartP50, StartP90 and StartP99 are %v, %v, %v: they can't be negative, and "+
			"none is more than the next",
			f.StartP50, f.StartP90, f.StartP99)
	}
	return nil
}

func (d *Data) validatePhases() error {
	for i, s := range d.Phases {
		if s.At < 0 || s.At > d.Duration {
			return fmt.Errorf("report: Data.Phases[%d].At is %v: the run is from 0 to %v", i, s.At, d.Duration)
		}
		if i > 0 && s.At < d.Phases[i-1].At {
			return fmt.Errorf("report: Data.Phases[%d].At is %v, and that of the one before is %v: they go by time", i,
				s.At, d.Phases[i-1].At)
		}
		for p, n := range s.Pods {
			if n < 0 {
				return fmt.Errorf("report: Data.Phases[%d] has %d pods in phase %q: it can't be negative", i, n, Phase(p))
			}
		}
	}
	return nil
}

func (d *Data) validateStarts() error {
	for i, l := range d.Starts {
		if l.Took < 0 || l.Took > longest || l.Pods < 0 {
			return fmt.Errorf(
				"report: Data.Starts[%d] is %d pods that took %v: neither can be negative, and the time not more than %v", i,
				l.Pods, l.Took, longest,
			)
		}
	}
	return nil
}

func (d *Data) validateHeat() error {
	h := &d.Heat
	for _, n := range h.Nodes {
		if len(n.Cells) == 0 {
			continue
		}
		if h.Column <= 0 || h.Column > longest {
			return fmt.Errorf("report: Heat.Column is %v: it has to be positive where nodes have cells, and at most %v",
				h.Column, longest)
		}
		if last := len(n.Cells) - 1; last > int(d.Duration/h.Column) {
			return fmt.Errorf("report: Heat: node %q has %d cells of %v: the last begins after the end of the run at %v", n.Name,
				len(n.Cells), h.Column, d.Duration)
		}
		for i, c := range n.Cells {
			if c.Down > c.Looks || c.Ready > c.Pods {
				return fmt.Errorf("report: Heat: cell %d of node %q has %d looks with the node down of %d, and %d ready pods of "+
					"%d: a part can't be more than the whole",
					i, n.Name, c.Down, c.Looks, c.Ready, c.Pods)
			}
		}
	}
	return nil
}

func (d *Data) validateMarks() error {
	for i, m := range d.Marks {
		if m.At < 0 || m.At > d.Duration || (m.Until != 0 && m.Until < m.At) {
			return fmt.Errorf("report: Data.Marks[%d] (%q) is from %v to %v: the run is from 0 to %v", i, m.Text, m.At,
				m.Until, d.Duration)
		}
	}
	for i, f := range d.Failures {
		if f.At < 0 || f.At > d.Duration {
			return fmt.Errorf("report: Data.Failures[%d].At is %v: the run is from 0 to %v", i, f.At, d.Duration)
		}
	}
	return nil
}
