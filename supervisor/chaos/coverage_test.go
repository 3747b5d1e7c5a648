package chaos

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCoverage: each kind of fault has its points, cases and verdicts, and kill -9 between messages
// is summed up.
func TestCoverage(t *testing.T) {
	var tally Summary
	for _, text := range []string{
		"create a main=app; fault call StartContainer a/app #1 = fail",
		"create a main=app; on a Ready: delete a; fault call StartContainer a/app #1 = fail",
		"create a main=app; fault call StartContainer a/app #9 = fail",
		"create a main=app; fault msg podset:Wanted - #1 = kill; fault msg podset:Wanted - #2 = kill-after",
		"create a main=app; fault msg podset:Wanted - #1 = kill-after",
		"create a main=app; on a Gone: delete a; fault call CreateContainer a/app #1 = slow 1s",
	} {
		tally.Add(Run(parse(t, text)))
	}
	want := []Row{
		{"call", "fail", 1, 3, 2, 0, 1}, {"call", "slow", 1, 1, 1, 0, 0},
		{"msg", "kill", 1, 1, 1, 0, 0}, {"msg", "kill-after", 2, 2, 2, 0, 0},
	}
	check.Same(t, tally.Coverage(), want, "got")
	check.Equal(t, tally.Boundaries(), (Row{"msg", "kill -9", 2, 3, 3, 0, 0}), "kill -9 between messages")
	if lines := tally.CoverageTable(); len(lines) != 6 || !strings.HasPrefix(lines[5], "msg    kill -9") {
		t.Errorf("the table is\n%s", strings.Join(lines, "\n"))
	}
}
