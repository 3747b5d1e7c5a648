package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

const module = "github.com/troupe-dev/troupe"

// root is the repository, seen from this package's directory, where go test runs.
const root = "../.."

// listed is what go list says of one package. Test files are not part of it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Export     string // compiled export data
	Error      *struct{ Err string }
}

func (l listed) ours() bool {
	return l.ImportPath == module || strings.HasPrefix(l.ImportPath, module+"/")
}

// listing is go list over the whole module and its dependencies, run once. Compiled has compiled what was not.
var (
	listing  = sync.OnceValues(func() ([]listed, error) { return list() })
	compiled = sync.OnceValues(func() ([]listed, error) { return list("-export") })
)

func list(flags ...string) ([]listed, error) {
	cmd := exec.Command("go", slices.Concat([]string{"list", "-e", "-deps",
		"-json=ImportPath,Dir,GoFiles,Imports,Export,Error"}, flags, []string{"./..."})...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

// packages are the module's own packages.
func packages(t *testing.T) []listed {
	t.Helper()
	all := check.Value(listing())(t)
	var ours []listed
	for _, p := range all {
		if p.ours() {
			ours = append(ours, p)
		}
	}
	if len(ours) == 0 {
		t.Fatal("go list knows no package of the module")
	}
	return ours
}

// source is one package, parsed and with types.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// position is where a node is, as path:line in the repository.
func (s *source) position(n ast.Node) string {
	at := s.fset.Position(n.Pos())
	if abs, err := filepath.Abs(root); err == nil {
		if rel, err := filepath.Rel(abs, at.Filename); err == nil {
			at.Filename = rel
		}
	}
	return fmt.Sprintf("%s:%d", at.Filename, at.Line)
}

// load parses and types a package of the module. One that does not compile fails the test, and
// comes back empty, so that the others are still looked at.
func load(t *testing.T, p listed) *source {
	t.Helper()
	if p.Error != nil {
		t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		return &source{}
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	s, err := checked(fset, p.ImportPath, files)
	if err != nil {
		t.Error(err)
		return &source{}
	}
	return s
}

// checked types files, reading what they import from compiled export data.
func checked(fset *token.FileSet, path string, files []*ast.File) (*source, error) {
	all, err := compiled()
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string, len(all))
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	open := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no compiled package %s", path)
		}
		return os.Open(exports[path])
	}
	s := &source{fset: fset, files: files, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	_, err = config.Check(path, fset, files, s.info)
	return s, err
}

// checkText is check for one file given as text, which the tests of the rules themselves use.
func checkText(t *testing.T, text string) *source {
	t.Helper()
	fset := token.NewFileSet()
	f := check.Value(parser.ParseFile(fset, "sample.go", text, parser.ParseComments|parser.SkipObjectResolution))(t)
	return check.Value(checked(fset, "sample", []*ast.File{f}))(t)
}

// within says whether path is prefix or below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}
