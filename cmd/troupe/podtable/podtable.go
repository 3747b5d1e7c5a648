// Package podtable prints the pods of a node as a table, and explains why unhealthy pods
// are not ready.
package podtable

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
)

// Options is how the table is drawn.
type Options struct {
	// Namespace leaves out the pods of others, if it is not empty.
	Namespace string
	// Wide has more columns.
	Wide bool
	// Color marks what is not well.
	Color bool
	// Now is what ages are counted to.
	Now time.Time
	// Doing is what is under way for a pod, since when, beyond what the view
	// says. May be nil.
	Doing map[types.UID][]Call
}

// Call is something under way for a pod.
type Call struct {
	What  string // StartContainer app
	Phase string // running
	Since time.Time
}

// Row is one pod in the table.
type Row struct {
	Key   types.UID
	Cells []string
	// Same is what the pod's row says apart from ages: rows of equal Same are
	// not news.
	Same string
	// Well: runs and is ready, or ended well.
	Well bool
	// Why is one line about a pod that is not well, empty if there is nothing to say.
	Why string
}

// Header has the names of the columns.
func Header(o Options) []string {
	h := []string{"NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "SOURCE"}
	if o.Wide {
		h = append(h, "LIFE", "UID", "IMAGES")
	}
	return h
}

// Rows are those of the view, in order of namespace and name.
func Rows(v podview.View, o Options) []Row {
	rows := make([]Row, 0, len(v.Pods))
	for i := range v.Pods {
		if o.Namespace == "" || v.Pods[i].Namespace == o.Namespace {
			rows = append(rows, row(&v.Pods[i], o))
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Cells[0], b.Cells[0]), cmp.Compare(a.Cells[1], b.Cells[1]))
	})
	return rows
}

func row(p *podview.Pod, o Options) Row {
	s := summarize(p)
	restarts := strconv.Itoa(int(s.restarts))
	shown := restarts
	if at := lastRestart(p); s.restarts > 0 && at != nil {
		shown += " (" + age(o.Now, at) + " ago)"
	}
	ready := fmt.Sprintf("%d/%d", s.ready, s.total)
	r := Row{Key: p.UID, Well: well(p, s)}
	r.Cells = []string{p.Namespace, p.Name, ready, s.status, shown, age(o.Now, p.StartTime), orNone(p.IP),
		orNone(string(p.Source))}
	if o.Wide {
		r.Cells = append(r.Cells, p.Life, string(p.UID), orNone(strings.Join(images(p), ",")))
	}
	if !r.Well {
		r.Why = why(p, o)
	}
	r.Same = strings.Join([]string{p.Namespace, p.Name, ready, s.status, restarts, p.IP, string(p.Source), p.Life,
		p.Problem, p.Message}, "\x00")
	return r
}

func well(p *podview.Pod, s summary) bool {
	switch {
	case p.Problem != "" || p.Source == podspec.Orphan:
		return false
	case s.status == "Completed" || s.status == "Succeeded":
		return true
	}
	return s.status == "Running" && p.Ready && s.ready == s.total
}

// lastRestart is when a container last ended that was restarted, as kubectl has
// it; of one whose end is unknown, when its newest incarnation began.
func lastRestart(p *podview.Pod) *time.Time {
	var last *time.Time
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Restarts == 0 || c.Kind == kindInit {
			continue
		}
		at := c.StartedAt
		switch {
		case c.Last != nil && c.Last.FinishedAt != nil:
			at = c.Last.FinishedAt
		case c.FinishedAt != nil:
			at = c.FinishedAt
		}
		if at != nil && (last == nil || at.After(*last)) {
			last = at
		}
	}
	return last
}

func images(p *podview.Pod) []string {
	var out []string
	for i := range p.Containers {
		if image := p.Containers[i].Image; image != "" && !slices.Contains(out, image) {
			out = append(out, image)
		}
	}
	return out
}

func age(now time.Time, at *time.Time) string {
	if at == nil {
		return "<none>"
	}
	return duration.HumanDuration(max(0, now.Sub(*at)))
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return screen.Line(s, 0)
}

// Write draws the whole: table, why pods are not well, and problems.
func Write(w io.Writer, v podview.View, o Options) error {
	rows := Rows(v, o)
	var b strings.Builder
	if !v.Ready {
		b.WriteString("not ready yet: waiting for " + orSomething(v.WaitingFor) + "\n\n")
	}
	if v.Runtime != nil {
		fmt.Fprintf(&b, "the container runtime has not answered for %s, this output may be stale: %s\n\n",
			age(o.Now, &v.Runtime.Since), screen.Middle(v.Runtime.Message, messageLimit))
	}
	if len(rows) == 0 {
		b.WriteString(nothing(v, o) + "\n")
	} else {
		t := screen.Table{Header: Header(o)}
		for _, r := range rows {
			t.Add(r.Cells)
		}
		for i, line := range t.Lines() {
			if i > 0 && !rows[i-1].Well {
				line = screen.Red(line, o.Color)
			}
			b.WriteString(line + "\n")
		}
	}
	writeWhy(&b, rows)
	writeProblems(&b, v)
	_, err := io.WriteString(w, b.String())
	return err
}

func orSomething(waiting []string) string {
	if len(waiting) == 0 {
		return "the first read of the pod sources and the runtime"
	}
	return strings.Join(waiting, ", ")
}

func nothing(v podview.View, o Options) string {
	if o.Namespace != "" {
		return fmt.Sprintf("no pods in namespace %s on node %s", o.Namespace, v.Node)
	}
	return "no pods on node " + v.Node
}

func writeWhy(b *strings.Builder, rows []Row) {
	first := true
	for _, r := range rows {
		if r.Why == "" {
			continue
		}
		if first {
			b.WriteString("\n")
			first = false
		}
		b.WriteString(r.Cells[0] + "/" + r.Cells[1] + ": " + r.Why + "\n")
	}
}

func writeProblems(b *strings.Builder, v podview.View) {
	for i, line := range Problems(v) {
		if i == 0 {
			b.WriteString("\nproblems:\n")
		}
		b.WriteString("  " + line + "\n")
	}
}

// Problems are those of manifests, a line each: file, field, value, message.
func Problems(v podview.View) []string {
	out := make([]string, 0, len(v.Problems))
	for _, p := range v.Problems {
		out = append(out, screen.Line(p.Error(), 0))
	}
	return out
}
