package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Operators of generated mutants.
const (
	negate   = "negate"      // a condition
	boundary = "boundary"    // < becomes <=, and so on
	offByOne = "off-by-one"  // a number is one more
	dropCall = "drop-call"   // a call is left out
	dropSend = "drop-send"   // a message or an effect is left out
	dropMap  = "drop-delete" // an entry of a map stays
	dropSet  = "drop-set"    // an assignment is left out
	dropJump = "drop-jump"   // a return, continue or break is left out
)

// generated is a mutant that a rule made.
type generated struct {
	*variant
	Operator string
	Line     int
	From, To string
}

// place is where the mutant is, as a person reads it.
func (g *generated) place() string { return fmt.Sprintf("%s:%d", g.path, g.Line) }

// quietFuncs have no effect on what a node does: they describe.
var quietFuncs = []string{"String", "Error", "GoString"}

// skipped are the folders below actors that are not mutated: the shared code of simulated ports is no
// part of the product's behavior.
var skipped = []string{filepath.Join("actors", "port", "simport")}

// generate makes all mutants of the files below a folder, in a fixed order. Their numbers begin with 1.
func generate(o *overlay, below string) (all []*generated, err error) {
	err = filepath.WalkDir(filepath.Join(o.root, below), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(o.root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, rel):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"),
			o.packages[filepath.Dir(rel)] == nil,
			!slices.Contains(o.packages[filepath.Dir(rel)].GoFiles, filepath.Base(rel)):
			return nil
		}
		s, err := o.source(rel)
		if err != nil {
			return err
		}
		for _, d := range s.file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Body != nil && !slices.Contains(quietFuncs, f.Name.Name) &&
				f.Name.Name != "init" {
				all = append(all, s.mutants(f)...)
			}
		}
		return nil
	})
	for i, g := range all {
		g.mutant = i + 1
	}
	return all, err
}

// mutants are those of one function.
func (s *source) mutants(f *ast.FuncDecl) (all []*generated) {
	begin := s.offset(f.Pos())
	add := func(operator string, n ast.Node, to string) {
		from := s.of(n)
		e := edit{s.offset(n.Pos()) - begin, s.offset(n.End()) - begin, to}
		all = append(all, &generated{
			variant:  &variant{path: s.path, key: funcKey(f), text: string(apply([]byte(s.of(f)), []edit{e}))},
			Operator: operator, Line: s.set.Position(n.Pos()).Line, From: from, To: to,
		})
	}
	condition := func(x ast.Expr) {
		if x != nil {
			add(negate, x, "!("+s.of(x)+")")
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			condition(n.Cond)
		case *ast.ForStmt:
			condition(n.Cond)
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				for _, x := range c.(*ast.CaseClause).List {
					if n.Tag == nil {
						condition(x)
					}
				}
			}
		case *ast.BinaryExpr:
			if to, is := boundaries[n.Op]; is {
				add(boundary, n, s.of(n.X)+" "+to.String()+" "+s.of(n.Y))
			}
		case *ast.BasicLit:
			if v, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
				add(offByOne, n, strconv.FormatInt(v+1, 10))
			}
		case *ast.ExprStmt:
			if call, is := n.X.(*ast.CallExpr); is {
				if s.telling(call) {
					return false
				}
				add(s.dropped(call), n, "")
			}
		case *ast.AssignStmt:
			if s.telling(n.Rhs[0]) {
				return false
			}
			if n.Tok != token.DEFINE && s.of(n.Lhs[0]) != "_" {
				add(dropSet, n, "")
			}
		case *ast.IncDecStmt:
			add(dropSet, n, "")
		case *ast.BranchStmt:
			if n.Tok == token.CONTINUE || n.Tok == token.BREAK {
				add(dropJump, n, "")
			}
		case *ast.ReturnStmt:
			if len(n.Results) == 0 {
				add(dropJump, n, "")
			}
		case *ast.CallExpr:
			return !s.indifferent(n)
		}
		return true
	})
	return all
}

var boundaries = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
}

// telling says whether an expression writes a log, or panics over what can't be.
func (s *source) telling(x ast.Expr) bool {
	text := s.of(x)
	for _, word := range []string{".Log()", ".Msg(", ".Msgf(", "log.Str(", "panic("} {
		if strings.Contains(text, word) {
			_, call := x.(*ast.CallExpr)
			return call
		}
	}
	return false
}

// indifferent calls have numbers that change nothing but speed or text.
func (s *source) indifferent(c *ast.CallExpr) bool {
	name := s.of(c.Fun)
	return name == "make" || strings.HasPrefix(name, "strconv.") || strings.HasPrefix(name, "fmt.")
}

// dropped is the operator that leaves out a call.
func (s *source) dropped(c *ast.CallExpr) string {
	name := s.of(c.Fun)
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case name == "delete":
		return dropMap
	case last == "Tell", last == "Do", strings.Contains(name, ".deps."):
		return dropSend
	default:
		return dropCall
	}
}
