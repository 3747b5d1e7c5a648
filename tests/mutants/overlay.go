package main

import (
	"bytes"
	"encoding/json"
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

	"github.com/troupe-dev/troupe/tests/check"
)

// switchFile is added to each package with variants.
const switchFile = "switched_on.go"

const switchText = `package %s

import (
	"os"
	"strconv"
)

// switchedOn is the mutant that runs, 0 for none.
var switchedOn, _ = strconv.Atoi(os.Getenv("` + switchName + `"))
`

// switchName is the variable of the environment that switches a mutant on.
const switchName = "TROUPE_MUTANT"

// overlay makes files with variants for go build -overlay.
type overlay struct {
	root    string
	sources map[string]*source
	// packages are those of the module and of what it imports, by the folder of their files.
	packages map[string]*listed
	exports  map[string]string
}

// listed is a package as go list shows it.
type listed struct {
	ImportPath, Export, Dir, Name string
	GoFiles                       []string
}

func newOverlay(root string) (*overlay, error) {
	o := &overlay{
		root: root, sources: map[string]*source{}, packages: map[string]*listed{}, exports: map[string]string{},
	}
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,Name,GoFiles",
		"./actors/...", "./apiclient/...", "./cri/...", "./supervisor/...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return o, nil
		} else if err != nil {
			return nil, err
		}
		o.exports[p.ImportPath] = p.Export
		if dir, err := filepath.Rel(root, p.Dir); err == nil {
			o.packages[dir] = &p
		}
	}
}

func (o *overlay) source(path string) (*source, error) {
	if s := o.sources[path]; s != nil {
		return s, nil
	}
	s, err := readSource(o.root, path)
	o.sources[path] = s
	return s, err
}

// compiling drops the mutants that do not compile.
func (o *overlay) compiling(all []*variant) ([]*variant, error) {
	for {
		bad := map[int]bool{}
		for dir, variants := range byFolder(all) {
			if err := o.check(dir, variants, bad); err != nil {
				return nil, err
			}
		}
		if len(bad) == 0 {
			return all, nil
		}
		all = slices.DeleteFunc(all, func(v *variant) bool { return bad[v.mutant] })
	}
}

func byFolder(all []*variant) map[string][]*variant {
	out := map[string][]*variant{}
	for _, v := range all {
		out[filepath.Dir(v.path)] = append(out[filepath.Dir(v.path)], v)
	}
	return out
}

// texts are the files of a package with variants, and where those are.
func (o *overlay) texts(dir string, all []*variant) (texts map[string][]byte, spans map[string][]span, err error) {
	defer check.Return(&err)
	texts, spans = map[string][]byte{}, map[string][]span{}
	of := map[string][]*variant{}
	for _, v := range all {
		of[v.path] = append(of[v.path], v)
	}
	for path, variants := range of {
		s := check.Must(o.source(path))
		texts[path], spans[path] = check.Must2(s.withVariants(variants))
	}
	p := o.packages[dir]
	if p == nil {
		return nil, nil, fmt.Errorf("%s is no package of the product", dir)
	}
	texts[filepath.Join(dir, switchFile)] = fmt.Appendf(nil, switchText, p.Name)
	return texts, spans, nil
}

// check type-checks a package with variants, and notes the mutants that do not compile.
func (o *overlay) check(dir string, all []*variant, bad map[int]bool) (err error) {
	defer check.Return(&err)
	texts, spans := check.Must2(o.texts(dir, all))
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range append(slices.Clone(o.packages[dir].GoFiles), switchFile) {
		path := filepath.Join(dir, name)
		text := texts[path]
		if text == nil {
			text = check.Must(os.ReadFile(filepath.Join(o.root, path)))
		}
		f := check.Must(parser.ParseFile(set, path, text, parser.SkipObjectResolution))
		files = append(files, f)
	}
	var elsewhere error
	config := types.Config{
		Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(o.exports[path]) }),
		Error: func(err error) {
			at := set.Position(err.(types.Error).Pos)
			i := slices.IndexFunc(spans[at.Filename], func(s span) bool { return s.from <= at.Offset && at.Offset < s.to })
			if i < 0 {
				elsewhere = err
				return
			}
			bad[spans[at.Filename][i].v.mutant] = true
		},
	}
	_, _ = config.Check(o.packages[dir].ImportPath, set, files, nil) // each error is told
	if elsewhere != nil && len(bad) == 0 {
		return elsewhere
	}
	return nil
}

// write writes the files to a folder, and gives the file for go build -overlay.
func (o *overlay) write(to string, all []*variant) (_ string, err error) {
	defer check.Return(&err)
	replace := map[string]string{}
	for dir, variants := range byFolder(all) {
		texts, _ := check.Must2(o.texts(dir, variants))
		for path, text := range texts {
			file := filepath.Join(to, path)
			check.OK(os.MkdirAll(filepath.Dir(file), 0o777))
			check.OK(os.WriteFile(file, text, 0o666))
			replace[filepath.Join(o.root, path)] = file
		}
	}
	data := check.Must(json.Marshal(map[string]any{"Replace": replace}))
	file := filepath.Join(to, "overlay.json")
	return file, os.WriteFile(file, data, 0o666)
}
