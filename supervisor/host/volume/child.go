package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
)

// childArg is the first argument of a child process. No user passes it.
const childArg = "__host-call"

// answer is a child's result.
type answer struct {
	Kind   port.ErrorKind `json:"kind,omitempty"`
	Detail string         `json:"detail,omitempty"` // empty: it worked
	Rooms  []room         `json:"rooms,omitempty"`
	// Left are devices that were not detached, because something else uses them.
	Left []string `json:"left,omitempty"`
	// Going: this is no answer yet, but a report of how many Files have the group.
	Going bool  `json:"going,omitempty"`
	Files int64 `json:"files,omitempty"`
	// Group is that of a volume that another pod has, if it is another one.
	Group *int64 `json:"group,omitempty"`
	// Refused is how many could not get it, Why the first could not.
	Refused int64  `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`
	// Counts is what a child that counts has written, also if it failed.
	Counts []filecount.Count `json:"-"`
}

// children runs requests in child processes.
//
// A child reads its request from stdin, which stays open until the answer: when
// the agent dies, the child sees it end and exits. It is killed when ctx ends.
// A child that hangs in the kernel does not die of that; no call waits for it,
// and until it is gone the same request is refused, so that retries do not pile
// up processes that hang.
type children struct {
	// queues are by what can hold up their children.
	queues map[waitsFor]*turns
	// local reports whether a path is reached through local file systems alone, pods is the directory of those.
	local func(path string) bool
	pods  string
	// command is the program with its first argument.
	command func(arg string) *exec.Cmd
	// report is when a child says how far it is: the first time, and then every so often.
	report [2]time.Duration

	mu sync.Mutex
	// running are the children with a live process, by request.
	running map[string][]*child
}

// child is one process.
type child struct {
	pid   int // 0 before it was started
	begun time.Time
	// ctx is the call's: once it has ended, no call waits for the child.
	ctx context.Context
	// gone gives back its place among the children of its pod; nil while it waits for its turn.
	gone func()
}

func newChildren(pods string, local func(path string) bool) *children {
	return &children{
		queues: map[waitsFor]*turns{
			nothing: newTurns(0, 0), servers: newTurns(serversOfPod, serversInAll), ends: newTurns(0, 0), walks: newTurns(0, 0),
			serverWalks: newTurns(serversOfPod, serversInAll), statistics: newTurns(0, 0),
		},
		local: local, pods: pods,
		report:  [2]time.Duration{port.WalkedFirst, port.WalkedEvery},
		running: map[string][]*child{},
		command: func(arg string) *exec.Cmd {
			// Not os.Executable: the file may have been replaced by another version.
			c := exec.Command("/proc/self/exe", arg)
			c.Args[0] = os.Args[0]
			c.Dir = "/"
			// A process group of its own, so that its children are killed with it.
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			c.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=none", "PATH=" + os.Getenv("PATH")}
			return c
		},
	}
}

// call runs one request and waits for its answer, or for ctx.
func (c *children) call(ctx context.Context, r request) error {
	_, err := c.ask(ctx, r)
	return err
}

// ask is call for a request that is answered with more than that it worked.
func (c *children) ask(ctx context.Context, r request) (answer, error) {
	if r.walked != nil {
		r.Report = &c.report
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	me, err := c.enter(ctx, r)
	if err != nil {
		return answer{}, err
	}
	back, err := c.reserve(ctx, &r)
	if err != nil {
		c.leave(r, me)
		return answer{}, err
	}
	defer back()
	me.gone, r.turn.used = r.turn.gone, true
	return c.exchange(ctx, r, me, raw)
}

// reserved is the turn of a request. used: gone is called when its child is no more.
type reserved struct {
	gone func()
	used bool
}

// reserve waits for the turn of a request, unless it has one. back gives back what the request has not used of it.
func (c *children) reserve(ctx context.Context, r *request) (back func(), err error) {
	if r.turn != nil {
		return func() {}, nil
	}
	rest, gone, err := c.queues[r.waitsFor(c.local)].take(ctx, r.owner(c.pods))
	if err != nil {
		return nil, err
	}
	hold, turn := time.AfterFunc(childHold, rest), &reserved{gone: gone}
	r.turn = turn
	return func() {
		hold.Stop()
		rest()
		if !turn.used {
			gone()
		}
	}, nil
}

// enter notes a request, unless an earlier one for the same was given up and is
// not gone.
func (c *children) enter(ctx context.Context, r request) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.running[r.key()] {
		if o.ctx.Err() != nil {
			return nil, hostcall.Failf(port.Unavailable,
				"an earlier %s of %s, started at %s, hangs in the kernel (pid %d): "+
					"check the server of that file system, or the target of that disk",
				r.Op, r.Path, o.begun.Format(time.TimeOnly), o.pid)
		}
	}
	me := &child{begun: time.Now(), ctx: ctx}
	c.running[r.key()] = append(c.running[r.key()], me)
	return me, nil
}

func (c *children) leave(r request, me *child) {
	if me.gone != nil {
		me.gone()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := slices.DeleteFunc(c.running[r.key()], func(o *child) bool { return o == me })
	if len(rest) == 0 {
		delete(c.running, r.key())
		return
	}
	c.running[r.key()] = rest
}

// exchange starts a child, writes raw and reads its answer.
func (c *children) exchange(ctx context.Context, r request, me *child, raw []byte) (a answer, err error) {
	cmd, in, out, err := c.start(r.arg())
	if err != nil {
		c.leave(r, me)
		return a, fmt.Errorf("start a child process: %w", err)
	}
	c.mu.Lock()
	me.pid = cmd.Process.Pid
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		// Ends the reading below, whatever becomes of the child.
		out.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // a pipe has deadlines
	})
	_, err = in.Write(append(raw, '\n'))
	if err == nil {
		a, err = r.read(io.LimitReader(out, filecount.Limit))
	}
	stop()
	err = errors.Join(err, in.Close(), out.Close())
	ended := c.reap(cmd, r, me, err != nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return a, ctx.Err()
	case err != nil:
		return a, fmt.Errorf("the child process gave no answer: %w", errors.Join(ended, err))
	case a.Detail != "":
		return a, &hostcall.Failure{Kind: a.Kind, Detail: a.Detail}
	}
	return a, nil
}

// read reads the answer of a child, and the reports before it.
func (r *request) read(out io.Reader) (a answer, err error) {
	if r.Op == opTrees {
		got, err := io.ReadAll(out)
		var bad error
		a.Counts, bad = filecount.Read(got)
		return a, errors.Join(err, bad)
	}
	for lines := json.NewDecoder(out); ; {
		a = answer{}
		if err := lines.Decode(&a); err != nil {
			return a, err
		}
		if !a.Going {
			// It ends by itself: when its stdin ends, it kills what it has started.
			_, err := io.Copy(io.Discard, out)
			return a, err
		}
		r.walked(a.Files)
	}
}

// start gives a running child and the agent's ends of its stdin and stdout. The
// pipes are our own: those of os/exec would make Wait wait for their copying.
func (c *children) start(arg string) (cmd *exec.Cmd, in, out *os.File, err error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, childIn.Close(), in.Close())
	}
	cmd = c.command(arg)
	cmd.Stdin, cmd.Stdout = childIn, childOut
	err = errors.Join(cmd.Start(), childIn.Close(), childOut.Close())
	if err != nil {
		return nil, nil, nil, errors.Join(err, in.Close(), out.Close())
	}
	return cmd, in, out, nil
}

// reap waits for the child's end. A cancelled child may survive even SIGKILL: another goroutine
// waits for it, at the price of a thread.
func (c *children) reap(cmd *exec.Cmd, r request, me *child, failed bool) error {
	if failed {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) //nolint:errcheck // it may have ended by itself
	}
	if me.ctx.Err() == nil {
		defer c.leave(r, me)
		return cmd.Wait()
	}
	rescue.Go(me.ctx, func() {
		defer c.leave(r, me)
		cmd.Wait() //nolint:errcheck // the caller has gone
	}, rescue.Answered)
	return nil
}

// RunChildIfAsked does the work of a child process, and does not return, if
// this process was started to be one. It has to come first in main, and in
// TestMain of every test that mounts volumes, before flags are read.
func RunChildIfAsked() {
	if len(os.Args) >= 2 && os.Args[1] == childArg {
		// Not os.Exit: there is nothing to clean up, and the race detector would add a second.
		syscall.Exit(serveOne(os.Stdin, os.Stdout))
	}
}

func serveOne(stdin io.Reader, stdout io.Writer) int {
	var r request
	if err := json.NewDecoder(io.LimitReader(stdin, filecount.Limit)).Decode(&r); err != nil {
		return filecount.NoAsk
	}
	filecount.EndWith(stdin)
	var a answer
	var err error
	switch r.Op {
	case opRoom:
		a.Rooms = rooms(r.Paths)
	case opDisk:
		a.Left, err = r.Disk.perform(r.Path)
	default:
		stop := r.reports(stdout)
		err = r.perform()
		stop()
		a.Refused, a.Why, a.Group = r.given.refused, r.given.why, r.given.other
	}
	if err != nil {
		a = answer{Kind: hostcall.KindOf(err), Detail: err.Error()}
	}
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		return filecount.NoAnswer
	}
	return filecount.Done
}

// reports says from time to time how many files are done, until it is stopped: after that nothing more comes.
func (r *request) reports(stdout io.Writer) (stop func()) {
	r.given = &regroup{}
	if r.Report == nil {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for timer := time.NewTimer(r.Report[0]); ; timer.Reset(r.Report[1]) {
			select {
			case <-over:
				return
			case <-timer.C:
				// A write error means that the agent is gone, or about to end this process.
				json.NewEncoder(stdout).Encode(answer{Going: true, Files: r.given.files.Load()}) //nolint:errcheck // see above
			}
		}
	}()
	return func() { close(over); <-ended }
}
