package arch

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// renames are the files that rename something themselves, and why package durable does not do it for them.
var renames = map[string]string{
	"supervisor/host/disk/durable/durable.go":            "it is the one place where a file that was written takes its name",
	"supervisor/host/volume/internal/atomicdir/write.go": "a link: volumes are written again at the start of the agent",
	"supervisor/host/disk/checkpoints/checkpoints.go":    "a damaged file is set aside",
	"supervisor/host/disk/pullrecords/pullrecords.go":    "a damaged file is set aside",
	"apiclient/csr/store.go":                             "a link",
	"supervisor/host/pod/podlogs/rotate.go":              "a log, which is rotated",
	"supervisor/internal/unixsocket/unixsocket.go":       "a socket",
	"cmd/troupe/commands/sim.go":                         "a report, which is written piece by piece and made again at will",
}

var rename = regexp.MustCompile(`\.Rename\(`)

// TestFilesAreReplacedInOnePlace: what replaces a file says which loss of power it outlives.
func TestFilesAreReplacedInOnePlace(t *testing.T) {
	top := check.Value(filepath.Abs(root))(t)
	seen := map[string]bool{}
	for _, p := range packages(t) {
		if within(p.ImportPath, ours("tests")) {
			continue
		}
		for _, name := range p.GoFiles {
			path := check.Value(filepath.Rel(top, filepath.Join(p.Dir, name)))(t)
			if !has(t, filepath.Join(p.Dir, name), rename) {
				continue
			}
			seen[path] = true
			if renames[path] == "" {
				t.Errorf("%s renames a file: replace files with supervisor/host/disk/durable", path)
			}
		}
	}
	for path := range renames {
		if !seen[path] {
			t.Errorf("%s renames nothing: take it off the list", path)
		}
	}
}

// has says whether a line of a file matches.
func has(t *testing.T, path string, what *regexp.Regexp) bool {
	t.Helper()
	f := check.Value(os.Open(path))(t)
	defer f.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if what.MatchString(lines.Text()) {
			return true
		}
	}
	check.Fatal(t, lines.Err())
	return false
}
