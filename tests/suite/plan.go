package suite

import (
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Part is one call of go test.
type Part struct {
	Name     string
	Dir      string   // of the module, in the repository
	Packages []string // import paths
	Flags    []string
	Rerun    bool          // a test that fails is run once more, see docs/decisions/0073
	Timeout  time.Duration // of each package
}

// Lane is parts that run one after another.
type Lane []Part

// Options say what a run is to have.
type Options struct {
	Short bool   // without what is slow or needs a lab
	Run   string // only tests that match, as -run of go test; of all tiers
	All   bool   // every tier, and the race detector for all of the root module
}

// tiers are those that run. A test that is named is wanted.
func (o Options) tiers() []string {
	switch {
	case o.Run != "" || o.All:
		return Tiers
	case o.Short:
		return []string{Unit}
	default:
		return []string{Unit, Served, Real, VM}
	}
}

// CanRace says whether this machine has what the race detector needs.
func CanRace() bool {
	_, err := exec.LookPath("gcc")
	return err == nil
}

// Plan is what runs, in stages. The lanes of a stage run at the same time.
func (s *Source) Plan(o Options) [][]Lane {
	var race []string
	if CanRace() {
		race = []string{"-race"}
	}
	once := []string{"-count=1"}
	// With all tests a cluster also builds a kubelet, drivers and kubeadm, which takes long where nothing is cached.
	node := 40 * time.Minute
	if o.All {
		node = 75 * time.Minute
	}
	raced := func(p *Package) bool { return p.Raced != "" || o.All && neverRaced[p.Name()] == "" }
	root := func(race, fresh bool) []string {
		return s.choose(o, func(p *Package) bool { return !p.E2E() && raced(p) == race && (p.Fresh != "") == fresh })
	}
	end := func(name string, flags ...string) Part {
		packages := s.choose(o, func(p *Package) bool { return p.E2E() && o.place(p) == name })
		return Part{Name: name, Dir: e2e, Packages: packages, Flags: slices.Concat(once, s.leaveOut(o), flags),
			Rerun: true, Timeout: node}
	}
	// With the race detector a few cases, damaged files and hostile answers are tried, and all of them without.
	damage := s.choose(o, func(p *Package) bool {
		return !p.E2E() && raced(p) && o.Run == "" && slices.ContainsFunc(p.Tests, func(t Test) bool {
			return strings.Contains(t.Name, "Damage")
		})
	})
	const limit = 20 * time.Minute
	stages := [][]Lane{
		{{
			{Name: "root-raced", Packages: root(true, false), Flags: race, Timeout: limit},
			{Name: "root-raced-fresh", Packages: root(true, true), Flags: slices.Concat(race, once), Rerun: true, Timeout: limit},
			{Name: "root", Packages: root(false, false), Timeout: limit},
			{Name: "root-fresh", Packages: root(false, true), Flags: once, Rerun: true, Timeout: limit},
			{Name: "unraced", Packages: s.choose(o, func(p *Package) bool { return raced(p) && p.less }), Timeout: limit},
			{Name: "damage", Packages: damage, Flags: slices.Concat(once, []string{"-run", "Damage"}), Timeout: limit},
		}},
		// A third of the processors' time would be idle beside the tests of a cluster, which wait a lot.
		{
			{end("e2e-heavy", "-p", "2")},
			{end("e2e-raced", append(race, "-p", "1")...), end("e2e-light", "-p", "2")},
		},
		{{end(machines)}},
	}
	return stages
}

// lanes is all parts of a plan as one lane.
func lanes(stages [][]Lane) Lane {
	var all Lane
	for _, stage := range stages {
		all = slices.Concat(append([]Lane{all}, stage...)...)
	}
	return all
}

// machines is the part of virtual machines where all their checks run: without KVM one takes five minutes by itself, and
// over half an hour beside the tests of a cluster.
const (
	machines    = "e2e-machines"
	machinesDir = "vm" // below tests/e2e
)

// place is the part of a package of tests/e2e. Raced are those that run the product's clients in their own process. The
// heavy ones take as much of the machine as they get.
func (o Options) place(p *Package) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(p.Name(), e2e+"/"), "/")
	switch name {
	case "apiserver", "contract", "simulation":
		return "e2e-raced"
	case machinesDir:
		if o.All {
			return machines
		}
		return "e2e-heavy"
	case "cluster", "node", "live":
		return "e2e-heavy"
	}
	return "e2e-light"
}

// choose is the import paths of packages with tests that the options want.
func (s *Source) choose(o Options, want func(*Package) bool) []string {
	matches := matcher(o.Run)
	var paths []string
	for _, p := range s.Packages {
		if !p.tested() || !want(p) || !slices.ContainsFunc(p.Tests, func(t Test) bool {
			return matches(t.Name) && (!p.E2E() || slices.Contains(o.tiers(), t.Tier))
		}) {
			continue
		}
		paths = append(paths, p.ImportPath)
	}
	return paths
}

// leaveOut has go test skip the tests of other tiers. All tests of a name are of one tier, which TestTiers holds.
func (s *Source) leaveOut(o Options) []string {
	var names []string
	for _, t := range s.Tests() {
		if !slices.Contains(o.tiers(), t.Tier) {
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"-skip", exactly(names)}
}

// exactly is a regular expression that matches these names and no other.
func exactly(names []string) string {
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}
