package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// The order in which Go walks a map is random, so that no message, effect or trace may come from
// it. A walk over a map is in order if
//   - it is over sorted keys: slices.Sorted(maps.Keys(m)) and its kin, or
//   - what it does comes out the same in any order, as [outcome] knows it, and each slice that it
//     appends to is given to a sorting function of slices or sort further down in the block, or
//   - a comment on its line, or the line above, says why no order is needed:
//     // order-free: <why>
//
// It reads the text and the types but not the flow of values: a slice used between loop and sort,
// or a local variable that aliases an outer one, goes unseen.

// orderFree marks a walk whose order does not matter.
const orderFree = "// order-free: "

// unordered are the walks over maps that break the rule.
func unordered(s *source) []string {
	var found []string
	for _, f := range s.files {
		excused := excusedLines(s, f)
		report := func(n ast.Node, what string) {
			line := s.fset.Position(n.Pos()).Line
			if !excused[line] && !excused[line-1] {
				found = append(found, s.position(n)+": "+what)
			}
		}
		sorted := map[ast.Node]bool{} // calls to package maps that a sorting call wraps
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				inspectBlock(s, n.List, report)
			case *ast.CaseClause:
				inspectBlock(s, n.Body, report)
			case *ast.CommClause:
				inspectBlock(s, n.Body, report)
			case *ast.CallExpr:
				pkg, name := callee(s, n)
				wraps := pkg == "slices" && strings.HasPrefix(name, "Sorted") || pkg == "maps" && (name == "Collect" || name == "Insert")
				for _, arg := range n.Args {
					sorted[arg] = sorted[arg] || wraps
				}
				if pkg == "maps" && (name == "Keys" || name == "Values" || name == "All") && !sorted[n] {
					report(n, "maps."+name+" is not sorted")
				}
			}
			return true
		})
	}
	return found
}

func excusedLines(s *source, f *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if why, ok := strings.CutPrefix(c.Text, orderFree); ok && strings.TrimSpace(why) != "" {
				lines[s.fset.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}

// inspectBlock looks at the loops that are statements of one block.
func inspectBlock(s *source, block []ast.Stmt, report func(ast.Node, string)) {
	for i, statement := range block {
		if labeled, ok := statement.(*ast.LabeledStmt); ok {
			statement = labeled.Stmt
		}
		loop, ok := statement.(*ast.RangeStmt)
		if !ok {
			continue
		}
		if _, isMap := s.info.TypeOf(loop.X).Underlying().(*types.Map); !isMap {
			continue
		}
		if loop.Key == nil && loop.Value == nil {
			continue // for range m only counts
		}
		o := outcomeOf(s, loop)
		if !o.anyOrder() || !allSorted(s, o.appended, block[i+1:]) {
			report(loop, "range over a map")
		}
	}
}

// outcome is what a loop over a map leaves behind.
type outcome struct {
	appended []string // slices appended to
	byKey    bool     // entries set or deleted under the loop's own key, numbers added up
	returns  []string // constants returned
	more     bool     // whatever else
}

// anyOrder says whether the outcome is the same in any order, once the slices are sorted. A return
// cuts the loop short: then nothing but the one constant it returns may come out.
func (o outcome) anyOrder() bool {
	if len(o.returns) > 0 && (o.byKey || len(o.appended) > 0) {
		return false
	}
	return !o.more && len(slices.Compact(o.returns)) <= 1
}

func outcomeOf(s *source, loop *ast.RangeStmt) outcome {
	var o outcome
	local := func(e ast.Expr) bool {
		id := baseOf(e)
		if id == nil {
			return false
		}
		if id.Name == "_" {
			return true
		}
		object := s.info.ObjectOf(id)
		return object != nil && loop.Body.Pos() <= object.Pos() && object.Pos() < loop.Body.End()
	}
	atKey := func(e ast.Expr) bool {
		key, ok := loop.Key.(*ast.Ident)
		id, same := e.(*ast.Ident)
		return ok && same && key.Name != "_" && s.info.ObjectOf(id) == s.info.ObjectOf(key)
	}
	integer := func(e ast.Expr) bool {
		basic, ok := s.info.TypeOf(e).Underlying().(*types.Basic)
		return ok && basic.Info()&types.IsInteger != 0
	}
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				index, indexed := to.(*ast.IndexExpr)
				switch {
				case n.Tok == token.DEFINE || local(to):
				case indexed && atKey(index.Index):
					o.byKey = true
				case n.Tok == token.ADD_ASSIGN && integer(to):
					o.byKey = true
				case isAppend(n, i):
					o.appended = append(o.appended, to.(*ast.Ident).Name)
				default:
					o.more = true
				}
			}
		case *ast.IncDecStmt:
			o.byKey = true
		case *ast.ExprStmt:
			call, ok := n.X.(*ast.CallExpr)
			switch {
			case !ok:
				o.more = true
			case isDelete(call) && atKey(call.Args[1]):
				o.byKey = true
			default:
				method, ok := call.Fun.(*ast.SelectorExpr)
				o.more = o.more || !ok || !local(method.X)
			}
		case *ast.ReturnStmt:
			for _, result := range n.Results {
				value := s.info.Types[result]
				if value.Value == nil && !value.IsNil() {
					o.more = true
				}
			}
			o.returns = append(o.returns, fmt.Sprint(constants(s, n.Results)))
		case *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
			o.more = true
		case *ast.BranchStmt:
			o.more = o.more || n.Tok != token.CONTINUE
		}
		return true
	})
	return o
}

func constants(s *source, results []ast.Expr) []string {
	var values []string
	for _, r := range results {
		values = append(values, fmt.Sprint(s.info.Types[r].Value))
	}
	return values
}

// baseOf is x of x, x.f, x[i] and *x.
func baseOf(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return baseOf(e.X)
	case *ast.IndexExpr:
		return baseOf(e.X)
	case *ast.StarExpr:
		return baseOf(e.X)
	}
	return nil
}

// isAppend says whether the statement's i-th assignment is x = append(x, …).
func isAppend(n *ast.AssignStmt, i int) bool {
	if len(n.Lhs) != len(n.Rhs) {
		return false
	}
	to, ok := n.Lhs[i].(*ast.Ident)
	call, called := n.Rhs[i].(*ast.CallExpr)
	if !ok || !called || len(call.Args) == 0 {
		return false
	}
	fn, ok := call.Fun.(*ast.Ident)
	first, named := call.Args[0].(*ast.Ident)
	return ok && named && fn.Name == "append" && first.Name == to.Name
}

func isDelete(call *ast.CallExpr) bool {
	fn, ok := call.Fun.(*ast.Ident)
	return ok && fn.Name == "delete" && len(call.Args) == 2
}

// allSorted says whether each name is the first argument of a sorting call in the statements.
func allSorted(s *source, names []string, rest []ast.Stmt) bool {
	var done []string
	for _, statement := range rest {
		ast.Inspect(statement, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			pkg, name := callee(s, call)
			if pkg == "sort" || pkg == "slices" && strings.HasPrefix(name, "Sort") {
				if arg, ok := call.Args[0].(*ast.Ident); ok {
					done = append(done, arg.Name)
				}
			}
			return true
		})
	}
	return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(done, n) })
}

// callee is the package and name of the function that is called, if it is one of a package.
func callee(s *source, call *ast.CallExpr) (pkg, name string) {
	fun := call.Fun
	if generic, ok := fun.(*ast.IndexExpr); ok {
		fun = generic.X
	}
	selector, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	fn, ok := s.info.Uses[selector.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Signature().Recv() != nil {
		return "", ""
	}
	return fn.Pkg().Path(), fn.Name()
}

func TestNoMapOrder(t *testing.T) {
	for _, p := range packages(t) {
		if !within(p.ImportPath, ours("actors")) {
			continue
		}
		for _, at := range unordered(load(t, p)) {
			t.Errorf("%s: map order must reach no message, effect or trace: sort the keys, or write %s<why> on the line", at, orderFree)
		}
	}
}

func TestMapOrderRules(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       int
	}{
		{"plain", `for k := range m { use(k) }`, 1},
		{"sorted keys", `for _, k := range slices.Sorted(maps.Keys(m)) { use(k) }`, 0},
		{"unsorted keys", `for k := range maps.Keys(m) { use(k) }`, 1},
		{"collected, not sorted", `_ = slices.Collect(maps.Values(m))`, 1},
		{"sorted later", `var ks []string; for k := range m { ks = append(ks, k) }; slices.Sort(ks); use(ks[0])`, 0},
		{"sorted by less", `var ks []string; for k := range m { ks = append(ks, k) }; sort.Strings(ks)`, 0},
		{"another is sorted", `var ks, js []string; for k := range m { ks = append(ks, k) }; slices.Sort(js)`, 1},
		{"sorted, but more is done", `var ks []string; for k := range m { use(k); ks = append(ks, k) }; slices.Sort(ks)`, 1},
		{"sorted, but cut short", `var ks []string; for k := range m { ks = append(ks, k); break }; slices.Sort(ks)`, 1},
		{"copied", `c := map[string]int{}; for k, v := range m { c[k] = v }`, 0},
		{"inverted", `c := map[int]string{}; for k, v := range m { c[v] = k }`, 1},
		{"deleted", `for k, v := range m { if v == 0 { delete(m, k) } }`, 0},
		{"added up", `n := 0; for _, v := range m { n += v }`, 0},
		{"concatenated", `n := ""; for k := range m { n += k }; use(n)`, 1},
		{"any", `for _, v := range m { if v > 1 { return } }`, 0},
		{"one of several", `r := ""; for k := range m { r = k }; use(r)`, 1},
		{"copied, but cut short", `c := map[string]int{}; for k, v := range m { c[k] = v; return }`, 1},
		{"local work", `for k := range m { b := bytes.Buffer{}; b.WriteString(k) }`, 0},
		{"excused", "for k := range m { // order-free: a set\n use(k) }", 0},
		{"excused above", "// order-free: a set\nfor k := range m { use(k) }", 0},
		{"no reason given", "for k := range m { // order-free: \n use(k) }", 1},
		{"counted", `for range m { use("") }`, 0},
		{"nested", `if true { for k := range m { use(k) } }`, 1},
		{"in a case", `switch { case true: for k := range m { use(k) } }`, 1},
		{"labeled", "outer:\nfor k := range m { use(k); continue outer }", 1},
		{"named map type", `for k := range set(m) { use(k) }`, 1},
		{"slice", `for _, k := range []string{} { use(k) }`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := checkText(t, `package sample
import ("bytes"; "maps"; "slices"; "sort")
type set map[string]int
var _, _, _ = maps.Keys[set], sort.Strings, bytes.Buffer{}
func use(string) {}
func f(m map[string]int) {
	_ = slices.Sort[[]string]
	`+c.body+`
}`)
			if found := unordered(s); len(found) != c.want {
				t.Errorf("found %q, want %d", found, c.want)
			}
		})
	}
}
