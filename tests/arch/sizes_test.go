package arch

import (
	"bytes"
	"go/ast"
	"os"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	longestFile     = 450
	longestFunction = 80
)

// TestSizes holds the sizes of files and functions. Width is held by the linter lll.
func TestSizes(t *testing.T) {
	for _, p := range packages(t) {
		if within(p.ImportPath, ours("tests")) {
			continue
		}
		s := load(t, p)
		for _, f := range s.files {
			name := s.fset.Position(f.Package).Filename
			text := check.Value(os.ReadFile(name))(t)
			if n := bytes.Count(text, []byte("\n")); n > longestFile {
				t.Errorf("%s has %d lines: split it, it may have %d", s.position(f), n, longestFile)
			}
			for _, d := range f.Decls {
				function, is := d.(*ast.FuncDecl)
				if !is {
					continue
				}
				n := s.fset.Position(function.End()).Line - s.fset.Position(function.Pos()).Line + 1
				key := p.ImportPath[len(module)+1:] + "." + function.Name.Name
				if n > longestFunction {
					t.Errorf("%s: %s has %d lines: split it, it may have %d", s.position(function), key, n, longestFunction)
				}
			}
		}
	}
}
