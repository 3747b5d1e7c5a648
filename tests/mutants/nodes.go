package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// nodesDir has the tests of real nodes, which are a module of their own.
const nodesDir = "tests/e2e"

// onNode says whether the test that finds a mutant runs the agent as a program of its own.
func (p place) onNode() bool { return strings.HasPrefix(p.folder, nodesDir+"/") }

// byNodes runs the mutants that tests of real nodes find. Such a test builds the agent: with GOFLAGS, the one that it
// builds has the mutants, and its process gets the variable that switches one on.
type byNodes struct{}

// patience is how long a test may run: with a mutant it waits for what does not come.
const patience = 15 * time.Minute

// run runs the mutants of some names, all if there are none. It fails if one is not found.
func (byNodes) run(ctx context.Context, names []string, to io.Writer) error {
	root, _, patches, at, err := named(names)
	if err != nil {
		return err
	}
	patches = slices.DeleteFunc(onNodes(patches, at, true), func(p *patch) bool { return at[p].folder == differDir })
	all, o, err := variantsOf(root, patches)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := o.write(dir, all)
	if err != nil {
		return err
	}
	begin, missed := time.Now(), 0
	for i, p := range patches {
		binary, err := testsOf(ctx, root, dir, at[p].folder)
		if err != nil {
			return err
		}
		s := &suite{
			binary: binary, dir: filepath.Join(root, at[p].folder), unlimited: true,
			args: []string{"-test.timeout", patience.String()},
			env:  []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -overlay=" + overlay},
		}
		s = s.only(at[p].run)
		if whole := s.run(ctx, 0); whole.killed {
			return fmt.Errorf("%s fails without a mutant: %s\n%s", at[p].run, whole.by, whole.output)
		}
		got := s.run(ctx, i+1)
		found := at[p].folder + " " + got.by
		if !got.killed {
			missed++
			found = "NOT FOUND by " + at[p].folder + " " + at[p].run
		}
		fmt.Fprintf(to, "%s: %s\n", p.name, found)
	}
	return foundAll(ctx, to, len(patches), missed, begin)
}

// testsOf builds the tests of a package of nodesDir, once.
func testsOf(ctx context.Context, root, dir, folder string) (string, error) {
	to := filepath.Join(dir, strings.ReplaceAll(folder, "/", "_")+".test")
	if there(to) {
		return to, nil
	}
	below := "./" + strings.TrimPrefix(folder, nodesDir+"/")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", to, below)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(root, nodesDir), os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the tests of %s: %w", folder, err)
	}
	return to, nil
}
