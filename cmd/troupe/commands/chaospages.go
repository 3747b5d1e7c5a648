package commands

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// pages writes the report of a command: one page, or a directory of them with their cases. The zero
// value writes nothing.
type pages struct {
	one   *output
	dir   string
	count int
	cases strings.Builder
}

// newPages fails, before any work, if the report can't be written. A directory must be empty: its
// files would not be told from those of another run.
func newPages(path string) (*pages, error) {
	switch ext := filepath.Ext(path); {
	case path == "":
		return &pages{}, nil
	case ext == ".html" || ext == ".htm":
		one, err := newOutput("--report", path)
		return &pages{one: one}, err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("--report: %w", err)
	}
	there, err := os.ReadDir(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--report: %w", err)
	case len(there) > 0:
		return nil, fmt.Errorf("--report %s: the directory is not empty: give another, or FILE.html", path)
	}
	return &pages{dir: path}, nil
}

// add writes the page of a result, and gives its file; empty if there is no page for it.
func (p *pages) add(r *chaos.Result) (file string, err error) {
	if p.dir == "" && (p.one == nil || p.one.file == nil) {
		return "", nil
	}
	r = chaos.Again(r, chaos.WithStory())
	write := func(w io.Writer) error { return chaos.WritePage(w, r, version.Line(), again(r.Case)) }
	if p.one != nil {
		file := p.one.path
		return file, p.one.write(write)
	}
	p.count++
	name, head := r.Verdict().String(), r.Verdict().String()
	if len(r.Violations) > 0 {
		v := r.Violations[0]
		name, head = v.ID, violatedLine+v.String()
		if v.Pod.Name != "" {
			name += "-" + v.Pod.Name
		}
	}
	out, err := newOutput("--report", filepath.Join(p.dir, fmt.Sprintf("%02d-%s.html", p.count, name)))
	if err != nil {
		return "", err
	}
	defer out.discard()
	_, _ = fmt.Fprintf(&p.cases, "# %s\n%s\n", strings.ReplaceAll(head, "\n", " "), r.Case)
	return out.path, out.write(write)
}

// end writes the cases of the pages, for replay.
func (p *pages) end() error {
	if p.count == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(p.dir, casesFile), []byte(p.cases.String()), 0o644) //nolint:gosec // as the pages
}

func (p *pages) discard() {
	if p.one != nil {
		p.one.discard()
	}
}

// again is the command that runs a case again.
func again(c *plan.Case) []string { return []string{"troupe", "chaos", "run", c.Line()} }
