package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// fullSize has tests that do much of the same do all of it: lab.SizeVariable.
const fullSize = "TROUPE_TEST_SIZE=full"

// RunAll runs every test with every size, and the mutants made by hand, and writes what came of it into testedFile, also if
// it is ended before. Tests that failed or did not run stand there: RunTouched runs them.
func RunAll(ctx context.Context) (err error) {
	defer check.Return(&err)
	s := check.Must(Load("."))
	begin := time.Now()
	r := check.Must(s.runner(Options{All: true}))
	r.Env = append(r.Env, fullSize, "TROUPE_TEST_RUNTIME=containerd")
	r.Run(ctx, s.Plan(r.Options))
	for _, kind := range []string{"hand", "tests"} {
		cmd := exec.CommandContext(ctx, "go", "run", "./tests/mutants", kind)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = s.Root, os.Stdout, os.Stderr, append(os.Environ(), goFlags())
		p := Ran{Part: Part{Name: "mutants-" + kind}}
		from := time.Now()
		p.CPU, p.Err = run(cmd)
		p.Took, p.Cut = time.Since(from), ctx.Err() != nil
		r.parts = append(r.parts, p)
	}
	sum := Sum(r.parts, true, false)
	if err := s.writeTested(sum, time.Since(begin)); err != nil {
		return err
	}
	return finish(sum, s.Root, "test-all")
}

func (s *Source) writeTested(sum *Summary, took time.Duration) (err error) {
	defer check.Return(&err)
	commit := check.Must(git(s.Root, "rev-parse", "HEAD"))
	changed := check.Must(changedSince(s.Root, commit))
	if len(changed) > 0 {
		commit += fmt.Sprintf(" with %d files that are not committed", len(changed))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The last run of all tests. Written by: go tool task test-all\n")
	fmt.Fprintf(&b, "commit  %s\ndate    %s\n", commit, time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "machine %d cores, Linux %s, containerd %s\n", runtime.NumCPU(), said("uname", "-r"),
		said("sed", "-nE", `s,.*containerd/containerd/v2 (v[0-9.]+).*,\1,p`, filepath.Join(s.Root, "tests/tools/containerd/go.mod")))
	how := "passed"
	if slices.ContainsFunc(sum.Parts, func(p Ran) bool { return p.Cut }) {
		how = "ended before all tests had run,"
	} else if len(sum.Bad) > 0 {
		how = "failed"
	}
	fmt.Fprintf(&b, "result  %s in %d min\n", how, int(took.Minutes()))
	for line := range strings.Lines(sum.Closing()) {
		if line[0] != ' ' { // not what a test said
			b.WriteString(line)
		}
	}
	for _, t := range s.Tests() {
		if ran := func(o Outcome) bool { return o.Name() == t.fullName() && o.Action != unfinished }; t.Tier == All &&
			!slices.ContainsFunc(sum.Outcomes, ran) {
			fmt.Fprintf(&b, "NOT-RUN %s\n", t.fullName())
		}
	}
	return os.WriteFile(filepath.Join(s.Root, testedFile), []byte(b.String()), 0o644)
}

// said is what a program says of the machine, or that it said nothing.
func said(program string, args ...string) string {
	out, err := exec.Command(program, args...).Output()
	if err != nil || len(out) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
