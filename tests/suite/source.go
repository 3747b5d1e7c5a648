package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
)

// Module is the path of the product's module, and the prefix of the other.
const Module = "github.com/troupe-dev/troupe"

// e2e is the directory of the second module.
const e2e = "tests/e2e"

// Package is a package of the repository and what its files show.
type Package struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string

	// Raced says why it is tested with the race detector, Fresh why its results are not taken from a cache. Both are
	// empty if not.
	Raced, Fresh string
	Tests        []Test
	less         bool     // tests do less with the race detector
	calls        []string // but those of tests of tier all
}

// Test is a function that go test runs. Tier and Reason are what its directive says, where there is one.
type Test struct{ Package, File, Name, Tier, Reason string }

// fullName is as [Outcome.Name] has it.
func (t Test) fullName() string { return t.Package + "." + t.Name }

// Name is the path of the package in the repository.
func (p *Package) Name() string { return strings.TrimPrefix(p.ImportPath, Module+"/") }

// E2E says whether the package is of the module for end-to-end tests.
func (p *Package) E2E() bool { return strings.HasPrefix(p.Name(), e2e+"/") }

func (p *Package) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// Source is all packages of both modules, sorted by name.
type Source struct {
	Root     string
	Packages []*Package
}

// Load reads the repository.
func Load(root string) (_ *Source, err error) {
	defer check.Return(&err)
	root = check.Must(filepath.Abs(root))
	s := &Source{Root: root}
	for _, dir := range []string{".", e2e} {
		cmd := exec.Command("go", "list", "-e",
			"-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
		cmd.Dir = filepath.Join(root, dir)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", dir, err)
		}
		for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
			p := &Package{}
			err := decoder.Decode(p)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("go list in %s: %w", dir, err)
			}
			check.OK(p.parse())
			s.Packages = append(s.Packages, p)
		}
	}
	slices.SortFunc(s.Packages, func(a, b *Package) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return s, nil
}

// Tests are the Test functions of tests/e2e.
func (s *Source) Tests() []Test {
	var tests []Test
	for _, p := range s.Packages {
		if p.E2E() {
			tests = append(tests, p.Tests...)
		}
	}
	return tests
}

func (p *Package) parse() error {
	for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		isTest := strings.HasSuffix(name, "_test.go")
		for _, d := range f.Decls {
			tier := ""
			if isTest {
				tier = p.addTest(name, d)
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if p.Raced == "" {
					p.Raced = shares(n)
				}
				if isTest && p.Fresh == "" {
					p.Fresh = looks(n)
				}
				if x, ok := n.(*ast.SelectorExpr); ok && x.Sel.Name == "Raced" {
					if of, ok := x.X.(*ast.Ident); ok && of.Name == "actortest" {
						p.less = true
					}
				}
				if call, ok := n.(*ast.CallExpr); ok && tier != All {
					p.calls = append(p.calls, called(call))
				}
				return true
			})
		}
	}
	if unraced[p.Name()] != "" || neverRaced[p.Name()] != "" || !p.tested() {
		p.Raced = ""
	}
	for prefix, why := range fresh {
		if within(p.Name(), prefix) {
			p.Fresh = why
		}
	}
	return nil
}

// addTest adds a declaration to the tests if it is one, and returns its tier.
func (p *Package) addTest(file string, d ast.Decl) string {
	function, ok := d.(*ast.FuncDecl)
	if !ok || function.Recv != nil || !isTest(function.Name.Name) {
		return ""
	}
	t := Test{Package: p.Name(), File: p.Name() + "/" + file, Name: function.Name.Name}
	if function.Doc != nil {
		last := function.Doc.List[len(function.Doc.List)-1].Text
		if tier, ok := strings.CutPrefix(last, "//tier:"); ok {
			t.Tier, t.Reason, _ = strings.Cut(tier, " ")
		}
	}
	p.Tests = append(p.Tests, t)
	return t.Tier
}

// isTest says whether go test runs a function of this name without being asked to.
func isTest(name string) bool {
	for _, kind := range []string{"Test", "Fuzz", "Example"} {
		rest, ok := strings.CutPrefix(name, kind)
		if ok && name != "TestMain" && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
			return true
		}
	}
	return false
}

// called is the name of a called function, with its package or receiver if that is a plain name.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
		return f.Sel.Name
	}
	return ""
}

func text(n ast.Node) string {
	if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		s, _ := strconv.Unquote(literal.Value) // parsed before
		return s
	}
	return ""
}

// within says whether path is dir or below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
