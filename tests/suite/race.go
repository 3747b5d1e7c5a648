package suite

import (
	"go/ast"
	"slices"
	"strings"
)

// unraced are packages that have goroutines and are tested without the race detector, and why.
var unraced = map[string]string{
	"supervisor/chaos": "of a simulated node one goroutine runs at a time, and what it shares with others is theirs",
	"tests/mutants":    "its tests run one simulated node after another",
	"tests/suite":      "its tests start nothing",
}

// neverRaced are packages that are not even raced when all others are, and why.
var neverRaced = map[string]string{
	"tests/growth": "it compares times, and what the detector keeps of each byte does not fit into the processor's caches",
}

// fresh are folders whose tests look at the machine, so that a result of yesterday says nothing of today.
var fresh = map[string]string{
	"supervisor/host": "the machine's files, mounts and cgroups",
	"supervisor/node": "the machine's files, mounts and cgroups",
	"tests/contract":  "the machine's files, mounts and cgroups",
	"tests/arch":      "go list reads files that the cache does not see",
	"tests/mutants":   "go list reads files that the cache does not see",
	"tests/suite":     "go list reads files that the cache does not see",
	e2e:               "the machine, containerd and the network",
}

// sharing are the names of other packages by which goroutines are started, share something or serve. The functions
// sync.OnceFunc, OnceValue and OnceValues are not among them: tests use them for what they compute once.
var sharing = map[string][]string{
	"sync":     {"Mutex", "RWMutex", "WaitGroup", "Once", "Cond", "Map", "Pool"},
	"atomic":   nil,
	"errgroup": nil,
	"net":      {"Listen", "ListenUnix", "ListenPacket", "ListenConfig"},
	"http":     {"Server", "Serve"},
	"httptest": {"NewServer", "NewTLSServer", "NewUnstartedServer"},
	"grpc":     {"NewServer"},
	"time":     {"AfterFunc"},
}

// shares says why what a node does asks for the race detector, or nothing.
func shares(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go"
	case *ast.SelectorExpr:
		x, ok := n.X.(*ast.Ident)
		if !ok {
			return ""
		}
		names, ok := sharing[x.Name]
		if ok && (names == nil || slices.Contains(names, n.Sel.Name)) {
			return x.Name + "." + n.Sel.Name
		}
	}
	return ""
}

// looks says what of the machine a node of a test reads, or nothing. Go's cache sees the files of the module that a
// test opens and the variables that it reads, but not other files, and not what programs do that it starts. A test
// may start itself.
func looks(n ast.Node) string {
	if s := text(n); strings.HasPrefix(s, "/proc/") || strings.HasPrefix(s, "/sys/") {
		return s
	}
	call, ok := n.(*ast.CallExpr)
	if !ok || !strings.HasPrefix(called(call), "exec.Command") {
		return ""
	}
	for _, arg := range call.Args {
		if index, ok := arg.(*ast.IndexExpr); ok {
			if of, ok := index.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Args" {
				return ""
			}
		}
	}
	return called(call)
}
