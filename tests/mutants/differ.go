package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
)

// differDir has the differential test, and the list of the mutants that it finds.
const differDir = nodesDir + "/differ"

// byDiffer runs the mutants that the differential test finds. One run of it tries all of them, one after another, on pods
// of which the kubelet has shown once how they are.
type byDiffer struct{}

// run runs the mutants of some names, all of the list if there are none. It fails if one is not found.
func (byDiffer) run(ctx context.Context, names []string, to io.Writer) (err error) {
	defer check.Return(&err)
	root := check.Must(moduleRoot())
	if len(names) == 0 {
		for line := range strings.Lines(string(check.Must(os.ReadFile(filepath.Join(root, differDir, "mutants.txt"))))) {
			if f := strings.Fields(line); len(f) == 2 && f[0] != "#" {
				names = append(names, f[0])
			}
		}
	}
	patches := selected(check.Must(readPatches(filepath.Join(root, handDir))), names)
	all, o := check.Must2(variantsOf(root, patches))
	dir := check.Must(os.MkdirTemp("", "mutants"))
	defer func() { _ = os.RemoveAll(dir) }()
	overlay := check.Must(o.write(dir, all))
	binary := check.Must(testsOf(ctx, root, dir, differDir))
	var asked []string
	for i, p := range patches {
		asked = append(asked, fmt.Sprintf("%s=%d", p.name, i+1))
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestMutants$", "-test.v", "-test.timeout", "60m")
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(root, differDir), to, os.Stderr
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay, "TROUPE_MUTANTS="+strings.Join(asked, " "))
	return cmd.Run()
}
