// Command crash says that it started, works for a while and fails: the container that an agent has
// to restart, later each time.
//
//	AFTER      how long it lives (default 3s)
//	EXIT_CODE  what it exits with (default 1)
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	after, err := time.ParseDuration(env("AFTER", "3s"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash: AFTER:", err)
		os.Exit(2)
	}
	code, err := strconv.Atoi(env("EXIT_CODE", "1"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash: EXIT_CODE:", err)
		os.Exit(2)
	}
	fmt.Printf("crash: alive, will exit %d in %s\n", code, after)
	time.Sleep(after)
	fmt.Fprintln(os.Stderr, "crash: exiting", code)
	os.Exit(code)
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
