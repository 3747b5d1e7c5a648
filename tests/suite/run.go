package suite

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Runner runs parts.
type Runner struct {
	Root    string
	Options Options
	Env     []string // besides the process's own
	Out     io.Writer

	lock  *os.File // held while the process lives
	mu    sync.Mutex
	parts []Ran
}

// Ran is what became of a part.
type Ran struct {
	Part
	Took, CPU time.Duration
	Err       error // of the program that ran it
	Cut       bool  // ended by the clock of the run
	Result
}

// results is where the events of each part are kept.
const results = ".run/results"

// Run runs all stages and goes on after a part that failed. It ends what still runs when ctx does.
func (r *Runner) Run(ctx context.Context, stages [][]Lane) []Ran {
	for _, lanes := range stages {
		var group sync.WaitGroup
		for _, lane := range lanes {
			group.Go(func() {
				for _, p := range lane {
					if len(p.Packages) > 0 {
						r.run(ctx, p)
					}
				}
			})
		}
		group.Wait()
	}
	return r.parts
}

func (r *Runner) run(ctx context.Context, p Part) {
	out := &lines{to: r.Out, prefix: p.Name + "| ", mu: &r.mu}
	defer out.flush()
	fmt.Fprintf(out, "%d packages\n", len(p.Packages))
	file := filepath.Join(r.Root, results, p.Name+".jsonl")
	done := Ran{Part: p}
	begin := time.Now()
	_ = os.Remove(file) // of an earlier run, if there was one
	done.CPU, done.Err = r.gotestsum(ctx, p, file, out)
	done.Took, done.Cut = time.Since(begin), ctx.Err() != nil
	events, err := os.Open(file)
	if err == nil {
		done.Result, err = ReadResult(events)
		events.Close()
	}
	if done.Err == nil {
		done.Err = err
	}
	fmt.Fprintf(out, "%s, %.0f s\n", done.Counts(), done.Took.Seconds())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, done)
}

func (r *Runner) gotestsum(ctx context.Context, p Part, file string, out io.Writer) (time.Duration, error) {
	args := []string{"tool", "-modfile=" + filepath.Join(r.Root, "tests/tools/go.mod"), "gotestsum",
		"--format=pkgname", "--format-hide-empty-pkg", "--format-icons=text", "--hide-summary=skipped", "--no-color",
		"--jsonfile=" + file, "--packages=" + strings.Join(p.Packages, " ")}
	if p.Rerun {
		args = append(args, "--rerun-fails=1", "--rerun-fails-max-failures=5", "--rerun-fails-run-root-test",
			"--rerun-fails-abort-on-data-race")
	}
	// The linter has vet, and nobody debugs a test here: without both, tests begin earlier.
	args = append(args, "--", "-vet=off", "-ldflags=-w", "-timeout="+p.Timeout.String())
	args = append(args, p.Flags...)
	if r.Options.Short {
		args = append(args, "-short")
	}
	if r.Options.Run != "" {
		args = append(args, "-run="+r.Options.Run)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(r.Root, p.Dir)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), r.Env...)
	// A raced program does not sleep a second at its end.
	cmd.Env = append(cmd.Env, goFlags(), "GORACE=atexit_sleep_ms=0")
	return run(cmd)
}

// buildFlags are those of everything that tasks build: the same code has the same build in every folder, and nothing is
// made for a debugger, which takes a fifth of the compiler's time.
const buildFlags = "-trimpath -gcflags=all=-dwarf=false"

// goFlags is the variable for programs that build. The tasks of Taskfile.yml have the flags already.
func goFlags() string {
	flags := os.Getenv("GOFLAGS")
	if !strings.Contains(flags, buildFlags) {
		flags = strings.TrimSpace(flags + " " + buildFlags)
	}
	return "GOFLAGS=" + flags
}

// run runs a command in a process group of its own, which is killed as a whole when its context ends. The processes
// of labs end with the test that started them.
func run(cmd *exec.Cmd) (cpu time.Duration, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	if s := cmd.ProcessState; s != nil {
		cpu = s.UserTime() + s.SystemTime()
	}
	return cpu, err
}

// lines writes whole lines with a prefix, so that those of several parts can be told apart.
type lines struct {
	to     io.Writer
	prefix string
	mu     *sync.Mutex
	rest   []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	if i := bytes.LastIndexByte(l.rest, '\n'); i >= 0 {
		l.print(string(l.rest[:i]))
		l.rest = append([]byte(nil), l.rest[i+1:]...)
	}
	return len(b), nil
}

func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.print(string(l.rest))
	}
}

func (l *lines) print(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.to, l.prefix+strings.ReplaceAll(s, "\n", "\n"+l.prefix))
}
