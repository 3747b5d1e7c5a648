package manifestdir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watching starts a Watch and gives a function that waits for a notification
// after what was done before the call.
func watching(t *testing.T, path string, period time.Duration) (changed func(what string)) {
	t.Helper()
	return returning(t, path, period, func([]string) {})
}

// returning does so, and tells of files that are removed and made again.
func returning(t *testing.T, path string, period time.Duration, back func([]string)) (changed func(what string)) {
	t.Helper()
	notified := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Watch(ctx, Options{
			Path: path, Period: period, Settle: time.Millisecond,
			Notify: func(again []string) {
				back(again)
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

// TestReturns: a file that was removed or moved away, and is there again, is told as such, however soon. One that was
// replaced is not.
func TestReturns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	check.Fatal(t, os.Mkdir(dir, 0o700))
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a", "b", "c", "d", "last"} {
		write(t, at(name), name)
	}
	told := make(chan string, 100)
	returning(t, dir, never, func(again []string) {
		for _, name := range again {
			told <- filepath.Base(name)
		}
	})
	replace := func(name string) {
		write(t, at(".new"), name)
		check.Fatal(t, os.Rename(at(".new"), at(name)))
	}
	exchange := func(name string) {
		write(t, dir+".other", name)
		check.Fatal(t, unix.Renameat2(unix.AT_FDCWD, dir+".other", unix.AT_FDCWD, at(name), unix.RENAME_EXCHANGE))
	}
	for _, c := range []struct {
		what, want string
		do         func()
	}{
		{"a removal, and the same content", "a", func() { check.Fatal(t, os.Remove(at("a"))); write(t, at("a"), "a") }},
		{"twice", "a a", func() {
			for range 2 {
				check.Fatal(t, os.Remove(at("a")))
				write(t, at("a"), "a")
			}
		}},
		{"away and back", "b", func() {
			check.Fatal(t, os.Rename(at("b"), dir+".b"))
			check.Fatal(t, os.Rename(dir+".b", at("b")))
		}},
		{"a replacement by rename", "", func() { replace("c") }},
		{"an exchange", "", func() { exchange("c") }},
		{"an edit", "", func() { write(t, at("c"), "other") }},
		{"a removal, and a file put in its place", "d", func() { check.Fatal(t, os.Remove(at("d"))); replace("d") }},
		{"a new file", "", func() { write(t, at("e"), "e") }},
	} {
		c.do()
		check.Fatal(t, os.Remove(at("last"))) // events come in order: what is told before it is of the case
		write(t, at("last"), "last")
		var got []string
		for {
			name := check.Receive(t, told)
			if name == "last" {
				break
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q are back, want %q", c.what, got, c.want)
		}
	}
}

// TestReturnsAreForgotten: of a file that is missing for two periods, nobody is told that it was missing.
func TestReturnsAreForgotten(t *testing.T) {
	var r returns
	event := func(op fsnotify.Op) { r.follow(fsnotify.Event{Name: "/none/a", Op: op}) }
	event(fsnotify.Remove)
	r.age()
	event(fsnotify.Create)
	if got := r.take(); len(got) != 1 {
		t.Errorf("%q are back within two periods", got)
	}
	event(fsnotify.Rename)
	r.age()
	r.age()
	event(fsnotify.Create)
	if got := r.take(); len(got) != 0 || len(r.gone) != 0 {
		t.Errorf("%q are back, %d are missing", got, len(r.gone))
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
	good := Options{Path: "x", Period: 1, Settle: 1, Notify: func([]string) {}}
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
