package suite

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// events are lines of go test -json, from "action package test seconds". The action raced is output of the race detector.
func events(lines ...string) *strings.Reader {
	var b strings.Builder
	for _, line := range lines {
		f := append(strings.Fields(line), "", "", "")
		b.WriteString(`{"Action":"` + strings.Replace(f[0], "raced", "output", 1) + `","Package":"` + f[1] + `"`)
		if f[2] != "" {
			b.WriteString(`,"Test":"` + f[2] + `"`)
		}
		if f[3] != "" {
			b.WriteString(`,"Elapsed":` + f[3])
		}
		said := "x_test.go:1: why"
		if f[0] == "raced" {
			said = race
		}
		b.WriteString(`,"Output":"    ` + said + "\\n\"}\n")
	}
	return strings.NewReader(b.String())
}

func TestSummary(t *testing.T) {
	for _, row := range []struct {
		name   string
		events []string
		part   Ran // what is not in the events
		strict bool
		want   string // the closing lines
	}{
		{name: "passes", events: []string{"start p", "run p TestA", "pass p TestA 1", "pass p"},
			want: "1 passed, 0 failed, 0 skipped\n"},
		{name: "a subtest fails", events: []string{"start p", "run p TestA", "run p TestA/b", "fail p TestA/b 1", "fail p TestA 1",
			"fail p"}, part: Ran{Err: errors.New("exit 1")},
			want: "FAILED  p.TestA/b\n0 passed, 2 failed, 0 skipped\n"},
		{name: "passes again", events: []string{"start p", "run p TestA", "fail p TestA 2", "fail p",
			"start p", "run p TestA", "pass p TestA 1", "pass p"},
			want: "FLAKY   p.TestA failed after 2.0 s and passed after 1.0 s: .run/results has both\n1 passed, 0 failed, 0 skipped\n"},
		{name: "passes again after a race", events: []string{"start p", "run p TestA", "raced p TestA", "fail p TestA 2", "fail p",
			"start p", "run p TestA", "pass p TestA 1", "pass p"}, want: "RACE    p.TestA\n" +
			"FLAKY   p.TestA failed after 2.0 s and passed after 1.0 s: .run/results has both\n1 passed, 0 failed, 0 skipped\n"},
		{name: "fails again", events: []string{"start p", "run p TestA", "fail p TestA 2", "fail p",
			"start p", "run p TestA", "fail p TestA 1", "fail p"}, part: Ran{Err: errors.New("exit 1")},
			want: "FAILED  p.TestA\n0 passed, 1 failed, 0 skipped\n"},
		{name: "a package fails without a test", events: []string{"start p", "run p TestA", "pass p TestA 1", "fail p",
			"start p", "pass p"},
			want: "FAILED  p\n1 passed, 1 failed, 0 skipped\n"},
		{name: "a package does not build", events: []string{"build-fail", "start p", "fail p"},
			want: "FAILED  p\n0 passed, 1 failed, 0 skipped\n"},
		{name: "a test does not end", events: []string{"start p", "run p TestA", "output p TestA", "fail p"},
			want: "FAILED  p.TestA\n          x_test.go:1: why\n0 passed, 1 failed, 0 skipped\n"},
		{name: "the program fails", events: []string{"start p", "pass p"}, part: Ran{Err: errors.New("exit 2")},
			want: "FAILED  part x: exit 2\n0 passed, 0 failed, 0 skipped\n"},
		{name: "ended by the clock", events: []string{"start p", "run p TestA"}, part: Ran{Err: errors.New("killed"), Cut: true},
			want: "NOT RUN 1 tests, as their time was over: p.TestA\nFAILED  part x was ended after 0 s\n0 passed, 0 failed, 0 skipped\n"},
		{name: "what a test said", events: []string{"start p", "run p TestA", "output p TestA", "fail p TestA 1", "fail p"},
			part: Ran{Err: errors.New("exit 1")},
			want: "FAILED  p.TestA\n          x_test.go:1: why\n0 passed, 1 failed, 0 skipped\n"},
		{name: "a skip", events: []string{"start p", "run p TestA", "output p TestA", "skip p TestA 0", "pass p"},
			want: "0 passed, 0 failed, 1 skipped\n"},
		{name: "a skip where none may be", events: []string{"start p", "run p TestA", "output p TestA", "skip p TestA 0", "pass p"},
			strict: true, want: "SKIPPED p.TestA: x_test.go:1: why\n0 passed, 0 failed, 1 skipped\n"},
	} {
		result := check.Value(ReadResult(events(row.events...)))(t)
		row.part.Name, row.part.Result = "x", result
		check.Equal(t, Sum([]Ran{row.part}, row.strict, false).Closing(), row.want, "%s", row.name)
	}
}

func TestCutIsOK(t *testing.T) {
	result := check.Value(ReadResult(events("start p", "run p TestA", "pass p TestA 1", "run p TestB")))(t)
	s := Sum([]Ran{{Result: result, Cut: true, Err: errors.New("killed")}}, false, true)
	check.Equal(t, s.Closing(), "NOT RUN 1 tests, as their time was over: p.TestB\n1 passed, 0 failed, 0 skipped\n", "it")
}
