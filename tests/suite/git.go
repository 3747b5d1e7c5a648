package suite

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
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
func changedSince(root, commit string) ([]string, error) {
	known, err := git(root, "diff", "--name-only", commit)
	if err != nil {
		return nil, err
	}
	added, err := git(root, "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	files := strings.Fields(known + "\n" + added)
	slices.Sort(files)
	return slices.Compact(files), nil
}
