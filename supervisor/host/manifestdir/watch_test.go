package manifestdir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watching starts a Watch and gives a function that waits for a notification
// after what was done before the call.
func watching(t *testing.T, path string, period time.Duration) (changed func(what string)) {
	t.Helper()
	notified := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Watch(ctx, Options{
			Path: path, Period: period, Settle: time.Millisecond,
			Notify: func() {
				select {
				case notified <- struct{}{}:
				default:
				}
			},
			Warn: func(err error) { t.Log(err) },
		})
	}()
	t.Cleanup(func() {
		cancel()
		check.Error(t, <-done)
	})
	changed = func(what string) {
		t.Helper()
		select {
		case <-notified:
		case <-time.After(10 * time.Second):
			t.Fatalf("no notification after %s", what)
		}
	}
	changed("the start")
	return changed
}

const never = time.Hour

func TestWatchADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	check.Fatal(t, os.Mkdir(dir, 0o700))
	file := filepath.Join(dir, "a.yaml")
	changed := watching(t, dir, never)
	write(t, file, "1")
	changed("a new file")
	write(t, file, "2")
	changed("an edit")
	check.Fatal(t, os.WriteFile(dir+"/.tmp", nil, 0o600))
	check.Fatal(t, os.Rename(dir+"/.tmp", file))
	changed("a replacement by rename")
	check.Fatal(t, os.Remove(file))
	changed("a removal")
}

// TestWatchADirectoryThatComesAndGoes waits for the file itself to be
// reported, not just for any notification: the point is that the new directory
// is watched, not only that its coming is seen.
func TestWatchADirectoryThatComesAndGoes(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "etc", "pods")
	changed := watching(t, dir, never)
	// Each notification is of something that was done before; one more edit
	// can only be seen by a watch that is where it should be.
	seen := func(what string) {
		t.Helper()
		changed(what)
		for i := range 3 {
			write(t, filepath.Join(dir, "a.yaml"), strings.Repeat("x", i+1))
			changed("an edit after " + what)
		}
	}
	check.Fatal(t, os.MkdirAll(dir, 0o700))
	seen("the directory was made with its parent")
	check.Fatal(t, os.RemoveAll(filepath.Join(root, "etc")))
	changed("both were removed")
	check.Fatal(t, os.MkdirAll(dir, 0o700))
	seen("both were made again")
	check.Fatal(t, os.Rename(dir, dir+".old"))
	check.Fatal(t, os.Mkdir(dir, 0o700))
	seen("it was replaced")
	check.Fatal(t, os.Rename(dir, dir+".older"))
	check.Fatal(t, os.Symlink(dir+".old", dir))
	seen("it became a link")
	check.Fatal(t, os.Symlink(dir+".older", dir+".link"))
	check.Fatal(t, os.Rename(dir+".link", dir))
	seen("the link was changed")
}

// TestWatchADirectoryMadeAgain: it may have the inode number that the removed one had, and the kernel does not watch it.
func TestWatchADirectoryMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc", "pods")
	check.Fatal(t, os.MkdirAll(dir, 0o700))
	changed := watching(t, dir, never)
	for range 30 {
		check.Fatal(t, os.RemoveAll(filepath.Dir(dir)))
		check.Fatal(t, os.MkdirAll(dir, 0o700))
		changed("it was made again")
		for i := range 3 {
			write(t, filepath.Join(dir, "a.yaml"), strings.Repeat("x", i+1))
			changed("an edit")
		}
	}
}

func TestWatchASingleFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	changed := watching(t, file, never)
	write(t, file, "1")
	changed("its creation")
	check.Fatal(t, os.WriteFile(file+".new", nil, 0o600))
	check.Fatal(t, os.Rename(file+".new", file))
	changed("its replacement")
	check.Fatal(t, os.Remove(file))
	changed("its removal")
}

func TestWatchFallsBackToThePeriod(t *testing.T) {
	changed := watching(t, filepath.Join(t.TempDir(), "none"), time.Millisecond)
	for range 3 {
		changed("a period")
	}
}

func TestWatchOptions(t *testing.T) {
	good := Options{Path: "x", Period: 1, Settle: 1, Notify: func() {}}
	check.Fatal(t, good.Validate())
	for name, change := range map[string]func(*Options){
		"path": func(o *Options) { o.Path = "" }, "period": func(o *Options) { o.Period = 0 },
		"settle": func(o *Options) { o.Settle = 0 }, "notify": func(o *Options) { o.Notify = nil },
	} {
		o := good
		change(&o)
		if Watch(context.Background(), o) == nil {
			t.Errorf("no error without %s", name)
		}
	}
}
