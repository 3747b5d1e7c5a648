package child

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"

	"github.com/troupe-dev/troupe/supervisor/host/child/guard"
)

// RunProgram runs a program of somebody else, and waits for its end. It is killed when ctx ends, and when this process
// does, with what it has started. stdout and stderr get what it writes, also if it fails; they bound what they keep.
// The error is nil if it exited with status 0; it is for people.
func RunProgram(ctx context.Context, p *guard.Program, stdout, stderr io.Writer) error {
	ask, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var end guard.Said
	read := func(out io.Reader) error {
		for lines := json.NewDecoder(out); !end.Ended; {
			end = guard.Said{}
			if err := lines.Decode(&end); err != nil {
				return err
			}
			_, outErr := stdout.Write(end.Stdout)
			_, err := stderr.Write(end.Stderr)
			if err = errors.Join(outErr, err); err != nil {
				return err
			}
		}
		return nil
	}
	e := exchange{
		command: Command(guard.Arg), ask: ask, read: read, most: math.MaxInt64, started: func(int) {}, gone: func() {},
	}
	if err := e.run(ctx); err != nil {
		return err
	}
	if end.Failure != "" {
		return errors.New(end.Failure)
	}
	return nil
}
