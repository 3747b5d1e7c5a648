package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildFlags: with other flags than the linter, the tests build everything once more.
func TestBuildFlags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(load(t).Root, "Taskfile.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nenv:\n  GOFLAGS: '" + buildFlags + "'\n"; !strings.Contains(string(text), want) {
		t.Errorf("Taskfile.yml does not have:%s", want)
	}
}
