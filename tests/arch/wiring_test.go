package arch

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

var update = flag.Bool("update", false, "rewrite actors/node/wiring.txt")

// wiringFile is the table of who sends which message to whom. `troupe tree --wiring` prints it.
const wiringFile = root + "/actors/node/wiring.txt"

// route says that an actor sends another one a message.
type route struct{ from, to, message string }

// TestWiring compares the table with the code, and finds messages that no actor is sent.
func TestWiring(t *testing.T) {
	routes, sent := map[route]bool{}, map[string]bool{}
	declared := map[string]bool{}
	for _, p := range packages(t) {
		if within(p.ImportPath, ours("tests")) {
			continue
		}
		w := &wiring{source: load(t, p), owner: actorOf(p.ImportPath), found: routes}
		for _, f := range w.files {
			w.file(f)
		}
		for _, name := range messagesOf(w.source) {
			declared[w.owner+"."+name] = true
		}
	}
	var table []route
	for r := range routes { // order-free: it is sorted below
		table = append(table, r)
		sent[r.to+"."+r.message] = true
	}
	for name := range declared { // order-free: each is reported by itself
		if !sent[name] {
			t.Errorf("message %s is sent by nobody: connect it in actors/node, or remove it", name)
		}
	}
	got := drawn(table)
	if *update {
		check.Fatal(t, os.WriteFile(wiringFile, []byte(got), 0o644))
	}
	want := check.Value(os.ReadFile(wiringFile))(t)
	if got != string(want) {
		t.Errorf("actors/node/wiring.txt is not what the code does; look at the difference after go test ./tests/arch -run TestWiring -update\n%s", got)
	}
	compareTree(t, table)
}

// compareTree holds the tree of actors/doc.go against the routes.
func compareTree(t *testing.T, table []route) {
	text := check.Value(os.ReadFile(filepath.Join(root, "actors/doc.go")))(t)
	tree, _, _ := strings.Cut(string(text), "The other packages here")
	inTree := map[string]bool{}
	for _, found := range folderLists[0].line.FindAllStringSubmatch(strings.ReplaceAll(tree, "//", ""), -1) {
		inTree[found[1]] = true
	}
	named := map[string]bool{outside: true}
	for _, r := range table {
		named[r.from], named[r.to] = true, true
		for _, name := range []string{r.from, r.to} {
			if name != outside && !inTree[name] {
				t.Errorf("%s is sent messages or sends them, and is not in the tree of actors/doc.go", name)
			}
		}
	}
	for name := range inTree { // order-free: each is reported by itself
		if !named[name] {
			t.Errorf("%s is in the tree of actors/doc.go, and no message goes to it or comes from it", name)
		}
	}
}

// drawn is the table as text: one line for each pair of actors.
func drawn(table []route) string {
	slices.SortFunc(table, func(a, b route) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.message, b.message))
	})
	var b strings.Builder
	for i, r := range table {
		if i > 0 && table[i-1].from == r.from && table[i-1].to == r.to {
			fmt.Fprintf(&b, ", %s", r.message)
			continue
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%-11s %-11s %s", r.from, r.to, r.message)
	}
	return b.String() + "\n"
}

// outside stands for whatever is no actor: the daemon, the simulations, a command.
const outside = "(outside)"

// actorOf is the name of an actor's package, or outside.
func actorOf(path string) string {
	name, below := strings.CutPrefix(path, ours("actors")+"/")
	if !below || strings.Contains(name, "/") || name == "kernel" || name == "port" {
		return outside
	}
	return name
}

// messagesOf are the exported types of a package that its Message interface takes.
func messagesOf(s *source) (out []string) {
	for _, o := range s.info.Defs { // order-free: the caller makes a set
		if name, is := o.(*types.TypeName); is && name.Parent() == name.Pkg().Scope() && isMessage(name.Type()) {
			out = append(out, name.Name())
		}
	}
	return out
}

// isMessage: t is an exported type of an actor's package, and one of the actor's messages.
func isMessage(t types.Type) bool {
	named, is := t.(*types.Named)
	if !is || named.Obj().Pkg() == nil || !named.Obj().Exported() || actorOf(named.Obj().Pkg().Path()) == outside {
		return false
	}
	message := named.Obj().Pkg().Scope().Lookup("Message")
	if message == nil || message.Type() == t {
		return false
	}
	i, is := message.Type().Underlying().(*types.Interface)
	return is && i.NumMethods() > 0 && types.Implements(t, i)
}

// wiring finds the routes in one package. A message is made where it is sent: in the package of
// an actor, or in a function that actors/node gives to one. Then that one is the sender.
type wiring struct {
	*source
	owner string
	found map[route]bool
	// paths has the nodes above each node that counts, uses the places where a function is used.
	paths map[ast.Node][]ast.Node
	uses  map[types.Object][]ast.Node
}

func (w *wiring) file(f *ast.File) {
	if w.paths == nil {
		w.index()
	}
	ast.Inspect(f, func(n ast.Node) bool {
		literal, is := n.(*ast.CompositeLit)
		if !is || !isMessage(w.info.TypeOf(literal)) {
			return true
		}
		message := w.info.TypeOf(literal).(*types.Named).Obj()
		for _, from := range w.senders(literal, 0) {
			w.found[route{from, actorOf(message.Pkg().Path()), message.Name()}] = true
		}
		return true
	})
}

// index notes what is above each node of the package.
func (w *wiring) index() {
	w.paths, w.uses = map[ast.Node][]ast.Node{}, map[types.Object][]ast.Node{}
	for _, f := range w.files {
		var above []ast.Node
		ast.Inspect(f, func(n ast.Node) bool {
			if n == nil {
				above = above[:len(above)-1]
				return true
			}
			switch n := n.(type) {
			case *ast.CompositeLit:
				w.paths[n] = slices.Clone(above)
			case *ast.Ident:
				if o, is := w.info.Uses[n]; is && o.Pkg() != nil {
					w.paths[n], w.uses[o] = slices.Clone(above), append(w.uses[o], n)
				}
			}
			above = append(above, n)
			return true
		})
	}
}

// senders are the actors that send what is made at a node.
func (w *wiring) senders(n ast.Node, depth int) []string {
	if w.owner != "node" || depth > 5 {
		return []string{w.owner}
	}
	above := w.paths[n]
	for i, a := range slices.Backward(above) {
		switch a := a.(type) {
		case *ast.CallExpr: // how one actor follows what another publishes
			if value := w.followed(a); value != nil {
				return w.publishers(value, depth)
			}
		case *ast.CompositeLit: // the Deps of an actor
			if name, is := w.depsOf(a); is {
				return []string{name}
			}
		case *ast.AssignStmt:
			for _, l := range a.Lhs {
				switch l := l.(type) {
				case *ast.SelectorExpr: // a field of the Deps of an actor
					if name, is := w.depsOf(l.X); is {
						return []string{name}
					}
				case *ast.Ident: // a function that is used elsewhere
					if _, is := a.Rhs[0].(*ast.FuncLit); is && i+1 < len(above) && above[i+1] == a.Rhs[0] {
						return w.users(w.info.Defs[l], depth)
					}
				}
			}
		case *ast.FuncDecl:
			if users := w.users(w.info.Defs[a.Name], depth); len(users) > 0 {
				return users
			}
		}
	}
	return []string{w.owner}
}

func (w *wiring) users(o types.Object, depth int) (out []string) {
	for _, at := range w.uses[o] {
		out = append(out, w.senders(at, depth+1)...)
	}
	return out
}

// followed is the field of the published value in a call of kernel.Follow, nil for other calls.
func (w *wiring) followed(c *ast.CallExpr) types.Object {
	if f, is := c.Fun.(*ast.SelectorExpr); !is || f.Sel.Name != "Follow" {
		return nil
	}
	value := c.Args[0].(*ast.UnaryExpr).X.(*ast.SelectorExpr)
	return w.info.Uses[value.Sel]
}

// publishers are the actors that publish a value.
func (w *wiring) publishers(value types.Object, depth int) (out []string) {
	for _, at := range w.uses[value] {
		above := w.paths[at]
		if publish, is := above[len(above)-2].(*ast.SelectorExpr); is && publish.Sel.Name == "Publish" {
			out = append(out, w.senders(at, depth+1)...)
		}
	}
	return out
}

// depsOf is the actor that a value of this type is given to.
func (w *wiring) depsOf(e ast.Expr) (string, bool) {
	t := w.info.TypeOf(e)
	if p, is := t.(*types.Pointer); is {
		t = p.Elem()
	}
	named, is := t.(*types.Named)
	if !is || named.Obj().Pkg() == nil || isMessage(t) {
		return "", false
	}
	name := actorOf(named.Obj().Pkg().Path())
	_, is = t.Underlying().(*types.Struct)
	return name, is && name != outside && name != w.owner
}
