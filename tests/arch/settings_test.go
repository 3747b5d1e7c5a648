package arch

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A setting that does nothing must not be lost in silence: the agent names it at its start, from the
// lists in supervisor/config (fields.go, acts.go). These tests hold the lists to the code: what is said to act is read
// somewhere, and what is read acts. tests/e2e/settings compares with the flags and gates of the kubelet.

const (
	configPackage  = module + "/supervisor/config"
	kubeletPackage = "k8s.io/kubelet/config/v1beta1"
	settingsType   = "KubeletConfiguration"
)

// handsOn are the files of supervisor/config that decode, default, mend and check settings: to be read there is
// not to act.
func handsOn(file string) bool {
	for _, pattern := range []string{"field*.go", "validate*.go", "flags*.go", "flagvalue.go", "file.go", "load.go", "mend.go"} {
		if is, err := filepath.Match(pattern, filepath.Base(file)); err == nil && is {
			return true
		}
	}
	return false
}

// readWithoutActing are fields that the code reads, and that users are told have no effect.
var readWithoutActing = map[string]string{}

// actWithoutBeingRead are fields that act although no code reads them.
var actWithoutBeingRead = map[string]string{
	"mergeDefaultEvictionSettings": "the defaults of evictions follow it",
	"featureGates":                 "acts.go has which of them act",
	// Of Options:
	"Config": "files are read from it", "ConfigDir": "files are read from it",
}

// gatesOfDefaults are gates that only defaults without effect follow.
var gatesOfDefaults []string

// gatesOfChecks are gates that act by the fields that are refused without them: only checks ask for them.
var gatesOfChecks = []string{"CustomCPUCFSQuotaPeriod", "NodeLogQuery", "RotateKubeletServerCertificate"}

// structs are the fields of the structs of a package, by the object that stands for them in one check.
type structs struct {
	// name is Type.field of a field, with the name in files.
	name map[*types.Var]string
	// inner is the struct type of this package within a field's type; empty for none.
	inner map[string]string
	// fields are the names of the fields of a type.
	fields map[string][]string
}

func structsOf(pkg *types.Package, fileName func(v *types.Var, tag string) string) structs {
	all := structs{map[*types.Var]string{}, map[string]string{}, map[string][]string{}}
	for _, name := range pkg.Scope().Names() {
		s, is := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		if !is {
			continue
		}
		for i := range s.NumFields() {
			f := s.Field(i)
			key := name + "." + fileName(f, s.Tag(i))
			all.name[f] = key
			all.fields[name] = append(all.fields[name], key)
			if n := named(f.Type()); n != nil && n.Obj().Pkg() == pkg {
				if _, is := n.Underlying().(*types.Struct); is {
					all.inner[key] = n.Obj().Name()
				}
			}
		}
	}
	return all
}

// named is the named type that pointers and slices of t lead to; nil for none.
func named(t types.Type) *types.Named {
	switch t := t.(type) {
	case *types.Named:
		return t
	case *types.Pointer:
		return named(t.Elem())
	case *types.Slice:
		return named(t.Elem())
	default:
		return nil
	}
}

func jsonName(v *types.Var, tag string) string {
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "" {
		return v.Name()
	}
	return name
}

// reads are the fields of the structs of a package that the module reads, with one place each, and what
// fields there are.
func reads(t *testing.T, path string, fileName func(*types.Var, string) string, skip func(file string) bool) (map[string]string, structs) {
	t.Helper()
	found := map[string]string{}
	var known structs
	for _, p := range packages(t) {
		if p.ImportPath != path && !slices.Contains(p.Imports, path) && !slices.Contains(p.Imports, configPackage) {
			continue
		}
		s := load(t, p)
		byPackage := map[*types.Package]structs{}
		for _, f := range s.files {
			if skip(s.fset.Position(f.Pos()).Filename) {
				continue
			}
			written := assigned(f)
			ast.Inspect(f, func(n ast.Node) bool {
				id, is := n.(*ast.Ident)
				if !is || written[id] {
					return true
				}
				v, is := s.info.Uses[id].(*types.Var)
				if !is || !v.IsField() || v.Pkg() == nil || v.Pkg().Path() != path {
					return true
				}
				all, seen := byPackage[v.Pkg()]
				if !seen {
					all = structsOf(v.Pkg(), fileName)
					byPackage[v.Pkg()] = all
					known = all
				}
				if name := all.name[v]; name != "" {
					found[name] = s.position(id)
				}
				return true
			})
		}
	}
	return found, known
}

// assigned are the identifiers that are only written: on the left of an assignment, or keys of a literal.
func assigned(f *ast.File) map[*ast.Ident]bool {
	found := map[*ast.Ident]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				if s, is := l.(*ast.SelectorExpr); is {
					found[s.Sel] = true
				}
			}
		case *ast.KeyValueExpr:
			if id, is := n.Key.(*ast.Ident); is {
				found[id] = true
			}
		}
		return true
	})
	return found
}

// elements are those of the literal that is the value of a variable of a package.
func elements(t *testing.T, path, variable string) (found []ast.Expr, info *types.Info) {
	t.Helper()
	for _, p := range packages(t) {
		if p.ImportPath != path {
			continue
		}
		s := load(t, p)
		info = s.info
		for _, f := range s.files {
			ast.Inspect(f, func(n ast.Node) bool {
				spec, is := n.(*ast.ValueSpec)
				if !is || spec.Names[0].Name != variable || len(spec.Values) != 1 {
					return true
				}
				if list, is := spec.Values[0].(*ast.CompositeLit); is {
					found = list.Elts
				}
				return false
			})
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no variable %s", path, variable)
	}
	return found, info
}

// literal is the string keys, or the string elements, of a variable of a package.
func literal(t *testing.T, path, variable string) (out []string) {
	t.Helper()
	list, info := elements(t, path, variable)
	for _, e := range list {
		if kv, is := e.(*ast.KeyValueExpr); is {
			e = kv.Key
		}
		if v := info.Types[e].Value; v != nil {
			out = append(out, constant.StringVal(v))
		}
	}
	slices.Sort(out)
	return out
}

// settings are the fields that act, and those of which only a part does, of the table in supervisor/config.
func settings(t *testing.T) (acts, partly []string) {
	t.Helper()
	list, info := elements(t, configPackage, "settings")
	all := map[string]map[bool]bool{}
	for _, row := range list {
		columns := row.(*ast.CompositeLit).Elts
		name, _, _ := strings.Cut(constant.StringVal(info.Types[columns[0]].Value), ".")
		idle := false
		ast.Inspect(columns[3], func(n ast.Node) bool {
			id, is := n.(*ast.Ident)
			idle = idle || is && id.Name == "idle"
			return true
		})
		if all[name] == nil {
			all[name] = map[bool]bool{}
		}
		all[name][idle] = true
	}
	for name, marks := range all {
		switch {
		case len(marks) > 1:
			partly = append(partly, name)
		case marks[false]:
			acts = append(acts, name)
		}
	}
	return acts, partly
}

// TestSettingsAct: a field of KubeletConfiguration that is said to act is read, with all that is in it,
// and one that is read is not said to have no effect.
func TestSettingsAct(t *testing.T) {
	found, known := reads(t, kubeletPackage, jsonName, handsOn)
	acts, partly := settings(t)
	all := known.fields[settingsType]
	if len(all) < 100 {
		t.Fatalf("%d fields of %s: the test does not find them", len(all), settingsType)
	}
	for _, name := range slices.Concat(acts, partly) {
		if !slices.Contains(all, settingsType+"."+name) && name != "apiVersion" && name != "kind" {
			t.Errorf("%s is said to act, and %s has no such field", name, settingsType)
		}
	}
	var within func(key string)
	within = func(key string) {
		for _, inner := range known.fields[known.inner[key]] {
			if _, is := found[inner]; !is && actWithoutBeingRead[inner] == "" {
				t.Errorf("%s acts, and nothing reads %s", key, inner)
			}
			within(inner)
		}
	}
	for _, key := range all {
		name := strings.TrimPrefix(key, settingsType+".")
		place, read := found[key]
		switch {
		case slices.Contains(partly, name):
		case slices.Contains(acts, name):
			if !read && actWithoutBeingRead[name] == "" {
				t.Errorf("%s is said to act, and nothing reads it: mark it as idle", name)
			}
			within(key)
		case read && readWithoutActing[name] == "":
			t.Errorf("%s reads %s, and users are told that it has no effect", place, name)
		}
	}
}

// TestOptionsAct does so for flags that have no field in KubeletConfiguration.
func TestOptionsAct(t *testing.T) {
	fieldName := func(v *types.Var, _ string) string { return v.Name() }
	found, known := reads(t, configPackage, fieldName, handsOn)
	if len(known.fields["Options"]) < 10 {
		t.Fatalf("Options has the fields %v", known.fields["Options"])
	}
	for _, key := range known.fields["Options"] {
		if _, read := found[key]; !read && actWithoutBeingRead[strings.TrimPrefix(key, "Options.")] == "" {
			t.Errorf("nothing reads %s, and nobody is told that it has no effect", key)
		}
	}
}

// TestGatesAct: the feature gates that are said to act are those that the code asks for.
func TestGatesAct(t *testing.T) {
	asked := map[string]bool{}
	for _, p := range packages(t) {
		if p.ImportPath != configPackage && !slices.Contains(p.Imports, configPackage) {
			continue
		}
		s := load(t, p)
		for _, f := range s.files {
			if strings.HasPrefix(filepath.Base(s.fset.Position(f.Pos()).Filename), "validate") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is || len(call.Args) != 1 {
					return true
				}
				sel, is := call.Fun.(*ast.SelectorExpr)
				if !is || sel.Sel.Name != "Enabled" && sel.Sel.Name != "on" {
					return true
				}
				on := named(s.info.Types[sel.X].Type)
				if on == nil || on.Obj().Name() != "Gates" || on.Obj().Pkg().Path() != configPackage {
					return true
				}
				if v := s.info.Types[call.Args[0]].Value; v != nil {
					asked[constant.StringVal(v)] = true
				}
				return true
			})
		}
	}
	acts := slices.DeleteFunc(literal(t, configPackage, "actsOnGate"), func(name string) bool { return name == "AllAlpha" || name == "AllBeta" })
	for _, name := range literal(t, module+"/supervisor/node", "declared") { // each is asked for in a loop
		asked[name] = true
	}
	for _, name := range gatesOfChecks {
		asked[name] = true
	}
	for _, name := range gatesOfDefaults {
		delete(asked, name)
	}
	if got := slices.Sorted(maps.Keys(asked)); fmt.Sprint(got) != fmt.Sprint(acts) {
		t.Errorf("asked for:\n%v\nsaid to act:\n%v", got, acts)
	}
}
