package arch

import (
	"fmt"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// stateFile lists the fields of actors that are booleans, pointers or times after all, each with the reason why it is
// no state that an enum should have.
const stateFile = "testdata/state.txt"

// TestState holds how actors keep their state: what a thing is at is one enum with a diagram, and is not spread over
// booleans, pointers that may be nil, and times that may be zero, of which only some combinations can be.
func TestState(t *testing.T) {
	reasons := reasonsOf(t)
	for _, p := range packages(t) {
		if actorOf(p.ImportPath) == outside {
			continue
		}
		s := load(t, p)
		for field, kind := range stateOf(s) { // order-free: each is reported by itself
			name := actorOf(p.ImportPath) + " " + field + " " + kind
			if _, listed := reasons[name]; !listed {
				t.Errorf("%s: make it a state of an enum, with a diagram over it; or list it in tests/arch/%s: %s: WHY",
					p.ImportPath, stateFile, name)
			}
			delete(reasons, name)
		}
	}
	for name := range reasons { // order-free: each is reported by itself
		t.Errorf("tests/arch/%s: there is no %s any more: remove the line", stateFile, name)
	}
}

// reasonsOf are the lines of the file: ACTOR STRUCT.FIELD KIND: WHY. They are sorted, and there is a reason in each.
func reasonsOf(t *testing.T) map[string]string {
	t.Helper()
	out, last := map[string]string{}, ""
	for line := range strings.Lines(string(check.Value(os.ReadFile(stateFile))(t))) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		name, why, _ := strings.Cut(line, ": ")
		if len(strings.Fields(name)) != 3 || len(strings.Fields(why)) < 3 {
			t.Errorf("tests/arch/%s: %q: want ACTOR STRUCT.FIELD KIND: WHY", stateFile, line)
		}
		if name <= last {
			t.Errorf("tests/arch/%s: %s is not after %s", stateFile, name, last)
		}
		out[name], last = why, name
	}
	return out
}

// stateOf are the fields of a package's actors, and of the structs of the package that they hold, that are a boolean, a
// pointer or a time: by STRUCT.FIELD, with their kind. What an actor is made with (deps, config) and messages that it
// keeps are no state of its own.
func stateOf(s *source) map[string]string {
	out, seen := map[string]string{}, map[*types.Named]bool{}
	var visit func(t types.Type, in *types.Package)
	visit = func(t types.Type, in *types.Package) {
		switch t := types.Unalias(t).(type) {
		case *types.Pointer:
			visit(t.Elem(), in)
		case *types.Slice:
			visit(t.Elem(), in)
		case *types.Array:
			visit(t.Elem(), in)
		case *types.Map:
			visit(t.Key(), in)
			visit(t.Elem(), in)
		case *types.Struct:
			return // one without a name has no state of its own
		case *types.Named:
			for a := range t.TypeArgs().Types() {
				visit(a, in)
			}
			fields, is := t.Underlying().(*types.Struct)
			if !is {
				if t.Obj().Pkg() == in && !seen[t] {
					seen[t] = true
					visit(t.Underlying(), in)
				}
				return
			}
			if t.Obj().Pkg() != in || seen[t] || isMessage(t) {
				return
			}
			seen[t] = true
			for f := range fields.Fields() {
				kind := kindOf(f.Type())
				if kind == "pointer" && (f.Name() == "deps" || f.Name() == "config") {
					continue
				}
				if kind != "" {
					out[t.Obj().Name()+"."+f.Name()] = kind
				}
				visit(f.Type(), in)
			}
		}
	}
	for _, o := range s.info.Defs { // order-free: a set
		if name, is := o.(*types.TypeName); is && name.Pkg() != nil && receives(name.Type()) {
			visit(name.Type(), name.Pkg())
		}
	}
	return out
}

// kindOf is what a field is of the three that are looked for, empty for none.
func kindOf(t types.Type) string {
	t = types.Unalias(t)
	if b, is := t.Underlying().(*types.Basic); is && b.Kind() == types.Bool {
		return "bool"
	}
	if _, is := t.(*types.Pointer); is {
		return "pointer"
	}
	if n, is := t.(*types.Named); is && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "time" && n.Obj().Name() == "Time" {
		return "time"
	}
	return ""
}

// receives says whether a pointer to a type is the behavior of an actor.
func receives(t types.Type) bool {
	named, is := types.Unalias(t).(*types.Named)
	if !is || named.TypeParams().Len() > 0 {
		return false
	}
	method, _, _ := types.LookupFieldOrMethod(types.NewPointer(named), true, named.Obj().Pkg(), "Receive")
	f, is := method.(*types.Func)
	if !is {
		return false
	}
	params := f.Signature().Params()
	return params.Len() == 2 && strings.HasPrefix(types.TypeString(params.At(0).Type(), nil),
		"*"+ours("actors/kernel")+".Context[")
}

// TestStateFindsOut: the rule sees fields of what an actor holds, however it holds it, and of nothing else.
func TestStateFindsOut(t *testing.T) {
	s := checkText(t, `package sample
import (
	"time"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/smallmap"
)
type flag bool
type Deps struct{ Off bool }
type other struct{ no bool }
type actor struct {
	deps *Deps
	is flag
	of map[string]*record
	few smallmap.Map[string, small]
	inner
	list
	n int
	end time.Time
	wait time.Duration
}
type record struct{ next *record; at [2]time.Time }
type small struct{ open bool }
type inner struct{ closed bool }
type list []element
type element struct{ done bool }
func (*actor) Start(*kernel.Context[string]) {}
func (*actor) Receive(*kernel.Context[string], string) {}
`)
	var got []string
	for field, kind := range stateOf(s) { // order-free: sorted below
		got = append(got, fmt.Sprint(field, " ", kind))
	}
	slices.Sort(got)
	check.Same(t, got, []string{
		"actor.end time", "actor.is bool", "element.done bool", "inner.closed bool", "record.next pointer", "small.open bool",
	}, "found")
}
