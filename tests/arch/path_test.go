package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/tests/check"
)

// mostStops are how many functions a reader follows from a manifest to a pod that runs.
const mostStops = 12

// stopRow is a row of the table "The path of one pod" in ARCHITECTURE.md: folder, function, and how it is reached.
var stopRow = regexp.MustCompile("(?m)^\\| `(actors/[a-z]+)` `(\\w+)` \\| ([^|]+) \\|")

// TestPath: the table leads from one function to the next by a call in its body, or by a message that its actor sends
// (wiring.txt), and whose receiver then calls the function.
func TestPath(t *testing.T) {
	text := string(check.Value(os.ReadFile(filepath.Join(root, "docs/ARCHITECTURE.md")))(t))
	stops := stopRow.FindAllStringSubmatch(text, -1)
	if len(stops) < 5 || len(stops) > mostStops {
		t.Fatalf("the path has %d stops, want 5 to %d", len(stops), mostStops)
	}
	for i, s := range stops {
		folder, name, reached := s[1], s[2], s[3]
		if functionOf(t, folder, name) == nil {
			t.Errorf("there is no function %s in %s", name, folder)
		}
		if i == 0 {
			continue
		}
		from := stops[i-1]
		if reached == "call" {
			if before := functionOf(t, from[1], from[2]); folder != from[1] || before == nil || !names(before.Body, name) {
				t.Errorf("%s of %s does not call %s", from[2], from[1], name)
			}
			continue
		}
		message := strings.Trim(strings.TrimPrefix(reached, "message "), "`")
		if !wired(filepath.Base(from[1]), filepath.Base(folder), message) && !sameMessage(stops, i) {
			t.Errorf("%s sends no %s to %s: see actors/node/wiring.txt", from[1], message, folder)
		}
		if !leads(functionOf(t, folder, "Receive"), message, name) {
			t.Errorf("Receive of %s calls no %s when it gets %s", folder, name, message)
		}
	}
}

// sameMessage reports whether the row is about the message of the row before: the receiver calls two functions.
func sameMessage(stops [][]string, i int) bool {
	return stops[i][1] == stops[i-1][1] && stops[i][3] == stops[i-1][3]
}

// functionOf finds a function or method of a folder; nil if there is none.
func functionOf(t *testing.T, folder, name string) *ast.FuncDecl {
	t.Helper()
	for _, file := range check.Value(filepath.Glob(filepath.Join(root, folder, "*.go")))(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f := check.Value(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
		for _, d := range f.Decls {
			if d, is := d.(*ast.FuncDecl); is && d.Name.Name == name && !isMarker(d) {
				return d
			}
		}
	}
	return nil
}

// isMarker reports whether a method has no statements.
func isMarker(d *ast.FuncDecl) bool { return d.Body == nil || len(d.Body.List) == 0 }

// names reports whether code has a call of a function or method of that name.
func names(code ast.Node, name string) (found bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		if c, is := n.(*ast.CallExpr); is {
			switch f := c.Fun.(type) {
			case *ast.Ident:
				found = found || f.Name == name
			case *ast.SelectorExpr:
				found = found || f.Sel.Name == name
			}
		}
		return !found
	})
	return found
}

// wired reports whether an actor sends a message to another, or to itself.
func wired(from, to, message string) bool {
	for line := range strings.Lines(node.Wiring) {
		f := strings.Fields(strings.ReplaceAll(line, ",", ""))
		if len(f) > 2 && f[0] == from && f[1] == to {
			for _, m := range f[2:] {
				if m == message {
					return true
				}
			}
		}
	}
	return false
}

// leads reports whether Receive calls a function for a message: in its case, or after the switch for all.
func leads(receive *ast.FuncDecl, message, name string) bool {
	if receive == nil {
		return false
	}
	for _, s := range receive.Body.List {
		sw, is := s.(*ast.TypeSwitchStmt)
		if !is {
			if names(s, name) {
				return true
			}
			continue
		}
		for _, c := range sw.Body.List {
			c := c.(*ast.CaseClause) //nolint:forcetypeassert // a switch has nothing else
			for _, e := range c.List {
				if i, is := e.(*ast.Ident); is && i.Name == message && names(c, name) {
					return true
				}
			}
		}
	}
	return false
}
