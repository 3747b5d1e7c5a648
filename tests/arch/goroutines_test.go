package arch

import (
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// unguarded are the places that may start a goroutine in which nobody recovers a panic, by the beginning of their path,
// with the reason.
var unguarded = map[string]string{
	"actors/rescue/":                 "it is what guards all others",
	"actors/kernel/scheduler.go":     kernelAlone,
	"actors/kernel/clock.go":         kernelAlone,
	"actors/port/simport/":           simulated,
	"cri/simcri/":                    simulated,
	"supervisor/sim/":                simulated,
	"supervisor/chaos/":              simulated,
	"cmd/troupe/commands/simheap.go": simulated,
	"supervisor/host/child/served/":  child, "supervisor/host/volume/children.go:reports": child,
	"supervisor/host/plugin/plugintest/":            "a plugin for tests",
	"supervisor/host/plugin/dradrivers/drivertest/": "a driver for tests",
	"supervisor/host/disk/lockfile/":                "it reads once, and closes a channel",
}

const (
	kernelAlone = "the kernel recovers what an actor does, and the work of effects; where it panics itself it can't be " +
		"trusted with any pod: the process ends, and systemd starts another"
	simulated = "a simulation, or a tool that breaks things: a panic is what its run is to show"
	child     = "it runs in a child of the agent, whose end is the failure of the call"
)

// ends are the places with timers, and ends of contexts, that only end or wake something, with what that is.
var ends = map[string]string{
	"apiclient/kube/":                           "a call is cancelled, or who waits for a connection is woken",
	"cri/call.go":                               "a call is cancelled",
	"supervisor/serve/nodelog/":                 "a pipe is closed",
	"supervisor/serve/streams/":                 "connections are closed",
	"supervisor/podresources/":                  "the server is stopped",
	"supervisor/host/pressure/":                 "a poll is woken",
	"supervisor/host/pressure/oomkills/":        "a read ends",
	"supervisor/host/child/":                    "a read ends, or a slot is given back",
	"supervisor/host/plugin/deviceplugins/":     "a call is cancelled",
	"supervisor/host/plugin/credentialplugins/": "a call is cancelled",
}

// starters are functions that call another on a goroutine of its own.
var starters = map[string]string{
	"(*sync.WaitGroup).Go": "WaitGroup.Go", "(*golang.org/x/sync/errgroup.Group).Go": "errgroup.Group.Go",
	"time.AfterFunc": "time.AfterFunc", "context.AfterFunc": "context.AfterFunc",
}

// goroutines are the places that start a goroutine that is not guarded, as path:function: what.
func goroutines(s *source) (found []string) {
	for _, f := range s.files {
		for _, d := range f.Decls {
			name := ""
			if fn, is := d.(*ast.FuncDecl); is {
				name = fn.Name.Name
			}
			report := func(n ast.Node, what string) {
				path, _, _ := strings.Cut(s.position(n), ":")
				found = append(found, path+":"+name+": "+what)
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					report(n, "go statement")
				case *ast.CallExpr:
					if what := s.starts(n); what != "" && !s.guarded(n.Args[len(n.Args)-1]) {
						report(n, what)
					}
				}
				return true
			})
		}
	}
	return found
}

// called is the function that a call calls, by its full name.
func (s *source) called(n *ast.CallExpr) string {
	id, is := n.Fun.(*ast.Ident)
	if sel, of := n.Fun.(*ast.SelectorExpr); of {
		id, is = sel.Sel, true
	}
	if !is {
		return ""
	}
	fn, is := s.info.Uses[id].(*types.Func)
	if !is {
		return ""
	}
	return fn.FullName()
}

func (s *source) starts(n *ast.CallExpr) string { return starters[s.called(n)] }

// guarded says whether a function first defers rescue.Call, or only calls again.Run.
func (s *source) guarded(e ast.Expr) bool {
	f, is := e.(*ast.FuncLit)
	if !is || len(f.Body.List) == 0 {
		return false
	}
	if first, is := f.Body.List[0].(*ast.DeferStmt); is {
		if s.called(first.Call) == ours("actors/rescue")+".Call" {
			return true
		}
	}
	last, is := f.Body.List[len(f.Body.List)-1].(*ast.ExprStmt)
	if !is {
		return false
	}
	call, is := last.X.(*ast.CallExpr)
	return is && s.called(call) == ours("supervisor/internal/again")+".Run"
}

// starting is in every file that starts a goroutine, and in few others.
var starting = regexp.MustCompile(`\bgo [\w.]+\(|\bgo func|\.Go\(|\bAfterFunc\(`)

// mayStart says whether a package has to be typed at all, which takes long.
func mayStart(t *testing.T, p listed) bool {
	return slices.ContainsFunc(p.GoFiles, func(name string) bool {
		return starting.Match(check.Value(os.ReadFile(filepath.Join(p.Dir, name)))(t))
	})
}

// excuse is the longest rule that a place begins with.
func excuse(rules map[string]string, at string) (rule string) {
	for prefix := range rules { // order-free: the longest counts
		if strings.HasPrefix(at, prefix) && len(prefix) > len(rule) {
			rule = prefix
		}
	}
	return rule
}

// TestGoroutinesAreGuarded: a panic beside an actor ends nothing.
func TestGoroutinesAreGuarded(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		if within(p.ImportPath, ours("tests")) || !mayStart(t, p) {
			continue
		}
		for _, at := range goroutines(load(t, p)) {
			rule := excuse(unguarded, at)
			if rule == "" && strings.HasSuffix(at, "AfterFunc") {
				rule = excuse(ends, at)
			}
			if used[rule] = true; rule == "" {
				t.Errorf("%s: a panic there ends the process: start it with package rescue, or list it with its reason", at)
			}
		}
	}
	for _, rules := range [...]map[string]string{unguarded, ends} {
		for rule, why := range rules { // order-free: each by itself
			if !used[rule] || why == "" {
				t.Errorf("%s: nothing there starts a goroutine, or there is no reason", rule)
			}
		}
	}
}

func TestGoroutineRules(t *testing.T) {
	s := checkText(t, `package sample
import (
	"context"
	"sync"
	"time"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/internal/again"
)
func f(ctx context.Context, all *sync.WaitGroup) {
	go f(ctx, all)
	all.Go(func() { f(ctx, all) })
	all.Go(func() {
		defer rescue.Call(ctx, rescue.Answered)
		f(ctx, all)
	})
	all.Go(func() { again.Run(ctx, func() {}, rescue.Answered) })
	rescue.Go(ctx, func() { f(ctx, all) }, rescue.Answered)
	time.AfterFunc(0, func() {})
	context.AfterFunc(ctx, func() {})
}`)
	want := []string{"go statement", "WaitGroup.Go", "time.AfterFunc", "context.AfterFunc"}
	found := goroutines(s)
	if len(found) != len(want) {
		t.Fatalf("%q, want %q", found, want)
	}
	for i, at := range found {
		if !strings.HasSuffix(at, ":f: "+want[i]) {
			t.Errorf("%q, want %q", at, want[i])
		}
	}
}
