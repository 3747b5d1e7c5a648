package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	// fuzzMinutes is how long all fuzz targets take together, but for their builds, unless MINUTES says so.
	fuzzMinutes = "60"
	// leastShare is how long each takes at least, whatever MINUTES says: go test refuses a share of 0 s.
	leastShare = time.Second
	// mostMinutes is a year: a greater number is a mistake, and one that a duration can't have would be less than 0.
	mostMinutes = 365 * 24 * 60
)

// RunFuzz runs each fuzz target for an equal share of the time, one after another, and goes on after one that failed.
// What made it fail is in testdata/fuzz of its package: to be kept with the mend, and run with the other tests from then
// on.
func RunFuzz(ctx context.Context) (err error) {
	defer check.Return(&err)
	s := check.Must(Load("."))
	targets := s.fuzzTargets(os.Getenv("RUN"))
	if len(targets) == 0 {
		return fmt.Errorf("no fuzz target is of RUN=%q", os.Getenv("RUN"))
	}
	share := check.Must(fuzzShare(cmp.Or(os.Getenv("MINUTES"), fuzzMinutes), len(targets)))
	fmt.Printf("%d targets, %v for each. The first build of each package takes minutes.\n", len(targets), share)
	var failed []string
	for _, f := range targets {
		fmt.Printf("%s.%s\n", f.Package, f.Name)
		cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-run=^$", "-fuzz=^"+f.Name+"$",
			"-fuzztime="+share.String(), "-fuzzminimizetime=10s", Module+"/"+f.Package)
		cmd.Dir, cmd.Stdout, cmd.Stderr = s.Root, os.Stdout, os.Stderr
		if _, err := run(cmd); err != nil {
			failed = append(failed, f.fullName())
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("the last target was %s", f.Name))
		}
	}
	if len(failed) > 0 {
		fmt.Println("FAILED ", strings.Join(failed, " "))
		return ErrFailed
	}
	return nil
}

// fuzzShare is how long each of so many targets takes, in whole seconds.
func fuzzShare(minutes string, targets int) (time.Duration, error) {
	m, err := strconv.ParseFloat(minutes, 64)
	if err != nil || !(m > 0 && m <= mostMinutes) { // not a number is not within
		return 0, fmt.Errorf("MINUTES=%s: must be a number above 0, and at most %d", minutes, mostMinutes)
	}
	all := time.Duration(m * float64(time.Minute))
	return max((all / time.Duration(targets)).Round(time.Second), leastShare), nil
}

// fuzzTargets are those of the root module whose names match.
func (s *Source) fuzzTargets(names string) (targets []Test) {
	matches := matcher(names)
	for _, p := range s.Packages {
		for _, t := range p.Tests {
			if strings.HasPrefix(t.Name, "Fuzz") && !p.E2E() && matches(t.Name) {
				targets = append(targets, t)
			}
		}
	}
	return targets
}
