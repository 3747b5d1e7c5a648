package nodelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/actors/rescue"
)

const (
	// maxUnits is the most that is read of the names of units.
	maxUnits = 4 << 20
	// killSlack is how long an answer waits for a killed journalctl.
	killSlack = 2 * time.Second
)

// journal runs journalctl for one request.
type journal struct {
	// free gives the slot of the request back. A journalctl that does not die, because it hangs in the
	// kernel, keeps it.
	free    func()
	running sync.WaitGroup
}

// over says that the request has ended.
func (j *journal) over() {
	rescue.Go(context.Background(), func() {
		j.running.Wait()
		j.free()
	}, rescue.Answered)
}

// units are the names of all units that have written to the journal.
func (j *journal) units(ctx context.Context) (map[string]bool, error) {
	var text bytes.Buffer
	if err := j.copy(ctx, &limited{&text, maxUnits}, []string{"--field=_SYSTEMD_UNIT"}); err != nil {
		return nil, errors.Join(err, firstLine(text.String()))
	}
	all := map[string]bool{}
	for line := range strings.Lines(text.String()) {
		all[strings.TrimSpace(line)] = true
	}
	return all, nil
}

func firstLine(text string) error {
	if line, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); line != "" {
		return errors.New(line)
	}
	return nil
}

// copy runs journalctl and writes to w what it says, on stderr too. It ends with ctx, and then the process
// group is killed.
func (j *journal) copy(ctx context.Context, w io.Writer, args []string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close() //nolint:errcheck // a pipe
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", write, write
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Start()
	write.Close() //nolint:errcheck // the child has its own
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	j.running.Go(func() {
		defer rescue.Call(ctx, func(reason string) { ended <- errors.New(reason) })
		ended <- cmd.Wait()
	})
	// A process that it left behind may hold the pipe.
	defer context.AfterFunc(ctx, func() { read.Close() })() //nolint:errcheck // a pipe
	if _, err := io.Copy(w, read); err != nil && ctx.Err() == nil {
		return fmt.Errorf("reading from journalctl: %w", err)
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-ended: //nolint:errcheck // it was killed
	case <-time.After(killSlack):
	}
	return ctx.Err()
}

// limited is a buffer that refuses more than a limit.
type limited struct {
	*bytes.Buffer
	most int
}

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > l.most {
		return 0, fmt.Errorf("more than %d bytes", l.most)
	}
	return l.Buffer.Write(b)
}
