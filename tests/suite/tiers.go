package suite

// Tiers of the tests of tests/e2e. docs/decisions/0073 has the criterion of each. The line directly above a test names
// its own: //tier:NAME REASON.
const (
	Unit   = "unit"   // needs nothing but Go
	Served = "served" // asserts what the API, the agent's answers, files and log show
	Real   = "real"   // asserts what containerd, runc, the kernel, a driver or a stream did
	VM     = "vm"     // the one boot of each run
	All    = "all"    // not for each change; the reason says why
)

// Tiers are all of them, the cheapest first.
var Tiers = []string{Unit, Served, Real, VM, All}
