// Command cmd runs tests: what the tasks test, test-all, touched, quick, check-fast and fuzz of Taskfile.yml do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// What is left of a longer run, such as that of CI.
	if s := os.Getenv("SECONDS_LEFT"); s != "" {
		seconds, err := strconv.Atoi(s)
		if err != nil {
			exit(fmt.Errorf("SECONDS_LEFT: %w", err))
		}
		ctx, stop = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer stop()
	}
	commands := map[string]func(context.Context) error{
		"test": suite.RunTests, "test-all": suite.RunAll, "touched": suite.RunTouched, "quick": suite.RunQuick,
		"check-fast": suite.CheckFast, "fuzz": suite.RunFuzz,
	}
	if len(os.Args) != 2 || commands[os.Args[1]] == nil {
		exit(fmt.Errorf("give one of test, test-all, touched, quick, check-fast and fuzz"))
	}
	err := commands[os.Args[1]](ctx)
	if err == nil && context.Cause(ctx) == context.Canceled {
		err = suite.ErrFailed // ended by a signal
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
