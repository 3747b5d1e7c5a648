// Command task runs the tasks of Taskfile.yml: go tool task NAME. The runner itself is in a module of its own,
// tests/tools/task, so that programs that build or embed troupe do not get its dependencies.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

func main() {
	runner, err := build()
	if err == nil {
		// Not go tool: it passes signals on that a terminal sends the runner as well, and at the third the runner gives up
		// without waiting for the task to clean up. One go tool is above this process already.
		err = syscall.Exec(runner, append([]string{"task"}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, "run the tasks of Taskfile.yml:", err)
	os.Exit(1)
}

// build gives the path of the runner, which Go builds into its cache unless it is there.
func build() (path string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	modfile := "tests/tools/task/go.mod"
	for {
		if _, err := os.Stat(filepath.Join(dir, modfile)); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("there is no " + modfile + " at or above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	cmd := exec.Command("go", "tool", "-n", "-modfile="+modfile, "task")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build the runner: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}
