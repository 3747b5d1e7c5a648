package suite

import (
	_ "embed"
	"path"
	"slices"
	"strings"
)

//go:embed paths.txt
var pathTable string

// pathRow says which tests a change to some paths touches.
type pathRow struct{ paths, tests []string }

func pathRows() []pathRow {
	var rows []pathRow
	for line := range strings.Lines(pathTable) {
		paths, tests, ok := strings.Cut(line, " : ")
		if ok && paths[0] != '#' {
			rows = append(rows, pathRow{strings.Fields(paths), strings.Fields(tests)})
		}
	}
	return rows
}

// named says whether a row's pattern, such as cluster.TestCSI*, names the test.
func named(pattern string, t Test) bool {
	ok, _ := path.Match(e2e+"/"+pattern, t.fullName()) // TestPaths has all patterns
	return ok
}

// Touched are the tests of tier all that a change of these files touches, in the order of the table.
func (s *Source) Touched(changed []string) []Test {
	var found []Test
	add := func(wanted func(Test) bool) {
		for _, t := range s.Tests() {
			if t.Tier == All && wanted(t) && !slices.Contains(found, t) {
				found = append(found, t)
			}
		}
	}
	for _, row := range pathRows() {
		if !slices.ContainsFunc(changed, func(file string) bool {
			return slices.ContainsFunc(row.paths, func(p string) bool { return within(file, p) })
		}) {
			continue
		}
		for _, pattern := range row.tests {
			add(func(t Test) bool { return named(pattern, t) })
		}
	}
	add(func(t Test) bool { return slices.Contains(changed, t.File) })
	return found
}
