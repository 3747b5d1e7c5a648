package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// built is a directory of programs that is made once and then used by every lab.
type built struct {
	name   string // of the directory, with the version: a newer one is built beside it
	takes  string // how long
	usable func(dir string) bool
	build  func(dir string) error
}

// once gives the directory below .run/bin of the repository, and makes it first if it isn't there
// or not usable. Of processes that want it at the same time one builds and the others wait. Log, if
// not nil, is told.
func (b built) once(ctx context.Context, repository string, log io.Writer) (dir string, err error) {
	bin := filepath.Join(repository, ".run", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	kind, _, _ := strings.Cut(b.name, "-")
	unlock, err := lock(ctx, filepath.Join(bin, kind+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	dir = filepath.Join(bin, b.name)
	if b.usable(dir) {
		return dir, nil
	}
	if log != nil {
		fmt.Fprintf(log, "building %s from its Go module: %s, this once\n", b.name, b.takes)
	}
	fresh, err := os.MkdirTemp(bin, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := b.build(fresh); err != nil {
		return "", fmt.Errorf("build %s: %w", b.name, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Rename(fresh, dir)
}

// output runs a command and returns what it printed, without the space around it. Its error holds
// the end of what the command wrote on stderr.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	path, err := LookPath(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		const enough = 2000
		text := strings.TrimSpace(string(exit.Stderr))
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text[max(0, len(text)-enough):])
	}
	return strings.TrimSpace(string(out)), err
}

// lock takes an exclusive lock on a file, for which it waits, and returns what gives it back.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
