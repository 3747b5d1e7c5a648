// Package served is the side of a child process: it reads what is asked, does the work, and ends.
//
// A child is the program itself, started again. Most of the start of a program is the initialization of its packages,
// and the agent has many. A package that calls [Serve] in an init function, and imports nothing outside of the standard
// library but golang.org/x/sys and this package, is initialized before them (language specification, "Program
// initialization": packages that are ready come in the order of their import paths). Its child does its work then, and
// never gets to main.
package served

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// Limit bounds the size of a request, in bytes.
const Limit = 4 << 20

// Exit codes of a child. One that panics exits with 2, as any program in Go.
const (
	Done     = 0
	Orphaned = 3 // the agent is gone
	NoAnswer = 4 // the answer could not be written
	NoAsk    = 5 // no request came
)

// Serve does the work of a child, and does not return, if this process was started with arg alone. The request is the
// first JSON value of stdin. tell writes a value to stdout, one at a time. When stdin ends, so does the child, with its
// process group. What it writes to stderr is told if it gives no answer.
func Serve[Request any](arg string, work func(r *Request, tell func(any) error) error) {
	if len(os.Args) == 2 && os.Args[1] == arg {
		// Not os.Exit: there is nothing to clean up, and the race detector would add a second.
		syscall.Exit(serve(os.Stdin, os.Stdout, work))
	}
}

func serve[Request any](stdin io.Reader, stdout io.Writer, work func(*Request, func(any) error) error) int {
	r := new(Request)
	if err := json.NewDecoder(io.LimitReader(stdin, Limit)).Decode(r); err != nil {
		fmt.Fprintln(os.Stderr, "read the request:", err)
		return NoAsk
	}
	endWith(stdin)
	var one sync.Mutex
	answer := json.NewEncoder(stdout)
	err := work(r, func(v any) error {
		one.Lock()
		defer one.Unlock()
		return answer.Encode(v)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "write the answer:", err)
		return NoAnswer
	}
	return Done
}

// endWith ends this process, and its process group, when stdin ends: the agent is gone.
func endWith(stdin io.Reader) {
	go func() {
		io.Copy(io.Discard, stdin) //nolint:errcheck // only its end matters
		EndGroup()
		syscall.Exit(Orphaned)
	}()
}

// EndGroup kills the process group of this process, and with it this process, if it is the leader.
func EndGroup() {
	if group, own := syscall.Getpgrp(), syscall.Getpid(); group == own {
		syscall.Kill(-group, syscall.SIGKILL) //nolint:errcheck // whoever is left in it ends by itself
	}
}
