package suite

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestPlan: each package with tests is in one part, and of the module for end-to-end tests those that have a test of the
// tiers that run.
func TestPlan(t *testing.T) {
	s := load(t)
	for name, o := range map[string]Options{"usual": {}, "short": {Short: true}, "all": {All: true}, "named": {Run: "."}} {
		parts := map[string][]string{}
		for _, p := range lanes(s.Plan(o)) {
			for _, path := range p.Packages {
				if p.Name != "damage" && p.Name != "unraced" {
					parts[path] = append(parts[path], p.Name)
				}
			}
		}
		for _, p := range s.Packages {
			want := 0
			if p.tested() && slices.ContainsFunc(p.Tests, func(t Test) bool {
				return !p.E2E() || slices.Contains(o.tiers(), t.Tier)
			}) {
				want = 1
			}
			if got := parts[p.ImportPath]; len(got) != want {
				t.Errorf("%s: %s is in parts %v, not in %d", name, p.Name(), got, want)
			}
		}
	}
}

// TestFuzzTargets: all fuzz targets run, or those that are named.
func TestFuzzTargets(t *testing.T) {
	s := load(t)
	names := map[string]bool{}
	for _, f := range s.fuzzTargets("") {
		names[f.fullName()] = true
	}
	for _, want := range []string{"tests/fuzz.FuzzPod", "actors/decide/manifest.FuzzDecode", "supervisor/config.FuzzLoad", "cri.FuzzAnswers"} {
		if !names[want] {
			t.Errorf("%s does not run, but %v", want, names)
		}
	}
	if got := s.fuzzTargets("^FuzzPod$"); len(got) != 1 || got[0].Name != "FuzzPod" {
		t.Errorf("FuzzPod is %v", got)
	}
}

// TestRaced: what starts goroutines has the race detector, and what is a function of its arguments has not.
func TestRaced(t *testing.T) {
	raced := map[string]bool{
		"actors/kernel": true, "supervisor/serve": true, "cri": true, "tests/contract": true,
		"actors/decide/podplan": false, "supervisor/chaos": false, "tests/scenarios": false, "tests/growth": false,
	}
	for _, p := range load(t).Packages {
		if want, ok := raced[p.Name()]; ok && (p.Raced != "") != want {
			t.Errorf("%s: raced %q", p.Name(), p.Raced)
		}
		delete(raced, p.Name())
		if why := unraced[p.Name()] + neverRaced[p.Name()]; why != "" && !p.tested() {
			t.Errorf("%s has no tests: take it off the list of unraced packages", p.Name())
		}
	}
	check.AtMost(t, len(raced), 0, "these are no packages: %v", raced)
}

// TestAffected: a change reaches what imports the changed package, the nearest first, also through tests.
func TestAffected(t *testing.T) {
	s := &Source{Packages: []*Package{
		{ImportPath: Module + "/a"},
		{ImportPath: Module + "/b", Imports: []string{Module + "/a"}},
		{ImportPath: Module + "/c", XTestImports: []string{Module + "/b"}},
		{ImportPath: Module + "/d"},
	}}
	changed, others := s.Affected([]string{"a/testdata/x.yaml", "README.md"})
	if !slices.Equal(changed, s.Packages[:1]) || !slices.Equal(others, s.Packages[1:3]) {
		t.Errorf("changed %v, others %v", changed, others)
	}
}

// TestSkips: what may be skipped is there, and has a reason.
func TestSkips(t *testing.T) {
	left := mayBeSkipped()
	for _, p := range load(t).Packages {
		for _, test := range p.Tests {
			if name := test.fullName(); left[name] != "" {
				delete(left, name)
			}
		}
	}
	check.AtMost(t, len(left), 0, "skips.txt: %v: no such tests, or no reasons", left)
}
