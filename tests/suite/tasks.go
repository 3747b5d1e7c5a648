package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/troupe-dev/troupe/tests/check"
)

// ErrFailed says that the lines before it say what failed.
var ErrFailed = errors.New("FAILED")

// ci says whether nothing may be skipped.
func ci() bool { return os.Getenv("CI") == "true" }

// RunTests runs the tests of each change. The variables SHORT, RUN, KUBELET and PART are those of task test.
func RunTests(ctx context.Context) (err error) {
	defer check.Return(&err)
	s := check.Must(Load("."))
	if ci() {
		check.OK(settleTimes(s.Root))
	}
	r := check.Must(s.runner(Options{Short: os.Getenv("SHORT") != "", Run: os.Getenv("RUN")}))
	if os.Getenv("KUBELET") != "" {
		r.Env = append(r.Env, "TROUPE_TEST_KUBELET=1")
	}
	stages := s.Plan(r.Options)
	if only := os.Getenv("PART"); only != "" {
		stages = [][]Lane{{slices.DeleteFunc(lanes(stages), func(p Part) bool { return p.Name != only })}}
	}
	if !slices.ContainsFunc(lanes(stages), func(p Part) bool { return len(p.Packages) > 0 }) {
		return fmt.Errorf("no test is of RUN=%q and PART=%q", os.Getenv("RUN"), os.Getenv("PART"))
	}
	sum := Sum(r.Run(ctx, stages), ci() && !r.Options.Short, false)
	return finish(sum, s.Root, "test")
}

// runner is for one run in this tree: two would write the same results.
func (s *Source) runner(o Options) (_ *Runner, err error) {
	defer check.Return(&err)
	dir := filepath.Join(s.Root, results)
	check.OK(os.MkdirAll(dir, 0o755))
	lock := check.Must(os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644))
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another run of tests is under way in this tree: %s: %w", lock.Name(), err)
	}
	if !CanRace() {
		fmt.Println("gcc is missing: the race detector is off.")
	}
	return &Runner{Root: s.Root, Options: o, Out: os.Stdout, lock: lock}, nil
}

func finish(sum *Summary, root, name string) error {
	sum.Print(os.Stdout)
	if err := sum.Write(root, name); err != nil {
		return err
	}
	if len(sum.Bad) > 0 {
		return ErrFailed
	}
	return nil
}
