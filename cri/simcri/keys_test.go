package simcri

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestKeysInDocs holds the table of docs/simulation.md to Keys. It prints the one
// that should be there.
func TestKeysInDocs(t *testing.T) {
	page := check.Value(os.ReadFile("../../docs/simulation.md"))(t)
	var table strings.Builder
	table.WriteString("| key | value | what the container does |\n|---|---|---|\n")
	for _, k := range Keys() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", k.Name, strings.ReplaceAll(k.Value, "|", ", "), k.Means)
	}
	if !strings.Contains(string(page), "\n\n"+table.String()+"\n") {
		t.Errorf("docs/simulation.md has another table of keys; it should be\n%s", table.String())
	}
}
