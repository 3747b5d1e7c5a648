package lockfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// take is Take without a wait.
func take(t *testing.T, path string) *File {
	t.Helper()
	return check.Value(Take(t.Context(), path, func() { t.Errorf("it waits for %s", path) }))(t)
}

func closes(t *testing.T, f *File) {
	t.Helper()
	check.Fatal(t, f.Close())
}

// TestTurns: the second one waits until the first one has ended.
func TestTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := take(t, path)
	waits, took := make(chan struct{}), make(chan *File)
	go func() {
		second, err := Take(t.Context(), path, func() { close(waits) })
		if err != nil {
			t.Error(err)
		}
		took <- second
	}()
	<-waits
	select {
	case <-took:
		t.Fatal("two have the lock")
	default:
	}
	closes(t, first)
	second := <-took
	closes(t, second)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != permission {
		t.Errorf("%v, %v", info, err)
	}
}

func TestWaitEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	defer closes(t, take(t, path))
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Take(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestCannotBeTaken(t *testing.T) {
	if _, err := Take(t.Context(), filepath.Join(t.TempDir(), "none", "lock"), func() {}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestContended: one who opens the file is noticed, also one who only waits for it.
func TestContended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := take(t, path)
	contended := check.Value(f.Contended())(t)
	select {
	case <-contended:
		t.Fatal("nobody has opened it")
	default:
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Take(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-contended
	closes(t, f)
}

// TestNotContended: the end of the lock is not contention, and nothing is left of the watch (goleak).
func TestNotContended(t *testing.T) {
	f := take(t, filepath.Join(t.TempDir(), "lock"))
	contended := check.Value(f.Contended())(t)
	closes(t, f)
	select {
	case <-contended:
		t.Error("it says that somebody has opened it")
	default:
	}
}
