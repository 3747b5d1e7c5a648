package lab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/mod/modfile"

	"github.com/troupe-dev/troupe/tests/check"
)

// built is a directory of programs of other Go modules that is made once and then used by every lab.
type built struct {
	name     string   // of the directory, with the version: a newer one is built beside it
	takes    string   // how long
	module   string   // the directory of its go.mod, below the repository
	programs []string // what is in the directory then
	tests    bool     // the one program is of the tests of its package
	// env and args, of go build, make the programs, of packages. Where there is only one it gets its name by -o.
	env, args, packages []string
}

// dir is .run/bin/<name>-<hash> of the repository, of all that the programs depend on. It is made first if it isn't there. Of
// processes that want it at the same time one builds and the others wait. Log, if not nil, is told.
func (b built) dir(ctx context.Context, repository string, log io.Writer) (dir string, err error) {
	how := append(append([]string{runtime.Version(), runtime.GOARCH}, b.env...), append(b.args, b.packages...)...)
	name := fmt.Sprintf("%s-%.4x", b.name, sha256.Sum256([]byte(strings.Join(how, "\n"))))
	dir = filepath.Join(repository, ".run/bin", name)
	return remember(dir, func() (string, error) { return dir, b.make(ctx, repository, dir, log) })
}

func (b built) make(ctx context.Context, repository, dir string, log io.Writer) (err error) {
	defer check.Return(&err)
	bin := filepath.Dir(dir)
	check.OK(os.MkdirAll(bin, 0o755))
	kind, _, _ := strings.Cut(b.name, "-")
	unlock := check.Must(lock(ctx, filepath.Join(bin, kind+".lock")))
	defer unlock()
	// It is renamed into place when it is complete.
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if log != nil {
		fmt.Fprintf(log, "building %s from its Go module: %s, this once\n", b.name, b.takes)
	}
	fresh := check.Must(os.MkdirTemp(bin, "building-"))
	defer os.RemoveAll(fresh)
	check.OK(os.Chmod(fresh, 0o755))
	to := fresh + "/"
	if len(b.programs) == 1 {
		to += b.programs[0]
	}
	args := []string{"build"}
	if b.tests {
		args = []string{"test", "-c", "-vet=off"}
	}
	args = append(append(args, "-trimpath", "-buildvcs=false"), b.args...)
	args = append(append(args, "-o", to), b.packages...)
	if _, err := output(ctx, filepath.Join(repository, b.module), b.env, "go", args...); err != nil {
		return fmt.Errorf("build %s: %w", b.name, err)
	}
	for _, program := range b.programs {
		if _, err := os.Stat(filepath.Join(fresh, program)); err != nil {
			return fmt.Errorf("build %s: %w", b.name, err)
		}
	}
	return os.Rename(fresh, dir)
}

// withoutC builds static programs. All that are built so share the packages that they have in common, with each other and with
// the agent.
var withoutC = []string{"CGO_ENABLED=0"}

// modules reads the go.mod of a directory below the repository.
func modules(repository, dir string) (*modfile.File, error) {
	path := filepath.Join(repository, dir, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(path, text, nil)
}

// versionOf is the version that a go.mod wants of the module that has a package.
func versionOf(file *modfile.File, pkg string) (string, error) {
	longest, version := "", ""
	for _, r := range file.Require {
		if at := r.Mod.Path; len(at) > len(longest) && strings.HasPrefix(pkg+"/", at+"/") {
			longest, version = at, r.Mod.Version
		}
	}
	if version == "" {
		return "", fmt.Errorf("%s has no version of %s", file.Syntax.Name, pkg)
	}
	return strings.TrimPrefix(version, "v"), nil
}

// version is the version, without its v, of a module in the go.mod of a directory below the repository.
func version(repository, dir, module string) (string, error) {
	file, err := modules(repository, dir)
	if err != nil {
		return "", err
	}
	return versionOf(file, module)
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
