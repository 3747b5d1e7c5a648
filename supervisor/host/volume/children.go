package volume

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/child"
	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/supervisor/host/child/served"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/fsgroup"
)

const (
	// childArg is the first argument of a child process. No user passes it.
	childArg = "__host-call"
	// serversOfPod is how many children of one pod may wait for servers at once, and as soon as there are serversInAll
	// of them, a pod has one.
	serversOfPod = 4
	serversInAll = 64
)

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
type children struct {
	child.Children
	// queues are by what can hold up their children.
	queues map[waitsFor]*child.Turns
	// local reports whether a path is reached through local file systems alone, pods is the directory of those.
	local func(path string) bool
	pods  string
	// report is when a child says how far it is: the first time, and then every so often.
	report [2]time.Duration
}

func newChildren(pods string, local func(path string) bool) *children {
	free := func() *child.Turns { return child.NewTurns(0, 0) }
	bounded := func() *child.Turns { return child.NewTurns(serversOfPod, serversInAll) }
	return &children{
		Children: child.Children{Command: child.Command},
		queues: map[waitsFor]*child.Turns{
			nothing: free(), servers: bounded(), ends: free(), walks: free(), serverWalks: bounded(), statistics: free(),
		},
		local: local, pods: pods,
		report: [2]time.Duration{port.WalkedFirst, port.WalkedEvery},
	}
}

// call runs one request and waits for its answer, or for ctx.
func (c *children) call(ctx context.Context, r request) error {
	_, err := c.ask(ctx, r)
	return err
}

// ask is call for a request that is answered with more than that it worked.
func (c *children) ask(ctx context.Context, r request) (a answer, err error) {
	if r.walked != nil {
		r.Report = &c.report
	}
	err = c.Run(ctx, &child.Call{
		Arg: r.arg(), Ask: r, Op: r.Op, Path: r.Path, Queue: c.queue(&r), Pod: r.owner(c.pods), Turn: r.turn,
		Read: func(out io.Reader) (err error) {
			a, err = r.read(out)
			return err
		},
	})
	if err == nil && a.Detail != "" {
		err = &hostcall.Failure{Kind: a.Kind, Detail: a.Detail}
	}
	return a, err
}

// queue is where a request waits for its turn; nil if it has one.
func (c *children) queue(r *request) *child.Turns {
	if r.turn != nil {
		return nil
	}
	return c.queues[r.waitsFor(c.local)]
}

// reserve waits for the turn of a request. back gives back what the request has not used of it.
func (c *children) reserve(ctx context.Context, r *request) (back func(), err error) {
	if r.turn, err = c.queue(r).Wait(ctx, r.owner(c.pods)); err != nil {
		return nil, err
	}
	return r.turn.Back, nil
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
		if err := lines.Decode(&a); err != nil || !a.Going {
			return a, err
		}
		r.walked(a.Files)
	}
}

// RunChildIfAsked does the work of a child process, and does not return, if
// this process was started to be one. It has to come first in main, and in
// TestMain of every test that mounts volumes, before flags are read.
func RunChildIfAsked() { served.Serve(childArg, (*request).serve) }

func (r *request) serve(tell func(any) error) error {
	var a answer
	var err error
	switch r.Op {
	case opRoom:
		a.Rooms = rooms(r.Paths)
	case opDisk:
		a.Left, err = r.Disk.perform(r.Path)
	default:
		stop := r.reports(tell)
		err = r.perform()
		stop()
		a.Refused, a.Why, a.Group = r.given.Refused, r.given.Why, r.given.Other
	}
	if err != nil {
		a = answer{Kind: hostcall.KindOf(err), Detail: err.Error()}
	}
	return tell(a)
}

// reports says from time to time how many files are done, until it is stopped: after that nothing more comes.
func (r *request) reports(tell func(any) error) (stop func()) {
	r.given = &fsgroup.Change{}
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
				tell(answer{Going: true, Files: r.given.Files.Load()}) //nolint:errcheck // see above
			}
		}
	}()
	return func() { close(over); <-ended }
}
