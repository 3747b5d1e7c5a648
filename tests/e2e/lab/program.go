package lab

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// BuildTime is enough for the programs that a test is the first to need, on a machine that builds others beside them.
const BuildTime = 30 * time.Minute

// ownProgram is a program of this repository.
type ownProgram struct {
	name   string // of its file
	module string // the directory of its go.mod, below the repository
	pkg    string // below module
	raced  bool   // with the race detector, which wants cgo and a C compiler
}

// BuildTroupe builds the agent and returns its path. With raced it has the race detector, which wants a C compiler.
func BuildTroupe(ctx context.Context, repository string, raced bool) (path string, err error) {
	return ownProgram{name: "troupe", pkg: "./cmd/troupe", raced: raced}.build(ctx, repository)
}

// BuildGuest builds the program of tests/e2e/vm/guest and returns its path.
func BuildGuest(ctx context.Context, repository string) (path string, err error) {
	return ownProgram{name: "guest", module: e2eDir, pkg: "./vm/guest"}.build(ctx, repository)
}

// BuildUp builds the program of tests/e2e/cmd/up and returns its path.
func BuildUp(ctx context.Context, repository string) (path string, err error) {
	return ownProgram{name: "up", module: e2eDir, pkg: "./cmd/up"}.build(ctx, repository)
}

// build returns the path of the program, .run/bin/<name>-<hash>/<name>. The hash is that of the program, so that who runs one
// is not disturbed by who builds another later. Where nothing has changed it costs Go's look at the sources, once in a
// process.
func (p ownProgram) build(ctx context.Context, repository string) (path string, err error) {
	return remember(p.title()+" of "+repository, func() (string, error) { return p.link(ctx, repository) })
}

// title is the name of what is built: builds of a program that differ have different ones.
func (p ownProgram) title() string {
	if p.raced {
		return p.name + "-race"
	}
	return p.name
}

// link builds the program where Go finds it again: it does not link what is there already, from the same sources.
func (p ownProgram) link(ctx context.Context, repository string) (path string, err error) {
	defer check.Return(&err)
	at := filepath.Join(repository, ".run/link", p.title())
	check.OK(os.MkdirAll(at, 0o755))
	unlock := check.Must(lock(ctx, at+".lock"))
	defer unlock()
	linked := filepath.Join(at, p.name)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", linked}
	env := []string{"CGO_ENABLED=0", "GOOS=linux"}
	if p.raced {
		args, env = append(args, "-race"), []string{"CGO_ENABLED=1", "GOOS=linux"}
	}
	if _, err := output(ctx, filepath.Join(repository, p.module), env, "go", append(args, p.pkg)...); err != nil {
		return "", fmt.Errorf("build %s: %w", p.title(), err)
	}
	return p.keep(filepath.Join(repository, ".run/bin"), linked)
}

const (
	hashDigits = 16
	// keptUnused is for how long a program is kept that nobody builds again: longer than any run of tests.
	keptUnused = 24 * time.Hour
)

// keep copies what was linked to below bin.
func (p ownProgram) keep(bin, linked string) (path string, err error) {
	defer check.Return(&err)
	text := check.Must(os.ReadFile(linked))
	dir := filepath.Join(bin, fmt.Sprintf("%s-%.*x", p.title(), hashDigits/2, sha256.Sum256(text)))
	path = filepath.Join(dir, p.name)
	now := time.Now()
	if os.Chtimes(dir, now, now) == nil {
		return path, nil
	}
	check.OK(os.MkdirAll(bin, 0o755))
	fresh := check.Must(os.MkdirTemp(bin, "building-"))
	defer os.RemoveAll(fresh)
	// Anybody may run it: some tests are others than root.
	check.OK(os.Chmod(fresh, 0o755))
	check.OK(os.WriteFile(filepath.Join(fresh, p.name), text, 0o755))
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(path); there != nil { // else another checkout, with the same .run/bin, was faster
			return "", err
		}
	}
	return path, p.prune(bin, now.Add(-keptUnused))
}

// prune removes the program's builds that were last used before.
func (p ownProgram) prune(bin string, before time.Time) (err error) {
	defer check.Return(&err)
	all := check.Must(os.ReadDir(bin))
	ours := regexp.MustCompile(fmt.Sprintf("^%s-[0-9a-f]{%d}$", regexp.QuoteMeta(p.title()), hashDigits))
	for _, entry := range all {
		if !ours.MatchString(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.ModTime().Before(before) {
			check.OK(os.RemoveAll(filepath.Join(bin, entry.Name())))
		}
	}
	return nil
}

// remembered is what this process has built, or found to be built.
var remembered sync.Map // *memo by key

type memo struct {
	sync.Mutex
	known bool
	value any
}

// remember gives what build gave the first time that it did not fail. Of those who want the same one builds, and the others
// wait.
func remember[T any](key string, build func() (T, error)) (T, error) {
	kept, _ := remembered.LoadOrStore(key, &memo{})
	m := kept.(*memo)
	m.Lock()
	defer m.Unlock()
	if m.known {
		return m.value.(T), nil
	}
	value, err := build()
	m.known, m.value = err == nil, value
	return value, err
}
