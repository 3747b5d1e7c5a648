package served

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// waits are the steps of tests/images/work that do not end at once. A program has at most one.
var waits = []string{"sleep", "trap", "ignore"}

// steps cuts arguments at every "then".
func steps(args []string) (parts [][]string) {
	for len(args) > 0 {
		i := slices.Index(args, "then")
		if i < 0 {
			return append(parts, args)
		}
		if i > 0 {
			parts = append(parts, args[:i])
		}
		args = args[i+1:]
	}
	return parts
}

// work plays the program work: what comes before its step that waits is done now, and what comes
// after it when the container ends.
func (c *container) work(out *output, args []string) (_ *simcri.Script, err error) {
	defer check.Return(&err)
	before, wait, after, err := split(args)
	if err != nil {
		return nil, err
	}
	check.OK(os.MkdirAll(c.root, 0o755))
	p := &process{c: c, out: out.print, warn: out.warn}
	code, over := p.run(before)
	s := &simcri.Script{Exec: c.exec(out), TermDelay: simcri.Constant(moment), TermExitCode: exitTerminated}
	if over || wait == nil {
		s.RunFor, s.ExitCode = simcri.Constant(moment), code
		return s, nil
	}
	length := check.Must(lengthOf(wait))
	rest := exitCode(after)
	switch wait[0] {
	case "sleep":
		if len(wait) > 1 {
			s.RunFor, s.ExitCode = simcri.Constant(max(length, moment)), rest
		}
	case "trap":
		s.TermDelay, s.TermExitCode = simcri.Constant(max(length, moment)), rest
	case "ignore":
		s.IgnoreTERM = true
	}
	c.end = func(t simcri.Transition) {
		if wait[0] == "sleep" && t.Cause == simcri.BySignal {
			out.print("SIGTERM: ending\n")
			return
		}
		if wait[0] == "trap" {
			out.print("SIGTERM: lingering %v\nlingered\n", length)
		}
		if code, _ := p.run(after); code != rest {
			out.problem("work %v ended with %d and was to end with %d", args, code, rest)
		}
	}
	return s, nil
}

// split finds the step that waits, and refuses what is not played.
func split(args []string) (before [][]string, wait []string, after [][]string, err error) {
	all := steps(args)
	for i, step := range all {
		switch {
		case slices.Contains(waits, step[0]) && wait != nil:
			return nil, nil, nil, fmt.Errorf("work %v waits twice, which is not played", args)
		case slices.Contains(waits, step[0]):
			before, wait, after = all[:i], step, all[i+1:]
		case verbs[step[0]] == nil:
			return nil, nil, nil, fmt.Errorf("the step %s of work is not played", step[0])
		}
	}
	if wait == nil {
		before = all
	}
	return before, wait, after, nil
}

// lengthOf is the duration of a step that waits, 0 without one.
func lengthOf(wait []string) (time.Duration, error) {
	if len(wait) < 2 {
		return 0, nil
	}
	return time.ParseDuration(wait[1])
}

// exitCode is what steps come to, if none fails.
func exitCode(of [][]string) int32 {
	for _, step := range of {
		if step[0] == "exit" && len(step) == 2 {
			n, _ := strconv.ParseUint(step[1], 10, 8)
			return int32(n)
		}
	}
	return 0
}

// exec answers commands: work runs its steps again.
func (c *container) exec(out *output) func([]string) simcri.ExecAnswer {
	return func(command []string) simcri.ExecAnswer {
		refused := func(err error) simcri.ExecAnswer {
			out.problem("exec %v: %v", command, err)
			return simcri.ExecAnswer{ExitCode: 126, Stderr: err.Error()}
		}
		if len(command) == 0 || command[0] != "/work" {
			return refused(errors.New("it is not played"))
		}
		before, wait, after, err := split(command[1:])
		if err != nil {
			return refused(err)
		}
		var stdout, stderr strings.Builder
		p := &process{
			c:    c,
			out:  func(format string, args ...any) { fmt.Fprintf(&stdout, format, args...) },
			warn: func(format string, args ...any) { fmt.Fprintf(&stderr, format, args...) },
		}
		code, over := p.run(before)
		a := simcri.ExecAnswer{ExitCode: code, Stdout: stdout.String(), Stderr: stderr.String()}
		if over || wait == nil {
			return a
		}
		length, err := lengthOf(wait)
		if err != nil || len(after) > 0 {
			return refused(errors.Join(err, errors.New("what comes after a wait is not played")))
		}
		a.Hang, a.Delay = wait[0] != "sleep" || len(wait) == 1, simcri.Constant(length)
		return a
	}
}

// process does steps that end at once.
type process struct {
	c         *container
	out, warn func(format string, args ...any)
}

// run does steps until one ends the program.
func (p *process) run(all [][]string) (code int32, over bool) {
	for _, step := range all {
		if step[0] == "exit" {
			return exitCode([][]string{step}), true
		}
		if err := verbs[step[0]](p, step[1:]); err != nil {
			p.warn("work %s: %v\n", step, err)
			return 1, true
		}
	}
	return 0, false
}

// verbs are the steps that end at once.
var verbs = map[string]func(p *process, args []string) error{
	"exit":  func(*process, []string) error { return nil },
	"print": func(p *process, args []string) error { p.out("%s\n", strings.Join(args, " ")); return nil },
	"warn":  func(p *process, args []string) error { p.warn("%s\n", strings.Join(args, " ")); return nil },
	"touch": func(p *process, args []string) error { return p.file(args, os.O_CREATE, "") },
	"append": func(p *process, args []string) error {
		return p.file(args, os.O_CREATE|os.O_APPEND, strings.Join(args[min(1, len(args)):], " ")+"\n")
	},
	"cat": func(p *process, args []string) error {
		for _, file := range args {
			text, err := os.ReadFile(p.c.path(file))
			if err != nil {
				return inside(err, file)
			}
			p.out("%s", text)
		}
		return nil
	},
	"turns": turns,
}

// file writes text to the file that is the first argument.
func (p *process) file(args []string, how int, text string) error {
	if len(args) == 0 {
		return errors.New("which file")
	}
	f, err := os.OpenFile(p.c.path(args[0]), os.O_WRONLY|how, 0o644)
	if err != nil {
		return inside(err, args[0])
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// inside is an error as the container sees it.
func inside(err error, file string) error {
	if e, is := errors.AsType[*fs.PathError](err); is {
		return &fs.PathError{Op: e.Op, Path: file, Err: e.Err}
	}
	return err
}

// turns fails before the Nth time.
func turns(p *process, args []string) (err error) {
	defer check.Return(&err)
	if len(args) != 2 {
		return errors.New("turns FILE N")
	}
	need := check.Must(strconv.Atoi(args[1]))
	text, err := os.ReadFile(p.c.path(args[0]))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	done, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	done++
	check.OK(p.file(args, os.O_CREATE|os.O_TRUNC, strconv.Itoa(done)))
	if done < need {
		return fmt.Errorf("turn %d of %d", done, need)
	}
	return nil
}
