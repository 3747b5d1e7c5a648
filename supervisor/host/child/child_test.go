package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/child/guard"
	"github.com/troupe-dev/troupe/supervisor/host/child/served"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/tests/check"
)

const testArg = "__test-child"

// work is what a child of these tests does.
type work struct{ Say, Panic string }

func TestMain(m *testing.M) {
	served.Serve(testArg, func(w *work, tell func(any) error) error {
		if w.Panic != "" {
			panic(w.Panic)
		}
		return tell(w.Say)
	})
	goleak.VerifyTestMain(m)
}

// shell has a shell in the place of a child.
func shell(script string) *Children {
	return &Children{Command: func(string) *exec.Cmd {
		c := Command("")
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", script}
		return c
	}}
}

// text reads an answer that is a string.
func text(to *string) func(io.Reader) error {
	return func(out io.Reader) error { return json.NewDecoder(out).Decode(to) }
}

// TestRun: a child gives its answer, and a panic of one is an error that says it.
func TestRun(t *testing.T) {
	c, q := Children{Command: Command}, NewTurns(1, 1)
	var got string
	check.Fatal(t, c.Run(t.Context(), &Call{Arg: testArg, Ask: work{Say: "hello"}, Queue: q, Pod: "a", Read: text(&got)}))
	check.Equal(t, got, "hello", "the answer")
	err := c.Run(t.Context(), &Call{Arg: testArg, Ask: work{Panic: "out of luck"}, Queue: q, Pod: "a", Read: text(&got)})
	check.Says(t, err, "the child process gave no answer: panic: out of luck", "one that panics")
	wantIdle(t, &c, q)
}

func wantIdle(t *testing.T, c *Children, q *Turns) {
	t.Helper()
	check.Equal(t, len(c.running), 0, "children that are said to run")
	check.Equal(t, fmt.Sprint(q.free, q.all, len(q.alive)), fmt.Sprint(slots, 0, 0), "slots that are free, and children alive")
}

func TestNoAnswer(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"ends at once":        {"read -r ask", "EOF"},
		"fails":               {"echo the reason >&2; exit 7", "the reason exit status 7"},
		"says nonsense":       {"echo nonsense; cat", "invalid character"},
		"says too much":       {`printf '"'; yes`, "signal: "},
		"says too many words": {`head -c 100000 /dev/zero | tr '\0' x >&2; exit 1`, strings.Repeat("x", wordsLimit) + " exit status 1"},
	} {
		a, q := shell(c.script), NewTurns(1, 1)
		var got string
		err := a.Run(t.Context(), &Call{Queue: q, Pod: "a", Read: text(&got)})
		check.Has(t, strings.Join(strings.Fields(fmt.Sprint(err)), " "), c.want, "%s", name)
		wantIdle(t, a, q)
	}
	a, q := Children{Command: func(string) *exec.Cmd { return exec.Command("/nowhere") }}, NewTurns(1, 1)
	err := a.Run(t.Context(), &Call{Queue: q, Pod: "a"})
	check.Equal(t, fmt.Sprint(err), "start a child process: fork/exec /nowhere: no such file or directory", "no program")
	wantIdle(t, &a, q)
}

// TestGivenUp: a child that does not answer until the end of its ctx is killed, with what it has started. Its place among
// those of its pod is free again when it is gone, and then it may be asked again.
func TestGivenUp(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	a, q := shell("trap '' TERM HUP; sleep 1000 & echo $$ $! > "+pids+".new; mv "+pids+".new "+pids+"; wait; sleep 1000"), NewTurns(1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	call := Call{Op: "sleep", Path: "/bed", Queue: q, Pod: "a", Read: text(new(string))}
	go func() { ended <- a.Run(ctx, &call) }()
	check.Until(t, "it runs", func() bool { return check.Err(os.Stat(pids)) == nil })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	for pid := range strings.FieldsSeq(string(check.Value(os.ReadFile(pids))(t))) {
		wantGone(t, pid)
	}
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	turn := check.Value(q.Wait(soon, "a"))(t)
	turn.Back()
	check.Until(t, "nothing runs", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.running) == 0
	})
}

func wantGone(t *testing.T, pid string) {
	t.Helper()
	number := check.Value(strconv.Atoi(pid))(t)
	check.Until(t, pid+" is gone", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ") || errors.Is(syscall.Kill(number, 0), syscall.ESRCH)
	})
}

// TestHangs: while a child that was given up is not gone, the same is refused, and nothing else.
func TestHangs(t *testing.T) {
	a := Children{Command: Command}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first := Call{Op: "check", Path: "/mnt"}
	me := check.Value(a.enter(ended, &first))(t)
	me.pid = 4711
	again := Call{Arg: testArg, Ask: work{Say: "x"}, Op: "check", Path: "/mnt", Queue: NewTurns(0, 0), Read: text(new(string))}
	err := a.Run(t.Context(), &again)
	check.Says(t, err, "hangs in the kernel (pid 4711)", "the same again")
	check.Equal(t, hostcall.KindOf(err), port.Unavailable, "the kind of the error")
	again.Path = "/srv"
	check.Fatal(t, a.Run(t.Context(), &again))
	a.leave(&first, me)
	again.Path = "/mnt"
	check.Fatal(t, a.Run(t.Context(), &again))
}

// TestRunProgram: a program gets what it is given, and what it writes is kept, also if it fails.
func TestRunProgram(t *testing.T) {
	dir := t.TempDir()
	run := func(script string) (string, string, error) {
		var out, complaint strings.Builder
		err := RunProgram(t.Context(), &guard.Program{
			Path: "/bin/sh", Args: []string{"-c", script, "name", "two words"}, Env: []string{"A=b"}, Dir: dir,
			Stdin: []byte("line\n"), PipeDelay: time.Second,
		}, &out, &complaint)
		return out.String(), complaint.String(), err
	}
	out, complaint, err := run(`read -r x; echo "$x $A $1 $(pwd)"; echo why >&2; exit 3`)
	check.Equal(t, out+complaint, "line b two words "+dir+"\nwhy\n", "what it wrote")
	check.Says(t, err, "exit status 3", "one that fails")
	_, _, err = run("sleep 1000 & echo $!")
	check.Says(t, err, "processes that it started did not close its stdout", "one that leaves a process")
	out, _, err = run("sleep 1000 >/dev/null 2>&1 & echo $!")
	check.Fatal(t, err)
	pid := check.Value(strconv.Atoi(strings.TrimSpace(out)))(t)
	check.Fatal(t, syscall.Kill(pid, syscall.SIGKILL)) // what closes its pipes goes on
}
