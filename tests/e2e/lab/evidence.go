package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	// mostEvidence is how much is kept of each file, from its end.
	mostEvidence = 4 << 20
	// evidenceTime is how long may be asked for what failed: an agent or an apiserver may not answer.
	evidenceTime = 20 * time.Second
	// keepVariable, if 1, has a test that has failed leave all running, until somebody has seen enough.
	keepVariable = "KEEP"
)

// Evidence is a directory with what is to be looked at after a test has failed: .run/failed/<package>/<test> of the repository.
// It replaces that of an earlier run.
type Evidence struct{ dir string }

// Collect has collect put together the evidence of a test, if that has failed, and says where it is. reach are lines that say
// how to get at what runs: with KEEP=1 it goes on running until the file of them is removed, or the process is interrupted.
func Collect(t testing.TB, reach string, collect func(ctx context.Context, e Evidence)) {
	t.Helper()
	if !t.Failed() {
		return
	}
	e, err := newEvidence(t.Name())
	if err != nil {
		t.Logf("nothing is kept of what failed: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), evidenceTime)
	defer cancel()
	collect(ctx, e)
	t.Logf("logs, timelines and objects of the failed test are in %s", e.dir)
	if os.Getenv(keepVariable) == "1" && os.Getenv("CI") != "true" {
		e.keep(reach)
	}
}

func newEvidence(test string) (_ Evidence, err error) {
	defer check.Return(&err)
	repository := check.Must(Repository())
	wd := check.Must(os.Getwd())
	e := Evidence{filepath.Join(repository, ".run/failed", filepath.Base(wd), strings.ReplaceAll(test, "/", "_"))}
	return e, errors.Join(os.RemoveAll(e.dir), os.MkdirAll(e.dir, 0o755))
}

// keep returns when the file that says how to reach what runs is removed, or the process is interrupted.
func (e Evidence) keep(reach string) {
	file := filepath.Join(e.dir, "running")
	e.Text("running", reach, nil)
	// Not to the test's log, which is shown when the test has ended.
	fmt.Fprintf(os.Stderr, "%s\nAll of this runs until %s is removed, or this process gets SIGINT.\n", reach, file)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	_ = poll(ctx, func() (bool, error) { // it ends either way
		_, err := os.Stat(file)
		return errors.Is(err, fs.ErrNotExist), nil
	})
}

// Text keeps a text, or why there is none.
func (e Evidence) Text(name, text string, err error) {
	if err != nil {
		text += fmt.Sprintf("\n%v\n", err)
	}
	_ = os.WriteFile(filepath.Join(e.dir, name), []byte(text[max(0, len(text)-mostEvidence):]), 0o644) // what can be kept is
}

// File keeps the end of a file.
func (e Evidence) File(name, path string) {
	text, err := end(path, mostEvidence)
	e.Text(name, text, err)
}

// Stacks keeps where the threads of a process are in the kernel.
func (e Evidence) Stacks(name string, pid int) {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*"))
	var all strings.Builder
	for _, thread := range threads {
		for _, file := range []string{"comm", "wchan", "stack"} {
			text, err := os.ReadFile(filepath.Join(thread, file))
			fmt.Fprintf(&all, "--- %s of thread %s %v\n%s\n", file, filepath.Base(thread), err, text)
		}
	}
	e.Text(name, all.String(), err)
}

// ControlPlane keeps the logs of a control plane.
func (e Evidence) ControlPlane(c *ControlPlane) {
	for _, p := range c.components() {
		e.File(p.name+".log", p.logPath)
	}
}

// end is the end of a file, at most n bytes.
func end(path string, n int64) (_ string, err error) {
	defer check.Return(&err)
	f := check.Must(os.Open(path))
	defer f.Close()
	info := check.Must(f.Stat())
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-n), n))
	return string(text), err
}
