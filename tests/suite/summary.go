package suite

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed skips.txt
var skips string

// mayBeSkipped are the tests that skips.txt excuses, each with its reason.
func mayBeSkipped() map[string]string {
	rows := map[string]string{}
	for _, row := range table(skips) {
		rows[row[0]] = row[1]
	}
	return rows
}

// table is the lines of a text, each cut after its first word. Those that begin with # are comments.
func table(text string) [][2]string {
	var rows [][2]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		first, rest, _ := strings.Cut(line, " ")
		rows = append(rows, [2]string{first, strings.TrimSpace(rest)})
	}
	return rows
}

// Summary is what all parts of a run came to.
type Summary struct {
	Parts []Ran
	Result
	Bad    []string // why the run has failed, one line each; of a test, its last lines of output follow
	NotRun []string // tests that the clock left out
}

// saidOf is what a test said, indented, so long that ten of them can be read where only the end of a log is kept.
func saidOf(o Outcome) string {
	const most = 200 // bytes of a line
	var b strings.Builder
	for line := range strings.Lines(o.Said) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > most {
			line = strings.ToValidUTF8(line[:most], "") + " ..."
		}
		b.WriteString("\n          " + line)
	}
	return b.String()
}

// Sum sums up a run. If strict, a skip is a failure, and with cutIsOK what the clock ended did not fail.
func Sum(parts []Ran, strict, cutIsOK bool) *Summary {
	s := &Summary{Parts: parts}
	excused := mayBeSkipped()
	for _, p := range parts {
		s.Outcomes = append(s.Outcomes, p.Outcomes...)
		for _, o := range p.Failed() {
			s.Bad = append(s.Bad, "FAILED  "+o.Name()+saidOf(o))
		}
		// Also if the test passed when it ran again.
		for _, name := range p.Races {
			s.Bad = append(s.Bad, "RACE    "+name)
		}
		for _, o := range p.Unfinished() {
			s.NotRun = append(s.NotRun, o.Name())
		}
		switch {
		case p.Cut && !cutIsOK:
			s.Bad = append(s.Bad, fmt.Sprintf("FAILED  part %s was ended after %.0f s", p.Name, p.Took.Seconds()))
		case p.Err != nil && !p.Cut && len(p.Failed()) == 0:
			s.Bad = append(s.Bad, fmt.Sprintf("FAILED  part %s: %v", p.Name, p.Err))
		}
		for _, o := range p.Skipped() {
			if strict && excused[o.Name()] == "" {
				s.Bad = append(s.Bad, "SKIPPED "+o.Name()+": "+o.Reason)
			}
		}
	}
	return s
}

// longest is how many tests the summary names.
const longest = 30

// Print writes tables of the parts and of the tests that took longest, what failed, and in the end the tests that
// passed only when they ran again, where everybody sees them.
func (s *Summary) Print(to io.Writer) {
	fmt.Fprintf(to, "\n%-20s %8s %8s  %s\n", "part", "seconds", "CPU s", "tests")
	for _, p := range s.Parts {
		fmt.Fprintf(to, "%-20s %8.0f %8.0f  %s\n", p.Name, p.Took.Seconds(), p.CPU.Seconds(), p.Counts())
	}
	tests := slices.DeleteFunc(slices.Clone(s.Outcomes), func(o Outcome) bool {
		return o.Test == "" || strings.Contains(o.Test, "/") || o.Took < time.Second
	})
	slices.SortStableFunc(tests, func(a, b Outcome) int { return cmp.Compare(b.Took, a.Took) })
	fmt.Fprintf(to, "\n%8s  the %d tests that took longest\n", "seconds", longest)
	for _, o := range tests[:min(longest, len(tests))] {
		fmt.Fprintf(to, "%8.1f  %s\n", o.Took.Seconds(), o.Name())
	}
	if skipped := s.Skipped(); len(skipped) > 0 {
		fmt.Fprintf(to, "\nSkipped tests:\n")
		for _, o := range skipped {
			fmt.Fprintf(to, "  %s: %s\n", o.Name(), o.Reason)
		}
	}
	fmt.Fprintln(to)
	fmt.Fprint(to, s.Closing())
}

// Closing is the lines that a run ends with.
func (s *Summary) Closing() string {
	var b strings.Builder
	if n := len(s.NotRun); n > 0 {
		fmt.Fprintf(&b, "NOT RUN %d tests, as their time was over: %s\n", n, strings.Join(s.NotRun, " "))
	}
	for _, line := range s.Bad {
		fmt.Fprintln(&b, line)
	}
	for _, o := range s.Flaky() {
		fmt.Fprintf(&b, "FLAKY   %s failed after %.1f s and passed after %.1f s: %s has both\n",
			o.Name(), o.Before[0].Seconds(), o.Took.Seconds(), results)
	}
	fmt.Fprintln(&b, s.Counts())
	return b.String()
}

// Write keeps the closing lines: .ci/run prints them again in the end.
func (s *Summary) Write(root, name string) error {
	return os.WriteFile(filepath.Join(root, results, name+".txt"), []byte(s.Closing()), 0o644)
}
