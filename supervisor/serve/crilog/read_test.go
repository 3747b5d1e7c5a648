package crilog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

var start = time.Date(2026, 11, 21, 10, 0, 0, 5, time.UTC)

// entry is one of a log, n seconds after start.
func entry(n int, stream, tag, text string) string {
	return start.Add(time.Duration(n)*time.Second).Format(time.RFC3339Nano) + " " + stream + " " + tag + " " + text + "\n"
}

func write(t *testing.T, path, text string) {
	t.Helper()
	data := []byte(text)
	if strings.HasSuffix(path, ".gz") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(data)
		z.Close()
		data = b.Bytes()
	}
	check.Fatal(t, os.WriteFile(path, data, 0o600))
}

func add(t *testing.T, path, text string) {
	t.Helper()
	f := check.Value(os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
	defer f.Close()
	check.Value(f.WriteString(text))(t)
}

func n(v int64) *int64 { return &v }

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.log")
	write(t, path+".20261121-100000.gz", entry(0, "stdout", "F", "a")+entry(1, "stdout", "F", "b"))
	write(t, path+".20261121-100500", entry(2, "stderr", "F", "c")+entry(3, "stdout", "P", "d1"))
	write(t, path+".20261121-100500.gz.tmp", "half")
	write(t, path+".bak", entry(9, "stdout", "F", "nothing of ours"))
	write(t, path, entry(4, "stdout", "F", "-d2")+"no entry\n"+entry(5, "stdout", "F:x", "")+"\n"+
		entry(6, "stderr", "P", "e1")+entry(7, "stderr", "P", "-e2")+entry(8, "stderr", "F", "-e3")+
		strings.TrimSuffix(entry(9, "stdout", "F", "no end"), "\n"))
	both := Options{Path: path, Stdout: true, Stderr: true}
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"all", func(*Options) {}, "a\nb\nc\nd1-d2\n\ne1-e2-e3\nno end"},
		{"stdout", func(o *Options) { o.Stderr = false }, "a\nb\nd1-d2\n\nno end"},
		{"stderr", func(o *Options) { o.Stdout = false }, "c\ne1-e2-e3\n"},
		{"since", func(o *Options) { o.Since = start.Add(5 * time.Second) }, "\ne1-e2-e3\nno end"},
		{"none", func(o *Options) { o.Tail = n(0) }, ""},
		{"the last", func(o *Options) { o.Tail = n(1) }, "no end"},
		{"two", func(o *Options) { o.Tail = n(2) }, "e1-e2-e3\nno end"},
		{"four, over two files", func(o *Options) { o.Tail = n(4) }, "d1-d2\n\ne1-e2-e3\nno end"},
		{"five", func(o *Options) { o.Tail = n(5) }, "c\nd1-d2\n\ne1-e2-e3\nno end"},
		{"six, of what is compressed", func(o *Options) { o.Tail = n(6) }, "b\nc\nd1-d2\n\ne1-e2-e3\nno end"},
		{"more than there are", func(o *Options) { o.Tail = n(99) }, "a\nb\nc\nd1-d2\n\ne1-e2-e3\nno end"},
		{"so many bytes", func(o *Options) { o.Limit = n(5) }, "a\nb\nc"},
		{"with times", func(o *Options) { o.Stamps, o.Tail = true, n(3) },
			"2026-11-21T10:00:05.000000005Z \n2026-11-21T10:00:06.000000005Z e1-e2-e3\n2026-11-21T10:00:09.000000005Z no end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := both
			tt.change(&o)
			var got strings.Builder
			check.Fatal(t, Read(t.Context(), o, &got))
			check.Equal(t, got.String(), tt.want, "got")
		})
	}
	if err := Read(t.Context(), Options{Path: filepath.Join(dir, "1.log")}, &strings.Builder{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a log that is not there: %v", err)
	}
	check.Fails(t, Read(t.Context(), Options{Path: dir}, &strings.Builder{}), "a directory is no error")
	// What is left of a compressed file that was cut off is shown.
	whole, _ := os.ReadFile(path + ".20261121-100000.gz")
	check.Fatal(t, os.WriteFile(path+".20261121-100000.gz", whole[:len(whole)-9], 0o600))
	var got strings.Builder
	if err := Read(t.Context(), both, &got); err != nil || !strings.HasSuffix(got.String(), "c\nd1-d2\n\ne1-e2-e3\nno end") {
		t.Errorf("%v, %q", err, got.String())
	}
}

// TestTailOfBigFiles: the beginnings of lines are found over blocks.
func TestTailOfBigFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	var text, lines []string
	for i := range 3000 {
		line := strings.Repeat("x", i%700) + fmt.Sprint(i)
		lines = append(lines, line+"\n")
		text = append(text, entry(i, "stdout", "F", line))
	}
	for name, path := range map[string]string{"plain": path, "compressed": path + ".20261121-100000.gz"} {
		write(t, filepath.Join(filepath.Dir(path), "0.log"), "")
		write(t, path, strings.Join(text, ""))
		for _, tail := range []int64{0, 1, 2, 57, 1000, 2999, 3000, 3001} {
			var got strings.Builder
			check.Fatal(t,
				Read(t.Context(), Options{Path: filepath.Join(filepath.Dir(path), "0.log"), Stdout: true, Tail: &tail}, &got))
			if want := strings.Join(lines[max(0, 3000-int(tail)):], ""); got.String() != want {
				t.Errorf("%s: the last %d lines: %d bytes, want %d", name, tail, got.Len(), len(want))
			}
		}
		remove(t, path)
	}
}

// collected is what a reader wrote, for others to look at.
type collected struct {
	mu sync.Mutex
	b  []byte
}

func (c *collected) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.b = append(c.b, b...)
	return len(b), nil
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.b)
}

func (c *collected) await(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); c.String() != want; {
		if time.Now().After(deadline) {
			t.Fatalf("got  %q\nwant %q", c.String(), want)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestFollow: what is written is read at once, over rotations and compressions;
// it ends with the container, and not before all is read.
func TestFollow(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for name, w := range map[string]*Watcher{"watched": {}, "not watched": nil} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "0.log")
			write(t, path, entry(0, "stdout", "F", "a"))
			var out collected
			var over atomic.Bool
			done := make(chan error, 1)
			go func() {
				done <- Read(t.Context(), Options{Path: path, Stdout: true, Stderr: true, Follow: true, Watcher: w,
					Running: func(context.Context) bool { return !over.Load() }}, &out)
			}()
			out.await(t, "a\n")
			add(t, path, entry(1, "stdout", "P", "b")[:40]) // half of an entry
			out.await(t, "a\n"+entry(1, "stdout", "P", "b")[len(start.Format(time.RFC3339Nano))+10:40])
			add(t, path, entry(1, "stdout", "P", "b")[40:]+entry(2, "stdout", "F", "c"))
			out.await(t, "a\nbc\n")
			// Renamed; the runtime still writes to it, opens a new one, and once more
			// writes to the old one.
			first := path + ".20261121-110000"
			check.Fatal(t, os.Rename(path, first))
			add(t, first, entry(3, "stdout", "F", "d"))
			out.await(t, "a\nbc\nd\n")
			add(t, path, entry(5, "stdout", "F", "f"))
			add(t, first, entry(4, "stdout", "F", "e"))
			out.await(t, "a\nbc\nd\ne\nf\n")
			// Two rotations before it looks: the first of them is compressed by then.
			write(t, first+".gz", entry(0, "stdout", "F", "a"))
			remove(t, first)
			second, third := path+".20261121-120000", path+".20261121-130000"
			check.Fatal(t, os.Rename(path, second))
			write(t, third, entry(6, "stdout", "F", "g"))
			old, _ := os.ReadFile(second)
			write(t, second+".gz", string(old))
			remove(t, second)
			add(t, path, entry(7, "stdout", "F", "h"))
			out.await(t, "a\nbc\nd\ne\nf\ng\nh\n")
			add(t, path, entry(8, "stderr", "F", "i"))
			over.Store(true)
			check.Error(t, <-done)
			out.await(t, "a\nbc\nd\ne\nf\ng\nh\ni\n")
		})
	}
}

func TestFollowEndsWithItsReader(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(0, "stdout", "F", "a"))
	ctx, cancel := context.WithCancel(t.Context())
	var out collected
	done := make(chan error, 1)
	o := Options{Path: path, Stdout: true, Follow: true, Watcher: &Watcher{}, Running: func(context.Context) bool { return true }}
	go func() { done <- Read(ctx, o, &out) }()
	out.await(t, "a\n")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := Read(t.Context(), o, noReader{}); !errors.Is(err, errGone) {
		t.Error(err)
	}
}

var errGone = errors.New("the client is gone")

type noReader struct{}

func (noReader) Write([]byte) (int, error) { return 0, errGone }

// TestManyFollowers: 200 logs that are written fast and rotated meanwhile, byte
// for byte.
func TestManyFollowers(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const logs, rounds = 200, 30
	dir := t.TempDir()
	w := &Watcher{}
	outs := make([]collected, logs)
	var over atomic.Bool
	var all sync.WaitGroup
	for i := range logs {
		path := filepath.Join(dir, fmt.Sprint(i), "0.log")
		check.Fatal(t, os.Mkdir(filepath.Dir(path), 0o700))
		write(t, path, "")
		all.Go(func() {
			o := Options{Path: path, Stdout: true, Stderr: true, Follow: true, Watcher: w,
				Running: func(context.Context) bool { return !over.Load() }}
			check.Error(t, Read(t.Context(), o, &outs[i]))
		})
	}
	var want strings.Builder
	for round := range rounds {
		var text strings.Builder
		for line := range 20 {
			s := fmt.Sprintf("round %d line %d %s", round, line, strings.Repeat("y", round*7))
			text.WriteString(entry(round, "stdout", "P", s) + entry(round, "stdout", "F", "."))
			want.WriteString(s + ".\n")
		}
		for i := range logs {
			path := filepath.Join(dir, fmt.Sprint(i), "0.log")
			add(t, path, text.String())
			if (round+i)%10 == 9 {
				check.Fatal(t, os.Rename(path, fmt.Sprintf("%s.20261121-1000%02d", path, round)))
				write(t, path, "")
			}
		}
	}
	over.Store(true)
	all.Wait()
	for i := range outs {
		if got := outs[i].String(); got != want.String() {
			t.Fatalf("log %d: %d bytes, want %d", i, len(got), want.Len())
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	check.Fatal(t, os.Remove(path))
}
