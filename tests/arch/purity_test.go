package arch

import (
	"go/ast"
	"go/types"
	"strings"
	"testing"
)

// realTime are functions of package time that read or wait for the real clock.
var realTime = map[string]bool{
	"After": true, "AfterFunc": true, "NewTicker": true, "NewTimer": true, "Now": true,
	"Since": true, "Sleep": true, "Tick": true, "Until": true,
}

// liveClock is the one file of the actors that may read the real clock.
const liveClock = "actors/kernel/clock.go"

// clockReads are the places that use the real clock.
func clockReads(s *source) []string {
	var found []string
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			fn, ok := s.info.Uses[id].(*types.Func)
			isMethod := ok && fn.Signature().Recv() != nil
			if ok && !isMethod && fn.Pkg() != nil && fn.Pkg().Path() == "time" && realTime[fn.Name()] {
				found = append(found, s.position(id)+": time."+fn.Name())
			}
			return true
		})
	}
	return found
}

// concurrency are the places that start goroutines or wait for channels.
func concurrency(s *source) []string {
	var found []string
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt:
				found = append(found, s.position(n)+": go statement")
			case *ast.SelectStmt:
				found = append(found, s.position(n)+": select")
			case *ast.SendStmt:
				found = append(found, s.position(n)+": send on a channel")
			}
			return true
		})
	}
	return found
}

func TestActorsDoNotReadTheClock(t *testing.T) {
	for _, p := range packages(t) {
		if !within(p.ImportPath, ours("actors")) {
			continue
		}
		for _, at := range clockReads(load(t, p)) {
			if !strings.HasPrefix(at, liveClock+":") {
				t.Errorf("%s: actors get time from the kernel's clock and decisions as an argument, or a run does not replay", at)
			}
		}
	}
}

func TestDecisionsHaveNoGoroutines(t *testing.T) {
	for _, p := range packages(t) {
		if !within(p.ImportPath, ours("actors/decide")) {
			continue
		}
		for _, at := range concurrency(load(t, p)) {
			t.Errorf("%s: a decision is a function that returns, and its result depends on nothing else", at)
		}
	}
}

func TestPurityRules(t *testing.T) {
	s := checkText(t, `package sample
import "time"
type clock interface{ Now() time.Time; AfterFunc() }
func f(c clock, ch chan int) {
	_ = c.Now()
	c.AfterFunc()
	_ = time.Now()
	g := time.Sleep
	g(time.Duration(1))
	go f(c, ch)
	ch <- 1
}`)
	if found := clockReads(s); len(found) != 2 {
		t.Errorf("reads of the clock: %q, want time.Now and time.Sleep", found)
	}
	if found := concurrency(s); len(found) != 2 {
		t.Errorf("concurrency: %q, want a go statement and a send", found)
	}
}
