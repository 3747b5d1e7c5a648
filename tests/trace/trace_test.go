package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	module = "github.com/troupe-dev/troupe"
	root   = "../.."
)

// declared is a package that declares a sum type.
type declared struct {
	dir, name string
	sums      []string
	types     []string
	// marked are the receivers of the marker methods of the sum types.
	marked []string
}

// TestEveryFieldOfEveryMessage: each change of a field of a message is another hash. Messages are not exported, so a
// program is built of the product in which each of these packages also has a function that lists its types.
func TestEveryFieldOfEveryMessage(t *testing.T) {
	t.Parallel()
	packages := sumTypes(t)
	files := map[string]string{}
	dir := t.TempDir()
	replace := func(path, text string) {
		from := filepath.Join(dir, fmt.Sprint(len(files), ".go"))
		check.Fatal(t, os.WriteFile(from, []byte(text), 0o600))
		files[path] = from
	}
	here := check.Value(filepath.Abs(root))(t)
	var imports, list strings.Builder
	for i, p := range packages {
		replace(filepath.Join(here, p.dir, "every_type.go"), p.lister())
		fmt.Fprintf(&imports, "p%d %q\n", i, module+"/"+p.dir)
		fmt.Fprintf(&list, "p%d.EveryType(),\n", i)
	}
	replace(filepath.Join(here, "tests/trace/every/main.go"), fmt.Sprintf(`package main
import (
	"encoding/json"
	"os"
	"reflect"
	"%s/tests/trace"
	%s)
func main() {
	var all []trace.Package
	for _, p := range [][2][]reflect.Type{
		%s} {
		all = append(all, trace.Package{Path: p[0][0].PkgPath(), Sums: p[0], Types: p[1]})
	}
	if err := json.NewEncoder(os.Stdout).Encode(trace.Check(all)); err != nil {
		panic(err)
	}
}
`, module, imports.String(), list.String()))
	overlay := check.Value(json.Marshal(map[string]any{"Replace": files}))(t)
	check.Fatal(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	c := exec.CommandContext(t.Context(), "go", "run", "-overlay", filepath.Join(dir, "overlay.json"), "./tests/trace/every")
	c.Dir = here
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var got Report
	check.Fatal(t, json.Unmarshal(out, &got))
	for _, place := range got.Unseen {
		t.Errorf("%s: another one has the same hash", place)
	}
	for _, p := range packages {
		for _, name := range p.marked {
			if is := p.name + "." + name; p.actor() && !slices.Contains(got.Messages, is) && !slices.Contains(got.Messages, "*"+is) {
				t.Errorf("%s was not looked at", is)
			}
		}
	}
	t.Logf("%d messages, %d changes, each another hash", len(got.Messages), got.Changes)
	if len(got.Messages) < 300 || got.Changes < 10*len(got.Messages) {
		t.Error("there are more messages, and more fields")
	}
}

// TestActors: each actor declares its messages as a sum type, by which they are found.
func TestActors(t *testing.T) {
	t.Parallel()
	packages := sumTypes(t)
	dirs := check.Value(os.ReadDir(filepath.Join(root, "actors")))(t)
	n := 0
	for _, d := range dirs {
		of := filepath.Join("actors", d.Name())
		if d.Name() == "kernel" || !d.IsDir() || !spawned(t, of) {
			continue
		}
		n++
		i := slices.IndexFunc(packages, func(p *declared) bool { return p.dir == of })
		if i < 0 || len(packages[i].sums) != 1 || len(packages[i].marked) == 0 {
			t.Errorf("%s has an actor, and no sum type of its messages", of)
		}
	}
	check.AtLeast(t, n, 25, "there are %d actors", n)
}

// spawned reports whether a package has an actor.
func spawned(t *testing.T, dir string) bool {
	files := check.Value(filepath.Glob(filepath.Join(root, dir, "*.go")))(t)
	return slices.ContainsFunc(files, func(path string) bool {
		text := check.Value(os.ReadFile(path))(t)
		return !strings.HasSuffix(path, "_test.go") && bytes.Contains(text, []byte(") Receive(ctx *kernel.Context[Message], "))
	})
}

// TestBlind: a hash that sees no contents is found out, at each field.
func TestBlind(t *testing.T) {
	t.Parallel()
	type in struct {
		Key   string
		value []int
	}
	type message struct {
		Number int
		In     *in
		By     map[string]in
		Err    error
		Call   func()
		Stream chan int
	}
	_ = message{In: &in{value: nil}}
	c := &checker{hash: func(m any) uint64 { return uint64(len(fmt.Sprintf("%T", m))) }}
	c.message(reflect.TypeFor[message]())
	slices.Sort(c.found.Unseen)
	got := strings.Join(slices.Compact(c.found.Unseen), " ")
	want := "Number In In.Key In.value[:0] In.value[:1] In.value[0] By{} By{x} By{key} By{value}.Key By{value}.value[:0] " +
		"By{value}.value[:1] By{value}.value[0] Err Call Stream"
	wants := strings.Fields(strings.ReplaceAll(" "+want, " ", " trace.message."))
	slices.Sort(wants)
	check.Equal(t, got, strings.Join(wants, " "), "unseen")
}

// lister is a file of the package with a function that has its types: those of the sums, and all others.
func (p *declared) lister() string {
	of := func(names []string) string {
		var b strings.Builder
		for _, n := range names {
			fmt.Fprintf(&b, "reflect.TypeFor[%s](),\n", n)
		}
		return "{" + b.String() + "}"
	}
	return fmt.Sprintf("package %s\nimport \"reflect\"\nfunc EveryType() [2][]reflect.Type {\nreturn [2][]reflect.Type{%s, %s}}\n",
		p.name, of(p.sums), of(p.types))
}

// actor reports whether it is one, and not what is in messages.
func (p *declared) actor() bool {
	return !strings.Contains(p.dir, "decide") && !strings.HasSuffix(p.dir, "port")
}

// sumTypes are the packages below actors that declare one.
func sumTypes(t *testing.T) (all []*declared) {
	t.Helper()
	check.Fatal(t, filepath.WalkDir(filepath.Join(root, "actors"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		dir, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		p := &declared{dir: dir}
		if err := p.read(path); err != nil {
			return err
		}
		if len(p.sums) > 0 {
			all = append(all, p)
		}
		return nil
	}))
	return all
}

// read finds the declarations of a package.
func (p *declared) read(dir string) (err error) {
	defer check.Return(&err)
	paths := check.Must(filepath.Glob(filepath.Join(dir, "*.go")))
	methods, markers := map[string][]string{}, map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := check.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution))
		p.name = file.Name.Name
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[d.Name.Name] = append(methods[d.Name.Name], receiver(d.Recv.List[0].Type))
				}
			case *ast.GenDecl:
				p.typesOf(d, markers)
			}
		}
	}
	for name := range markers {
		p.marked = append(p.marked, methods[name]...)
	}
	return nil
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// typesOf notes the types of a declaration, and the methods that mark a sum.
func (p *declared) typesOf(d *ast.GenDecl, markers map[string]bool) {
	for _, s := range d.Specs {
		s, ok := s.(*ast.TypeSpec)
		if !ok || s.TypeParams != nil || s.Assign != token.NoPos {
			continue
		}
		sum, is := s.Type.(*ast.InterfaceType)
		switch {
		case !is:
			p.types = append(p.types, s.Name.Name)
		case isSum(d.Doc) || isSum(s.Doc):
			p.sums = append(p.sums, s.Name.Name)
			for _, m := range sum.Methods.List {
				for _, n := range m.Names {
					markers[n.Name] = true
				}
			}
		}
	}
}

// isSum reports whether a comment says that an interface is a sum type.
func isSum(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return c.Text == "//sumtype:decl" })
}
