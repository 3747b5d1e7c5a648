package suite

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/tests/check"
)

// widest is how many columns a line may have, as lll counts them in .golangci.yml: a tab is one, and tests may have
// tables with long rows.
const widest = 120

var mayBeWide = regexp.MustCompile(`(^|/)tests/|_test\.go$`)

// CheckFast finds in seconds what would fail the linter after minutes: long lines, format, imports, layers.
func CheckFast(ctx context.Context) (err error) {
	defer check.Return(&err)
	root := check.Must(filepath.Abs("."))
	files := check.Must(git(root, "ls-files", "*.go"))
	wrong := (&Source{Root: root}).style(strings.Fields(files))
	for _, line := range wrong {
		fmt.Println(line)
	}
	// The cache does not see what go list reads.
	layers := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-run", "^(TestLayer.*|TestEveryRuleHasItsReason|TestTopLevel)$",
		"./tests/arch")
	layers.Dir, layers.Stdout, layers.Stderr = root, os.Stdout, os.Stderr
	if err := layers.Run(); err != nil || len(wrong) > 0 {
		return ErrFailed
	}
	return nil
}

// misstyled says what is wrong with the style of a file.
func misstyled(name string, text []byte) []string {
	var wrong []string
	for i, line := range bytes.Split(text, []byte("\n")) {
		if n := utf8.RuneCount(line); n > widest && !mayBeWide.MatchString(name) && !bytes.HasPrefix(line, []byte("//go:")) {
			wrong = append(wrong, fmt.Sprintf("%s:%d: %d columns, and %d may be", name, i+1, n, widest))
		}
	}
	if good, err := format.Source(text); err != nil || !bytes.Equal(good, text) {
		wrong = append(wrong, name+": not as gofmt has it (go tool task fmt)")
	}
	if !sortedImports(text) {
		wrong = append(wrong, name+": the imports are not sorted (go tool task fmt)")
	}
	return wrong
}

// sortedImports says whether the imports are as gci sorts them: the standard library, others, and ours, with an empty
// line between.
func sortedImports(text []byte) bool {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "", text, parser.ImportsOnly)
	if err != nil {
		return true // gofmt has said so
	}
	var before *ast.ImportSpec
	section := func(s *ast.ImportSpec) int {
		path, _ := strconv.Unquote(s.Path.Value) // parsed before
		first, _, _ := strings.Cut(path, "/")
		switch {
		case within(path, Module):
			return 2
		case strings.Contains(first, "."):
			return 1
		}
		return 0
	}
	return !slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool {
		last := before
		before = s
		if last == nil {
			return false
		}
		gap := set.Position(s.Pos()).Line-set.Position(last.End()).Line > 1
		switch was, is := section(last), section(s); {
		case is != was:
			return is < was || !gap
		default:
			return gap || last.Path.Value > s.Path.Value
		}
	})
}
