package scenario

import (
	"fmt"
	"strings"
)

// Counts is what a Condition is held against.
type Counts struct {
	Pods, Running, Ready, Succeeded, Failed, Terminating, Restarts int
	// Waiting are containers by the reason that they wait for.
	Waiting map[string]int
	// Attached, Bound and Resizing are volumes.
	Attached, Bound, Resizing int
	// NodesReady is of the whole world.
	NodesReady int
}

// terms are what a condition asks, with what there is.
func (k *Condition) terms(c *Counts, each func(name string, want Number, got int)) {
	for _, t := range [...]struct {
		name string
		want *Number
		got  int
	}{
		{"pods", k.Pods, c.Pods}, {"running", k.Running, c.Running}, {"ready", k.Ready, c.Ready},
		{"succeeded", k.Succeeded, c.Succeeded}, {"failed", k.Failed, c.Failed},
		{"terminating", k.Terminating, c.Terminating}, {"restarts", k.Restarts, c.Restarts},
		{"attached", k.Attached, c.Attached}, {"bound", k.Bound, c.Bound}, {"resizing", k.Resizing, c.Resizing},
		{"nodesReady", k.NodesReady, c.NodesReady},
	} {
		if t.want != nil {
			each(t.name, *t.want, t.got)
		}
	}
	for reason, want := range sorted(k.Waiting) {
		each("waiting "+reason, want, c.Waiting[reason])
	}
}

// OfVolumes reports whether the condition is about volumes, too.
func (k *Condition) OfVolumes() bool { return k.Attached != nil || k.Bound != nil || k.Resizing != nil }

// Holds reports whether all that the condition asks is so.
func (k *Condition) Holds(c *Counts) bool {
	holds := true
	k.terms(c, func(_ string, want Number, got int) { holds = holds && want.Holds(got) })
	return holds
}

// String is what the condition asks, in a line: web: ready >=45, restarts 0.
func (k *Condition) String() string {
	return k.line(&Counts{}, func(want Number, _ int) string { return want.String() })
}

// Got is what there is of what the condition asks, in the same form.
func (k *Condition) Got(c *Counts) string {
	return k.line(c, func(_ Number, got int) string { return fmt.Sprint(got) })
}

func (k *Condition) line(c *Counts, show func(Number, int) string) string {
	var all []string
	k.terms(c, func(name string, want Number, got int) { all = append(all, name+" "+show(want, got)) })
	text := strings.Join(all, ", ")
	if k.Workload != "" {
		who := k.Workload
		if k.Image != "" {
			who += " with " + k.Image
		}
		text = who + ": " + text
	} else if k.Image != "" {
		text = k.Image + ": " + text
	}
	return text
}
