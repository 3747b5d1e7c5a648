// Command mutants breaks the product one thing at a time, and sees who notices.
//
//	go run ./tests/mutants hand                 # mutants made by hand: the cases that show them
//	go run ./tests/mutants hand -search NAME    # look for a shorter or another case
//	go run ./tests/mutants tests                # mutants made by hand: the tests that find them
//	go run ./tests/mutants nodes                # mutants made by hand: the tests of real nodes that find them, as root
//	go run ./tests/mutants differ               # mutants made by hand: those that pods beside the kubelet's show, as root
//	go run ./tests/mutants generated -sample 200 -seed 1 -budget 1h
//
// A mutant made by hand is a NAME.patch here. NAME.case is the shortest case that shows it, or NAME.test has the
// package and the test that find it. Generated ones are a random sample of what a few rules make of the syntax of
// actors: negated conditions, statements left out, numbers that are off by one.
//
// All mutants are in one build. Each function that a mutant changes is there once more for it, and begins
// with a switch: the variable TROUPE_MUTANT has the number of the mutant that runs. The files of the
// product are not changed: go build overlays them. docs/mutants.md has the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, to io.Writer) (err error) {
	defer check.Return(&err)
	if len(args) == 0 {
		return errors.New("give hand, tests, nodes, differ or generated, see go doc ./tests/mutants")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "hand":
		var h byHand
		flags.BoolVar(&h.search, "search", false, "look for a case, instead of running the one that is kept")
		flags.IntVar(&h.rounds, "rounds", 8, "how long to look for a case: rounds of seeds and sweeps")
		flags.DurationVar(&h.shrink, "shrink", 20*time.Second, "how long to look for a shorter case")
		check.OK(flags.Parse(args[1:]))
		return h.run(ctx, flags.Args(), to)
	case "tests":
		check.OK(flags.Parse(args[1:]))
		return new(byTests).run(ctx, flags.Args(), to)
	case "nodes":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return byNodes{}.run(ctx, flags.Args(), to)
	case "differ":
		check.OK(flags.Parse(args[1:]))
		return byDiffer{}.run(ctx, flags.Args(), to)
	case "generated":
		var s sampling
		flags.IntVar(&s.sample, "sample", 200, "how many mutants to run")
		flags.Uint64Var(&s.seed, "seed", 1, "which ones")
		flags.DurationVar(&s.budget, "budget", time.Hour, "end after this time")
		flags.StringVar(&s.below, "below", "actors", "the folder to mutate")
		flags.StringVar(&s.results, "results", "mutants.jsonl", "the file for results; what it has is not run again")
		flags.IntVar(&s.workers, "workers", 1, "mutants to run at once")
		flags.IntVar(&s.rounds, "rounds", 1, "rounds of seeds and sweeps for mutants that pass the tests")
		flags.StringVar(&s.dir, "dir", "", "keep the programs here, and use those that are there")
		flags.BoolVar(&s.list, "list", false, "only print the mutants of the sample")
		check.OK(flags.Parse(args[1:]))
		return s.run(ctx, to)
	case "find": // within a build with mutants
		var s search
		flags.StringVar(&s.Case, "case", "", "a case to try first")
		flags.BoolVar(&s.Only, "only", false, "try no other")
		flags.IntVar(&s.Rounds, "rounds", 1, "rounds of seeds and sweeps")
		flags.DurationVar(&s.Shrink, "shrink", 0, "how long to look for a shorter case")
		check.OK(flags.Parse(args[1:]))
		return s.find(to)
	default:
		return fmt.Errorf("%q is none of hand, tests, nodes, differ and generated", args[0])
	}
}

// moduleRoot is the folder of the module.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}
