package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
)

const root = "../.."

func patches(t *testing.T) []*patch {
	t.Helper()
	all := check.Value(readPatches("."))(t)
	check.AtLeast(t, len(all), 30, "there are %d mutants", len(all))
	return all
}

// TestPatchesApply: each patch changes functions of the product as it is.
func TestPatchesApply(t *testing.T) {
	o := &overlay{root: root, sources: map[string]*source{}}
	for i, p := range patches(t) {
		all, err := p.variants(o, i+1)
		if err != nil {
			t.Error(err)
		} else if len(all) == 0 {
			t.Errorf("%s changes nothing", p.name)
		}
		for _, v := range all {
			if _, _, err := o.sources[v.path].withVariants([]*variant{v}); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	}
}

// TestCasesHold: the case that shows a mutant violates nothing without it, and docs/mutants.md has it.
func TestCasesHold(t *testing.T) {
	doc := check.Value(os.ReadFile(filepath.Join(root, "docs/mutants.md")))(t)
	cases, _, _, err := split(root, patches(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range cases {
		t.Run(p.name, func(t *testing.T) {
			text, err := os.ReadFile(p.name + ".case")
			if why := fmt.Sprintf("| %s | %s |", p.name, p.title); os.IsNotExist(err) && strings.Contains(string(doc), why) {
				return // it says why there is none
			}
			if err != nil {
				t.Fatalf("%v: go run ./tests/mutants hand -search %s looks for one", err, p.name)
			}
			c := check.Value(plan.Parse(string(text)))(t)
			if r := besideTwin(c); r.Verdict() == chaos.Violated {
				t.Errorf("without the mutant: %v", r.Violations)
			}
			rule, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
			row := fmt.Sprintf("| %s | %s | %s | `%s` |", p.name, p.title, rule, c.Line())
			if !strings.Contains(string(doc), row) {
				t.Errorf("docs/mutants.md lacks the row\n%s", row)
			}
		})
	}
}

// TestTestsAreThere: the test that finds a mutant is in its package, and docs/mutants.md has it.
func TestTestsAreThere(t *testing.T) {
	doc := check.Value(os.ReadFile(filepath.Join(root, "docs/mutants.md")))(t)
	_, tests, at, err := split(root, patches(t))
	if err != nil {
		t.Fatal(err)
	}
	check.AtLeast(t, len(tests), 30, "there are %d mutants", len(tests))
	for _, p := range tests {
		files := check.Value(filepath.Glob(filepath.Join(root, at[p].folder, "*_test.go")))(t)
		name, _, _ := strings.Cut(at[p].run, "/")
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {\n")
		}) {
			t.Errorf("%s: there is no %s in %s", p.name, name, at[p].folder)
		}
		row := fmt.Sprintf("| %s | %s | `%s` %s |", p.name, p.title, at[p].folder, at[p].run)
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/mutants.md lacks the row\n%s", row)
		}
	}
}

// TestPatchThatNoLongerApplies: what a patch replaces must be there, once, and be in functions.
func TestPatchThatNoLongerApplies(t *testing.T) {
	const file = "package p\n\nconst n = 1\n\nfunc f() int {\n\treturn n\n}\n\nfunc g() int {\n\treturn 2\n}\n"
	for _, c := range []struct{ name, hunk, want string }{
		{"good", "-\treturn 2\n+\treturn 3\n", ""},
		{"lines that are not there", "-\treturn 4\n+\treturn 3\n", "no longer applies"},
		{"lines that are there twice", "-}\n+\n", "no longer applies"},
		{"more than functions", "-const n = 1\n+const n = 2\n", "changes more"},
		{"a function that was not there", "-func g() int {\n+func h() int {\n", "adds the function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parsePatch("m", "breaks f\n\n--- a/f.go\n+++ b/f.go\n@@ -1,1 +1,1 @@\n"+c.hunk)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseSource("f.go", []byte(file))
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.variants(&overlay{sources: map[string]*source{"f.go": s}}, 1)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestVariants: a function goes on as its variant, with its arguments.
func TestVariants(t *testing.T) {
	const file = `package p

type t struct{}

func (*t) f(_ int, _ string, more ...bool) int { return len(more) }

func g[K comparable](k K) { _ = k }
`
	s := check.Value(parseSource("f.go", []byte(file)))(t)
	text, spans := check.Values(s.withVariants([]*variant{
		{mutant: 3, path: "f.go", key: "t.f", text: "func (*t) f(_ int, _ string, more ...bool) int { return 1 }"},
		{mutant: 4, path: "f.go", key: "g", text: "func g[K comparable](k K) {}"},
	}))(t)
	const want = `package p

type t struct{}

func (unnamed1 *t) f(unnamed2 int, unnamed3 string, more ...bool) int { switch switchedOn {` +
		` case 3: return unnamed1.mutant3_f(unnamed2, unnamed3, more...); };  return len(more) }

func g[K comparable](k K) { switch switchedOn { case 4: mutant4_g[K](k); return; };  _ = k }


func (*t) mutant3_f(_ int, _ string, more ...bool) int { return 1 }

func mutant4_g[K comparable](k K) {}
`
	if got := strings.Join(strings.Fields(string(text)), " "); got != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	check.Has(t, string(text[spans[0].from:spans[0].to]), "return 1", "the first span")
}

// TestOperators: what is made of a function, and what is left alone.
func TestOperators(t *testing.T) {
	s := check.Value(parseSource("f.go", []byte(`package p

func f(a *actor, m map[int]int, n int) {
	if n < 2 {
		delete(m, n)
		return
	}
	a.deps.Report(n)
	a.Log().Str("n", fmt.Sprint(7)).Msg("seven")
	n++
	x := make([]int, 0, 9)
	a.add(x)
	panic("impossible")
}
`)))(t)
	var got []string
	for _, g := range s.mutants(s.funcs["f"]) {
		got = append(got, fmt.Sprintf("%s: %s → %s", g.Operator, g.From, g.To))
	}
	want := []string{
		"negate: n < 2 → !(n < 2)", "boundary: n < 2 → n <= 2", "off-by-one: 2 → 3", "drop-delete: delete(m, n) → ",
		"drop-jump: return → ", "drop-send: a.deps.Report(n) → ", "drop-set: n++ → ", "drop-call: a.add(x) → ",
	}
	check.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "got")
}
