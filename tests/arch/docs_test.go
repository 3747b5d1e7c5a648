package arch

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// folderLists are the doc comments that list the packages of a folder. They are the maps that a
// newcomer reads first, and a map with gaps misleads.
var folderLists = []struct {
	folder string
	line   *regexp.Regexp // a line of the list; its group is the package
}{
	{"actors", regexp.MustCompile(`(?m)^\t(?:[│├└─ ]*\S+(?: …)? {2,})?([a-z]+) {2,}\S`)},
	{"actors/decide", regexp.MustCompile(`(?m)^\t([a-z]+) +\S`)},
}

func TestFolderLists(t *testing.T) {
	for _, list := range folderLists {
		folder := filepath.Join(root, list.folder)
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, "doc.go"), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string]int{}
		for _, found := range list.line.FindAllStringSubmatch(file.Doc.Text(), -1) {
			listed[found[1]]++
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && listed[e.Name()] != 1 {
				t.Errorf("%s/doc.go lists package %s %d times; list it once", list.folder, e.Name(), listed[e.Name()])
			}
			delete(listed, e.Name())
		}
		for _, name := range slices.Sorted(maps.Keys(listed)) {
			t.Errorf("%s/doc.go lists package %s, which does not exist", list.folder, name)
		}
	}
}
