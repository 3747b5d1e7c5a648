package served

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// moment is how long a program runs that ends at once, or takes to end after SIGTERM.
const moment = 5 * time.Millisecond

const (
	exitTerminated = 143 // of a program that lets SIGTERM end it
	exitGo         = 2   // of a Go program that is the first of its namespace and handles no SIGTERM
)

// play is a program of tests/images as a script.
func (r *Runtime) play(c *container, program string) (*simcri.Script, error) {
	out := &output{problem: r.problem, c: c}
	out.print("") // the log is there from the start
	args := slices.Concat(c.config.GetCommand(), c.config.GetArgs())
	if len(c.config.GetCommand()) > 0 {
		if args[0] != "/"+program {
			return nil, fmt.Errorf("command %v is not played", args)
		}
		args = args[1:]
	}
	switch program {
	case "work":
		return c.work(out, args)
	case "web":
		return c.serveWeb(out), nil
	case "crash":
		return c.crash(out)
	default:
		return nil, fmt.Errorf("image %s has no program that is played", c.config.GetImage().GetImage())
	}
}

func (c *container) crash(out *output) (_ *simcri.Script, err error) {
	defer check.Return(&err)
	after := check.Must(time.ParseDuration(c.env("AFTER", "3s")))
	code := check.Must(strconv.ParseUint(c.env("EXIT_CODE", "1"), 10, 8))
	out.print("crash: alive, will exit %d in %s\n", code, after)
	c.end = func(t simcri.Transition) {
		if t.Cause == simcri.ByItself {
			out.warn("crash: exiting %d\n", code)
		}
	}
	return &simcri.Script{
		RunFor: simcri.Constant(max(after, moment)), ExitCode: int32(code),
		TermDelay: simcri.Constant(moment), TermExitCode: exitGo,
	}, nil
}

func (c *container) serveWeb(out *output) *simcri.Script {
	port := c.env("PORT", "8080")
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello from", c.host) })
	out.print("web: listening on :%s\n", port)
	if err := c.listen(port, mux); err != nil {
		out.warn("web: %v\n", err)
		return &simcri.Script{RunFor: simcri.Constant(moment), ExitCode: 1}
	}
	c.end = func(simcri.Transition) { out.print("web: asked to stop\n") }
	return &simcri.Script{TermDelay: simcri.Constant(moment)}
}

// output is what a program writes.
type output struct {
	c       *container
	problem func(format string, args ...any)
}

func (o *output) print(format string, args ...any) { o.to("stdout", fmt.Sprintf(format, args...)) }
func (o *output) warn(format string, args ...any)  { o.to("stderr", fmt.Sprintf(format, args...)) }

func (o *output) to(stream, text string) {
	if err := o.c.write(stream, text); err != nil {
		o.problem("write a log: %v", err)
	}
}
