// Package child has work done by child processes: the program itself, started again with an argument that no user
// passes.
//
//	exchange.go  one child: the request on its stdin, the answer on its stdout, its deadline, end and words
//	child.go     children of pods, none of which is begun again while it hangs
//	turns.go     how many of them there are at once, of a pod and in all
//	program.go   a child that runs a program of somebody else
//	served       the other side: what a child does
//	filecount    a child that counts files
//	guard        the other side of program.go
//
// A thread that touches a file system whose server is dead is stuck in the kernel: no signal reaches it, and a process
// with such a thread does not even exit. So a child does what may touch one.
package child

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// answerLimit bounds what a child may write, in bytes.
const answerLimit = 1 << 20

// Call is work for a child.
type Call struct {
	// Arg chooses the work, see served.Serve. Ask is the request, as JSON.
	Arg string
	Ask any
	// Op and Path say what is done, for people. What was given up and hangs is not begun again.
	Op, Path string
	// Queue is where it waits for the turn of Pod, unless Turn is one that it has.
	Queue *Turns
	Pod   string
	Turn  *Turn
	// Read takes the answer. An error makes the call fail.
	Read func(io.Reader) error
}

func (c *Call) key() string { return c.Op + " " + c.Path }

// Children runs calls in child processes.
//
// A child reads its request from stdin, which stays open until the answer: when the agent dies, the child sees it end
// and exits. It is killed when ctx ends. A child that hangs in the kernel does not die of that; no call waits for it,
// and until it is gone the same request is refused, so that retries do not pile up processes that hang.
type Children struct {
	// Command is the program with its first argument: [Command].
	Command func(arg string) *exec.Cmd

	mu sync.Mutex
	// running are the children with a live process, by request.
	running map[string][]*process
}

// process is one child.
type process struct {
	pid   int // 0 before it was started
	begun time.Time
	// ctx is the call's: once it has ended, no call waits for the child.
	ctx context.Context
}

// Run has a child do c, and waits for its answer, or for ctx.
func (a *Children) Run(ctx context.Context, c *Call) error {
	raw, err := json.Marshal(c.Ask)
	if err != nil {
		return err
	}
	me, err := a.enter(ctx, c)
	if err != nil {
		return err
	}
	turn := c.Turn
	if turn == nil {
		if turn, err = c.Queue.Wait(ctx, c.Pod); err != nil {
			a.leave(c, me)
			return err
		}
		defer turn.Back()
	}
	turn.used = true
	e := exchange{command: a.Command(c.Arg), ask: raw, read: c.Read, most: answerLimit}
	e.started = func(pid int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		me.pid = pid
	}
	e.gone = func() {
		turn.gone()
		a.leave(c, me)
	}
	return e.run(ctx)
}

// enter notes a request, unless an earlier one for the same was given up and is not gone.
func (a *Children) enter(ctx context.Context, c *Call) (*process, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.running[c.key()] {
		if o.ctx.Err() != nil {
			return nil, hostcall.Failf(port.Unavailable,
				"an earlier %s of %s, started at %s, hangs in the kernel (pid %d): "+
					"check the server of that file system, or the target of that disk",
				c.Op, c.Path, o.begun.Format(time.TimeOnly), o.pid)
		}
	}
	me := &process{begun: time.Now(), ctx: ctx}
	if a.running == nil {
		a.running = map[string][]*process{}
	}
	a.running[c.key()] = append(a.running[c.key()], me)
	return me, nil
}

func (a *Children) leave(c *Call, me *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := slices.DeleteFunc(a.running[c.key()], func(o *process) bool { return o == me })
	if len(rest) == 0 {
		delete(a.running, c.key())
		return
	}
	a.running[c.key()] = rest
}
