package suite

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

var update = flag.Bool("update", false, "write amounts.txt")

// starting are the functions of tests/e2e that start or build something, by what it is. Each call in the source counts
// once, however often it runs.
var starting = map[string][]string{
	"labs":            {"lab.New", "lab.ForTest", "newBed", "newCSIBed", "newDisks", "joinedAs", "joinedOn"},
	"control planes":  {"lab.StartControlPlane", "lab.TakeControlPlane", "lab.ForControlPlaneTest", "shared.ControlPlane"},
	"linked programs": {"Build", "lab.Build", "ProgramImage", "lab.ProgramImage", "PushDemoImages"},
}

const amountsHeader = `# What the tests of each change start. More of it costs everybody time: a commit that raises an amount says what was
# removed for it. Times are figures in docs; these are exact, both ways: go test ./tests/suite -update
`

// TestAmounts holds how much a run starts.
func TestAmounts(t *testing.T) {
	s := load(t)
	var b strings.Builder
	b.WriteString(amountsHeader)
	row := func(what string, n int) { fmt.Fprintf(&b, "%4d %s\n", n, what) }
	for _, p := range lanes(s.Plan(Options{})) {
		row("packages in "+p.Name, len(p.Packages))
	}
	tiers := map[string]int{}
	for _, test := range s.Tests() {
		tiers[test.Tier]++
	}
	for _, tier := range Tiers {
		row("tests of tier "+tier, tiers[tier])
	}
	for _, what := range []string{"labs", "control planes", "linked programs"} {
		n := 0
		for _, p := range s.Packages {
			if !p.E2E() || within(p.Name(), e2e+"/cmd") {
				continue
			}
			for _, call := range p.calls {
				if slices.ContainsFunc(starting[what], func(name string) bool {
					return call == name || strings.HasSuffix(name, "Build") && strings.HasPrefix(call, name)
				}) {
					n++
				}
			}
		}
		row("calls that start "+what, n)
	}
	if *update {
		check.Fatal(t, os.WriteFile("amounts.txt", []byte(b.String()), 0o644))
	}
	kept := check.Value(os.ReadFile("amounts.txt"))(t)
	if string(kept) != b.String() {
		t.Errorf("amounts.txt is not what a run starts now:\n%s", b.String())
	}
}
