package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreats: each test that docs/threats.md names for a threat exists.
func TestThreats(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/threats.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([\\w/]+)\\.(Test\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 20 {
		t.Errorf("docs/threats.md names %d tests", len(named))
	}
	for _, n := range named {
		files, err := filepath.Glob(filepath.Join(root, n[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+n[2]+"(")
		}
		if !found {
			t.Errorf("docs/threats.md names %s of %s, which is not there", n[2], n[1])
		}
	}
}
