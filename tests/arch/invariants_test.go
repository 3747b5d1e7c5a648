package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// invariant is the first sentence of an invariant in a comment.
var invariant = regexp.MustCompile(`Invariant: (.+?)\.(?: |$)`)

// TestInvariants: each invariant at a field of an actor, of the kernel or of a decision is also in the words of a check
// of its package, so that simulations hold it and say what it is (kernel.Checked).
func TestInvariants(t *testing.T) {
	n := 0
	for _, p := range packages(t) {
		if !within(p.ImportPath, ours("actors")) {
			continue
		}
		var found []string
		said := ""
		for _, path := range check.Value(filepath.Glob(filepath.Join(p.Dir, "*.go")))(t) {
			f := check.Value(parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
			test := strings.HasSuffix(path, "_test.go")
			if said += textsOf(f, test); !test {
				found = append(found, invariantsOf(f)...)
			}
		}
		for _, words := range found {
			n++
			if !strings.Contains(said, words) {
				t.Errorf("%s: no check says %q: write one next to the struct, with the words of the invariant", p.ImportPath, words)
			}
		}
	}
	check.AtLeast(t, n, 20, "there are %d invariants", n)
}

// invariantsOf are those in the comments of a file.
func invariantsOf(f *ast.File) (out []string) {
	for _, group := range f.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		for _, found := range invariant.FindAllStringSubmatch(text, -1) {
			out = append(out, found[1])
		}
	}
	return out
}

// textsOf are the strings of a file, also those that are put together of several. Of a test these are those of its
// methods named check: what lives only during a call is checked there, and what other tests want to be said is no check.
func textsOf(f *ast.File, test bool) string {
	var b strings.Builder
	ast.Inspect(f, func(n ast.Node) bool {
		if d, is := n.(*ast.FuncDecl); is && test {
			return d.Recv != nil && d.Name.Name == "check"
		}
		if e, is := n.(ast.Expr); is {
			if text, is := textOf(e); is {
				b.WriteString(text + "\n")
			}
		}
		return true
	})
	return b.String()
}

// textOf is what an expression of string literals says.
func textOf(e ast.Expr) (text string, is bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, is := textOf(e.X)
		y, both := textOf(e.Y)
		return x + y, is && both && e.Op == token.ADD
	}
	return "", false
}

// TestInvariantsFindOut: the rule sees an invariant that nobody checks.
func TestInvariantsFindOut(t *testing.T) {
	f := checkText(t, `package sample
// a is a struct.
type a struct {
	// n is a number. Invariant: n > 0. It is small.
	// Invariant: m of b.c is not 0,
	// but for d.
	n int
}
func said(n string) string { return "a: n" + " > 0: it is " + n }
func (a) check() string { return "m of b.c is not 0, but for d" }
`).files[0]
	found := invariantsOf(f)
	check.Same(t, found, []string{"n > 0", "m of b.c is not 0, but for d"}, "found")
	for i, words := range found {
		check.Has(t, textsOf(f, false), words, "said")
		check.Equal(t, strings.Contains(textsOf(f, true), words), i == 1, "in a test %q is said", words)
	}
}
