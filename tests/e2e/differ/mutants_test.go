package differ

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// mutants are lines of a mutant and the pod by which it is found.
//
//go:embed mutants.txt
var mutants string

// mutantCases reads them.
func mutantCases(t *testing.T) map[string]Case {
	t.Helper()
	out := map[string]Case{}
	for line := range strings.Lines(mutants) {
		if f := strings.Fields(line); len(f) == 2 && f[0] != "#" {
			out[f[0]] = check.Value(ParseCase(f[1]))(t)
		}
	}
	return out
}

// TestMutantCases: there are twenty at least, and their pods can be made.
//
//tier:unit
func TestMutantCases(t *testing.T) {
	of := mutantCases(t)
	check.AtLeast(t, len(of), 20, "mutants")
	for name, c := range of {
		check.Equal(t, len(c.Make().Pod.Spec.Containers) > 0, true, "the pod of %s has containers", name)
		t.Logf("%s: %s\n%s", name, c, text(t, c))
	}
}

// TestMutants: each mutant of those that are asked for shows otherwise what the kubelet and the agent without it show alike.
//
//tier:all mutants, which `go run ./tests/mutants differ` asks for
func TestMutants(t *testing.T) {
	needNodes(t)
	asked := strings.Fields(lab.Asked(t, "TROUPE_MUTANTS", "go run ./tests/mutants differ sets it"))
	of := mutantCases(t)
	var cases []Case
	for _, a := range asked {
		name, _, _ := strings.Cut(a, "=")
		cases = append(cases, of[name])
	}
	r := newRig(t)
	without := check.Value(r.run(t.Context(), cases))(t)
	agent := r.sides[1]
	alone := &rig{sides: r.sides[1:]}
	alone.made.Store(1000)
	run := func(number string, cases []Case) []Observed {
		check.Fatal(t, agent.Stop(t.Context()))
		agent.SetEnv("TROUPE_MUTANT=" + number)
		check.Fatal(t, agent.Start())
		check.Fatal(t, agent.awaitNode(t.Context()))
		return check.Value(alone.run(t.Context(), cases))(t)
	}
	calm := run("0", cases) // what differs with the agent alone, and started again, is no mutant's
	for i, a := range asked {
		name, number, _ := strings.Cut(a, "=")
		o := without[i]
		if o.Refused != nil {
			t.Errorf("%s: the apiserver does not take the pod: %v", name, o.Refused)
			continue
		}
		before := append(classes(compare(o.Keys[0], o.Keys[1])), classes(compare(o.Keys[0], calm[i].Keys[0]))...)
		found := slices.DeleteFunc(compare(o.Keys[0], run(number, cases[i:i+1])[0].Keys[0]), func(d Difference) bool {
			return slices.Contains(before, d.class())
		})
		if len(found) == 0 {
			t.Errorf("%s: NOT FOUND by %s", name, cases[i])
			continue
		}
		t.Logf("%s: found by %s:\n%s", name, cases[i], words(found[:min(len(found), 5)]))
	}
}
