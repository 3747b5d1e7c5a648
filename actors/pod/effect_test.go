package pod

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestEveryEffectIsPerformed: each type of podplan with a method isEffect has its file here.
func TestEveryEffectIsPerformed(t *testing.T) {
	declared := map[string]bool{}
	files := check.Value(filepath.Glob("../decide/podplan/*.go"))(t)
	for _, name := range files {
		f := check.Value(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for _, d := range f.Decls {
			if fn, is := d.(*ast.FuncDecl); is && fn.Recv != nil && fn.Name.Name == "isEffect" {
				declared[fn.Recv.List[0].Type.(*ast.Ident).Name] = true
			}
		}
	}
	performed := map[string]bool{}
	for e := range effects {
		performed[e.Name()] = true
	}
	if len(declared) < 10 || !maps.Equal(declared, performed) {
		t.Errorf("podplan has the effects\n%v\nactors/pod performs\n%v",
			slices.Sorted(maps.Keys(declared)), slices.Sorted(maps.Keys(performed)))
	}
}
