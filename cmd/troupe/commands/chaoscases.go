package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
)

// readCase reads a case from an argument.
func readCase(arg string) (*plan.Case, error) {
	name, isFile := strings.CutPrefix(arg, "@")
	if !isFile {
		return plan.Parse(arg)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := plan.Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// casesFile is what a directory of --report has for replay.
const casesFile = "cases.txt"

// readCases reads what replay is given: the cases of a text, of the output of a command, of a page,
// or of the directory of a report. A case that comes more than once is run once.
func readCases(name string) ([]*plan.Case, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, casesFile)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	texts, err := splitCases(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []*plan.Case
	var errs []error
	known := map[uint64]bool{}
	for _, t := range texts {
		c, err := plan.Parse(t.text)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: case at line %d: %w", name, t.line, err))
		case len(c.Ops)+len(c.Faults) > 0 && !known[c.Hash()]:
			known[c.Hash()] = true
			out = append(out, c)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no case found: give cases as for troupe chaos run, or its output", name)
	}
	return out, nil
}

// caseText is the text of a case, and its first line in the file.
type caseText struct {
	line int
	text string
}

// violatedLine begins a violation in the output of a command; its case follows.
const violatedLine = "violated "

func splitCases(data string) ([]caseText, error) {
	if strings.HasPrefix(strings.TrimSpace(data), "{") {
		var of outcomeJSON
		if err := json.Unmarshal([]byte(data), &of); err != nil {
			return nil, fmt.Errorf("not an output of --json: %w", err)
		}
		var out []caseText
		for _, f := range of.Failures {
			out = append(out, caseText{1, f.Case})
		}
		return out, nil
	}
	if _, rest, is := strings.Cut(data, report.CaseBegin); is {
		text, _, _ := strings.Cut(rest, report.CaseEnd)
		return []caseText{{1, html.UnescapeString(text)}}, nil
	}
	printed := strings.HasPrefix(data, violatedLine) || strings.Contains(data, "\n"+violatedLine)
	return splitLines(data, printed), nil
}

// splitLines cuts a text at each line with a seed. In the output of a command a case has one, and
// ends at an empty line; there is other text between cases.
func splitLines(data string, printed bool) (out []caseText) {
	n, open := 0, !printed
	for line := range strings.Lines(data) {
		n++
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "seed "):
			out, open = append(out, caseText{line: n}), true
		case printed && (trimmed == "" || strings.HasPrefix(line, violatedLine)):
			open = false
		case open && len(out) == 0:
			out = append(out, caseText{line: n})
		}
		if open {
			out[len(out)-1].text += line
		}
	}
	return out
}

// seedRange reads FROM..TO, or one seed.
func seedRange(s string) (first, last uint64, err error) {
	from, to, both := strings.Cut(s, "..")
	if !both {
		to = from
	}
	if first, err = strconv.ParseUint(from, 10, 64); err == nil {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil || first > last || last-first == math.MaxUint64 {
		return 0, 0, fmt.Errorf("%q: want FROM..TO, two numbers of which the first is not larger", s)
	}
	return first, last, nil
}

// shard is a part of all cases, for one of many processes: part i of n. All if n is 0.
type shard struct{ i, n uint64 }

// Set implements pflag.Value.
func (s *shard) Set(text string) error {
	i, n, _ := strings.Cut(text, "/")
	var err, err2 error
	s.i, err = strconv.ParseUint(i, 10, 64)
	s.n, err2 = strconv.ParseUint(n, 10, 64)
	if err != nil || err2 != nil || s.i >= s.n {
		return errors.New("want I/N, two numbers: part I of N, from 0 to N-1")
	}
	return nil
}

// String implements pflag.Value.
func (s *shard) String() string {
	if s.n == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.i, s.n)
}

// Type implements pflag.Value.
func (s *shard) Type() string { return "I/N" }

// of gives the part of so many: from from up to, but not including, to. The parts are next to each
// other, and their sizes differ by one at most.
func (s *shard) of(total uint64) (from, to uint64) {
	if s.n == 0 {
		return 0, total
	}
	begin := func(i uint64) uint64 {
		high, low := bits.Mul64(total, i)
		at, _ := bits.Div64(high, low, s.n)
		return at
	}
	if s.i+1 == s.n {
		return begin(s.i), total
	}
	return begin(s.i), begin(s.i + 1)
}
