package arch

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// topLevel is all that may lie at the top, besides names that begin with a dot: the layers, what
// they are described and tested by, and what tools look for there. Something new belongs below
// one of these.
var topLevel = []string{
	"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "Taskfile.yml", "actors", "apiclient", "cmd",
	"cri", "docs", "go.mod", "go.sum", "supervisor", "tests",
}

func TestTopLevel(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	seen := map[string]bool{}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		first, _, _ := strings.Cut(file, "/")
		if seen[first] || strings.HasPrefix(first, ".") {
			continue
		}
		seen[first] = true
		if !slices.Contains(topLevel, first) {
			t.Errorf("%s lies at the top level, where only %v and dotfiles may be", first, topLevel)
		}
	}
	for _, name := range topLevel {
		if !seen[name] {
			t.Errorf("%s is missing at the top level", name)
		}
	}
}
