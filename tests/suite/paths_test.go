package suite

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestPaths: the table of paths names only what is there, and each test of tier all at least once.
func TestPaths(t *testing.T) {
	s := load(t)
	var all []Test
	for _, test := range s.Tests() {
		if test.Tier == All {
			all = append(all, test)
		}
	}
	touched := map[Test]bool{}
	for _, row := range pathRows() {
		for _, p := range row.paths {
			if _, err := os.Stat(filepath.Join(s.Root, p)); err != nil {
				t.Errorf("paths.txt: %v", err)
			}
		}
		for _, pattern := range row.tests {
			found := false
			for _, test := range all {
				if named(pattern, test) {
					touched[test], found = true, true
				}
			}
			if !found {
				t.Errorf("paths.txt: no test of tier all is named %s", pattern)
			}
		}
	}
	for _, test := range all {
		if !touched[test] {
			t.Errorf("paths.txt: no path touches %s.%s", test.Package, test.Name)
		}
	}
}

func TestTouched(t *testing.T) {
	names := func(changed ...string) []string {
		var names []string
		for _, test := range load(t).Touched(changed) {
			names = append(names, test.Name)
		}
		return names
	}
	if got := names("README.md", "docs/metrics.md"); got != nil {
		t.Errorf("documentation touches %v", got)
	}
	if got := names("supervisor/host/plugin/csidrivers/any.go"); !slices.Contains(got, "TestCSIKilled") ||
		slices.Contains(got, "TestCgroupV2") {
		t.Errorf("the drivers of volumes touch %v", got)
	}
	check.Same(t, names("tests/e2e/cluster/shown_test.go"), []string{"TestShownAsByKubelet"}, "the file of a test touches")
}

// TestFailedBefore: what did not pass in the last run of all tests is run until it does.
func TestFailedBefore(t *testing.T) {
	last := readTested("# The last run\ncommit  abc with 1 files\nresult  failed in 40 min\n" +
		"FAILED  tests/e2e/cluster.TestLocalDisksGrow/kubelet\nFAILED  tests/e2e/vm.TestCgroupV2\nFAILED  part mutants-hand: exit 1\n" +
		"FAILED  actors/pod.TestUnit\n8 passed, 4 failed, 0 skipped\nNOT-RUN tests/e2e/cluster.TestSwitch\n")
	check.Equal(t, last.commit, "abc", "commit")
	var names []string
	for _, test := range load(t).failedIn(last.failed) {
		names = append(names, test.Name)
	}
	check.Same(t, names, []string{"TestLocalDisksGrow", "TestSwitch", "TestCgroupV2"}, "tests")
}

// TestMachinesComeLast: what takes longest does not take the time of the others.
func TestMachinesComeLast(t *testing.T) {
	at := func(pkg, name string) Test { return Test{Package: "tests/e2e/" + pkg, Name: name} }
	var got []string
	for _, b := range batches([]Test{at("vm", "TestA"), at("cluster", "TestB"), at("node", "TestC"), at("cluster", "TestD")}) {
		for _, test := range b.tests {
			got = append(got, test.fullName())
		}
	}
	check.Same(t, got, []string{
		"tests/e2e/cluster.TestB", "tests/e2e/cluster.TestD", "tests/e2e/node.TestC", "tests/e2e/vm.TestA",
	}, "tests")
}
