package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// ErrFailed says that the lines before it say what failed.
var ErrFailed = errors.New("FAILED")

// ci says whether nothing may be skipped.
func ci() bool { return os.Getenv("CI") == "true" }

// RunTests runs the tests of each change, or with all those of every tier. The variables SHORT, RUN and KUBELET are
// those of task test.
func RunTests(ctx context.Context, all bool) error {
	s, err := Load(".")
	if err != nil {
		return err
	}
	o := Options{Short: os.Getenv("SHORT") != "", Run: os.Getenv("RUN"), All: all}
	r := &Runner{Root: s.Root, Options: o, Out: os.Stdout}
	if os.Getenv("KUBELET") != "" {
		r.Env = append(r.Env, "TROUPE_TEST_KUBELET=1")
	}
	if all {
		r.Env = append(r.Env, "TROUPE_TEST_SIZE=full", "TROUPE_TEST_RUNTIME=containerd")
	}
	if !CanRace() {
		fmt.Println("gcc is missing: the race detector is off.")
	}
	sum := Sum(r.Run(ctx, s.Plan(o)), ci(), false)
	return finish(sum, s.Root, "test")
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
