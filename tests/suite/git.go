package suite

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

func git(root string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// changedSince are the files that differ from a commit, those that git does not know yet among them.
func changedSince(root, commit string) (_ []string, err error) {
	defer check.Return(&err)
	known := check.Must(git(root, "diff", "--name-only", commit))
	added := check.Must(git(root, "ls-files", "--others", "--exclude-standard"))
	files := strings.Fields(known + "\n" + added)
	slices.Sort(files)
	return slices.Compact(files), nil
}

// settleTimes gives each file of the tree a time that follows from what it has. Go's cache of test results looks at
// size and time of the files that a test opened: so it knows those of a fresh clone as well.
func settleTimes(root string) (err error) {
	defer check.Return(&err)
	files := check.Must(git(root, "ls-files"))
	for _, name := range strings.Fields(files) {
		path := filepath.Join(root, name)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		text := check.Must(os.ReadFile(path))
		sum := fnv.New32a()
		sum.Write(text)
		at := time.Unix(1e9, 0).Add(time.Duration(sum.Sum32()>>4) * time.Second) // from 2001 to 2010
		check.OK(os.Chtimes(path, at, at))
	}
	return nil
}
