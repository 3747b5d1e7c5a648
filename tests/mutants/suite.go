package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// suite is a program that kills mutants by ending with an error.
type suite struct {
	binary, dir string
	args        []string
	// env is more of the environment.
	env []string
	// cpu is how much time it may use; one that uses more hangs. unlimited: as much as it wants, and memory too.
	cpu       time.Duration
	unlimited bool
}

// memory is how much address space a mutant may take, in KiB: some allocate without end.
const memory = 8 << 20

// outcome of a suite on a mutant.
type outcome struct {
	killed bool
	// by is the test that failed first, or why the suite ended.
	by     string
	output []byte
	cpu    time.Duration
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run runs a suite with a mutant switched on, 0 for none.
func (s *suite) run(ctx context.Context, mutant int) outcome {
	limit := int(s.cpu.Seconds()) + 1
	wall := time.Duration(limit)*8*time.Second + time.Minute // the machine may be shared
	script := fmt.Sprintf(`ulimit -c 0 -t %d -v %d; exec "$0" "$@"`, limit, memory)
	if s.unlimited {
		script, wall = `exec "$0" "$@"`, patience+time.Minute
	}
	ctx, stop := context.WithTimeout(ctx, wall)
	defer stop()
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", script, s.binary}, s.args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(append(os.Environ(), fmt.Sprintf("%s=%d", switchName, mutant), "GOTRACEBACK=single"), s.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	o := outcome{killed: err != nil, output: out.Bytes()}
	if cmd.ProcessState != nil {
		o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	switch found := failed.FindSubmatch(o.output); {
	case err == nil:
	case ctx.Err() != nil, strings.Contains(err.Error(), "signal"):
		o.by = "it hangs"
	case found != nil:
		o.by = string(found[1])
	default:
		o.by = firstLine(o.output, err)
	}
	return o
}

// firstLine is the first line that says what went wrong.
func firstLine(out []byte, err error) string {
	for _, word := range []string{"panic:", "fatal error:"} {
		if i := bytes.Index(out, []byte(word)); i >= 0 {
			text, _, _ := strings.Cut(string(out[i:]), "\n")
			return text
		}
	}
	return err.Error()
}

// built are the programs of one overlay.
type built struct {
	root, dir string
	// overlay is the file for go build.
	overlay string
	// took is how much time suites take without a mutant, by name.
	took map[string]time.Duration
}

func (b *built) tool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.root, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}

// worker builds this program with the mutants in it.
func (b *built) worker(ctx context.Context) (string, error) {
	to := filepath.Join(b.dir, "worker")
	if there(to) {
		return to, nil
	}
	return to, b.tool(ctx, "build", "-ldflags=-s -w", "-overlay", b.overlay, "-o", to, "./tests/mutants")
}

// test builds the tests of a package with the mutants in them; empty if it has none.
func (b *built) test(ctx context.Context, dir string) (string, error) {
	tests, err := filepath.Glob(filepath.Join(b.root, dir, "*_test.go"))
	if err != nil || len(tests) == 0 {
		return "", err
	}
	to := filepath.Join(b.dir, strings.ReplaceAll(dir, "/", "_")+".test")
	if there(to) {
		return to, nil
	}
	return to, b.tool(ctx, "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", b.overlay, "-o", to, "./"+dir)
}

// there says whether an earlier run has built a program.
func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
