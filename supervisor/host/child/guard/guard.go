// Package guard is a child that runs a program of somebody else, which must end when the agent does, also when the
// agent is killed.
//
//	agent ──starts──► guard ──starts──► program ──starts──► its own processes
//	   └──── its stdin ──┘ └───────────── one process group ──────────────┘
//
// The program can't be asked to watch the agent, so its guard does: when its stdin ends, it kills the group.
// (PR_SET_PDEATHSIG would not reach what the program itself has started.) It imports only what package served allows.
package guard

import (
	"bytes"
	"errors"
	"io/fs"
	"os/exec"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/supervisor/host/child/served"
)

// Arg is the first argument of a guard. No user passes it.
const Arg = "__host-guard"

// Program is a program to run, the request of a guard.
type Program struct {
	Path      string   `json:"path"`
	Args, Env []string `json:",omitempty"`
	// Dir is its working directory, Stdin what it gets.
	Dir   string `json:"dir"`
	Stdin []byte `json:"stdin,omitempty"`
	// PipeDelay is how long it is waited, after the program has ended, for processes that keep its pipes open.
	PipeDelay time.Duration `json:"pipeDelay,omitempty"`
}

// most is how much of stderr is told as it comes, in bytes. Of what follows, as much of its end is told at the end.
const most = 64 << 10

// Said is what a guard tells of its program: what that has written, and with Ended how it ended.
type Said struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	// Failure is why it can't be run, or how it failed; empty if it exited with status 0.
	Failure string `json:"failure,omitempty"`
}

func init() { served.Serve(Arg, (*Program).serve) }

func (p *Program) serve(tell func(any) error) error {
	c := exec.Cmd{
		Path: p.Path, Args: append([]string{p.Path}, p.Args...), Env: p.Env, Dir: p.Dir,
		Stdin: bytes.NewReader(p.Stdin), WaitDelay: p.PipeDelay,
		Stdout: writer(func(b []byte) error { return tell(Said{Stdout: b}) }),
	}
	flood, told := Tail{Limit: most}, 0
	c.Stderr = writer(func(b []byte) error {
		if told += len(b); told > most {
			_, err := flood.Write(b)
			return err
		}
		return tell(Said{Stderr: b})
	})
	end := Said{Ended: true}
	if err := c.Start(); err != nil {
		end.Failure = "it can't be run: " + err.Error()
		if e, is := errors.AsType[*fs.PathError](err); is {
			end.Failure = "it can't be run: " + e.Err.Error()
		}
		return tell(end)
	}
	err := c.Wait()
	if err != nil {
		end.Failure = err.Error()
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		end.Failure = "it ended, but processes that it started did not close its stdout or stderr"
	}
	end.Stderr = []byte(flood.String())
	failed := tell(end)
	if err != nil {
		served.EndGroup() // what it has left may keep its pipes open
	}
	return failed
}

// writer gives each write to a function.
type writer func([]byte) error

func (w writer) Write(b []byte) (int, error) { return len(b), w(b) }

// Tail keeps the end of what is written, at most Limit bytes.
type Tail struct {
	Limit int
	mu    sync.Mutex
	data  []byte
}

func (t *Tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, data[max(0, len(data)-t.Limit):]...)
	if len(t.data) > 2*t.Limit { // seldom: it is a copy
		t.data = append(t.data[:0], t.data[len(t.data)-t.Limit:]...)
	}
	return len(data), nil
}

func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data[max(0, len(t.data)-t.Limit):])
}
