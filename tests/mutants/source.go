package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is one file of the product.
type source struct {
	path  string // from the root of the module
	text  []byte
	set   *token.FileSet
	file  *ast.File
	funcs map[string]*ast.FuncDecl
}

func readSource(root, path string) (*source, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	return parseSource(path, text)
}

func parseSource(path string, text []byte) (*source, error) {
	s := &source{path: path, text: text, set: token.NewFileSet(), funcs: map[string]*ast.FuncDecl{}}
	var err error
	if s.file, err = parser.ParseFile(s.set, path, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	for _, d := range s.file.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
			s.funcs[funcKey(f)] = f
		}
	}
	return s, nil
}

// funcKey names a function within its package: Plan, or planner.drive.
func funcKey(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

func (s *source) offset(p token.Pos) int { return s.set.Position(p).Offset }

// of is the text of a part of the file.
func (s *source) of(n ast.Node) string { return string(s.text[s.offset(n.Pos()):s.offset(n.End())]) }

// edit replaces a part of a text.
type edit struct {
	from, to int
	by       string
}

func apply(text []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, text[at:e.from]...), e.by...)
		at = e.to
	}
	return append(out, text[at:]...)
}

// variant is a function as a mutant has it. A mutant may change several.
type variant struct {
	mutant int
	path   string
	key    string // funcKey
	text   string // the whole function, changed
}

// name is what the function of a variant is called.
func (v *variant) name(of string) string { return fmt.Sprintf("mutant%d_%s", v.mutant, of) }

// span is where a variant is in a file with variants.
type span struct {
	from, to int
	v        *variant
}

// withVariants gives the text of a file in which each function begins with a switch: it goes on as one
// of its variants, if that mutant is switched on.
func (s *source) withVariants(all []*variant) (text []byte, spans []span, err error) {
	of := map[string][]*variant{}
	for _, v := range all {
		of[v.key] = append(of[v.key], v)
	}
	var edits []edit
	for key, variants := range of {
		f := s.funcs[key]
		if f == nil {
			return nil, nil, fmt.Errorf("%s: there is no function %s", s.path, key)
		}
		e, call := s.callable(f)
		edits = append(edits, e...)
		var b strings.Builder
		b.WriteString(" switch switchedOn {")
		for _, v := range variants {
			if f.Type.Results == nil {
				fmt.Fprintf(&b, " case %d: %s; return;", v.mutant, call(v))
			} else {
				fmt.Fprintf(&b, " case %d: return %s;", v.mutant, call(v))
			}
		}
		b.WriteString(" }; ")
		at := s.offset(f.Body.Lbrace) + 1
		edits = append(edits, edit{at, at, b.String()})
	}
	text = apply(s.text, edits)
	for _, v := range all {
		renamed, err := v.renamed()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", s.path, v.key, err)
		}
		from := len(text)
		text = append(append(text, "\n\n"...), renamed...)
		spans = append(spans, span{from, len(text), v})
	}
	return append(text, '\n'), spans, nil
}

// callable names the parameters of a function that have no names, and gives the call of a variant with
// the same arguments.
func (s *source) callable(f *ast.FuncDecl) (edits []edit, call func(*variant) string) {
	n := 0
	names := func(list *ast.FieldList) (out []string) {
		for _, field := range list.List {
			if len(field.Names) == 0 {
				n++
				name := fmt.Sprintf("unnamed%d", n)
				at := s.offset(field.Type.Pos())
				edits = append(edits, edit{at, at, name + " "})
				out = append(out, name)
			}
			for _, id := range field.Names {
				name := id.Name
				if name == "_" {
					n++
					name = fmt.Sprintf("unnamed%d", n)
					edits = append(edits, edit{s.offset(id.Pos()), s.offset(id.End()), name})
				}
				out = append(out, name)
			}
			if _, dots := field.Type.(*ast.Ellipsis); dots {
				out[len(out)-1] += "..."
			}
		}
		return out
	}
	receiver := ""
	if f.Recv != nil {
		receiver = names(f.Recv)[0] + "."
	}
	types := ""
	if f.Type.TypeParams != nil {
		types = "[" + strings.Join(names(f.Type.TypeParams), ", ") + "]"
	}
	args := strings.Join(names(f.Type.Params), ", ")
	return edits, func(v *variant) string { return receiver + v.name(f.Name.Name) + types + "(" + args + ")" }
}

// renamed is the text of a variant under its own name.
func (v *variant) renamed() (string, error) {
	s, err := parseSource(v.path, []byte("package p\n"+v.text))
	if err != nil {
		return "", err
	}
	for _, f := range s.funcs {
		from := s.offset(f.Name.Pos())
		out := apply(s.text, []edit{{from, s.offset(f.Name.End()), v.name(f.Name.Name)}})
		return string(out[len("package p\n"):]), nil
	}
	return "", fmt.Errorf("no function in %q", v.text)
}
