package crilog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// rotating is a log that is written and rotated, as a runtime and an agent do.
type rotating struct {
	path string
	f    *os.File // what the runtime writes to
	at   int
	// stamps are those of the rotated files, oldest first.
	stamps []string
}

func newRotating(t rapid.TB, dir string) *rotating {
	r := &rotating{path: filepath.Join(dir, "0.log")}
	r.reopen(t)
	return r
}

func (r *rotating) reopen(t rapid.TB) {
	if r.f != nil {
		check.Fatal(t, r.f.Close())
	}
	f := check.Value(os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	r.f = f
}

// write writes an entry in one or two pieces, and gives what a reader shows of it.
func (r *rotating) write(t rapid.TB, stream, tag, text string, cut int) string {
	r.at++
	e := start.Add(time.Duration(r.at)*time.Microsecond).Format(time.RFC3339Nano) + " " + stream + " " + tag + " " + text + "\n"
	cut = min(cut, len(e))
	for _, part := range []string{e[:cut], e[cut:]} {
		check.Value(r.f.WriteString(part))(t)
	}
	if tag == "P" {
		return text
	}
	return text + "\n"
}

// rotate renames the current file. The runtime still writes to it.
func (r *rotating) rotate(t rapid.TB) {
	stamp := start.Add(time.Duration(len(r.stamps)) * time.Second).Format("20060102-150405")
	check.Fatal(t, os.Rename(r.path, r.path+"."+stamp))
	r.stamps = append(r.stamps, stamp)
}

// compress replaces all rotated files but the newest, and removes the oldest.
func (r *rotating) compress(t rapid.TB, dir *testing.T, keep int) {
	for i, stamp := range r.stamps {
		name := r.path + "." + stamp
		if i < len(r.stamps)-keep {
			os.Remove(name)         //nolint:errcheck // it may have been before
			os.Remove(name + ".gz") //nolint:errcheck // see above
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil || i == len(r.stamps)-1 {
			continue
		}
		write(dir, name+".tmp.gz", string(text)) // gz, so that it is written compressed
		check.Fatal(t, os.Rename(name+".tmp.gz", name+".gz"))
		check.Fatal(t, os.Remove(name))
	}
}

// TestReadRotating: whatever was rotated, compressed and cut into pieces before it
// is read, broken lines among it, a reader gets each line once, in order.
func TestReadRotating(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRotating(rt, t.TempDir())
		defer func() { check.Fatal(rt, r.f.Close()) }()
		var want strings.Builder
		lines := 0
		for range rapid.IntRange(0, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				r.rotate(rt)
				for range rapid.IntRange(0, 2).Draw(rt, "late") {
					want.WriteString(r.write(rt, "stdout", "F", "late", 99))
					lines++
				}
				r.reopen(rt)
			case 1:
				r.compress(rt, t, 99)
			case 2:
				_, err := r.f.WriteString(rapid.SampledFrom([]string{"\n", "no entry\n", "2026-11-21T10:00:00Z stdin F x\n"}).Draw(rt, "broken"))
				check.Fatal(rt, err)
			case 3: // a line in two parts
				want.WriteString(r.write(rt, "stderr", "P", "begun, ", 7) + r.write(rt, "stderr", "F", "ended", 3))
				lines++
			default:
				text := rapid.StringMatching(`[ a-z]{0,20}`).Draw(rt, "text")
				want.WriteString(r.write(rt, "stdout", "F", text, rapid.IntRange(0, 60).Draw(rt, "cut")))
				lines++
			}
		}
		o := Options{Path: r.path, Stdout: true, Stderr: true}
		all := want.String()
		if rapid.Bool().Draw(rt, "tail") {
			n := int64(rapid.IntRange(0, 45).Draw(rt, "lines"))
			o.Tail = &n
			split := strings.SplitAfter(all, "\n")
			all = strings.Join(split[max(0, lines-int(n)):], "")
		}
		var got strings.Builder
		if err := Read(t.Context(), o, &got); err != nil || got.String() != all {
			rt.Errorf("%v\ngot  %q\nwant %q", err, got.String(), all)
		}
	})
}

// TestReadAfterKill: a rotation did not come to its end. What was rotated is read
// all the same; a follower goes on when the runtime opens a new file.
func TestReadAfterKill(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r := newRotating(t, t.TempDir())
	want := r.write(t, "stdout", "F", "one", 0)
	r.rotate(t)
	want += r.write(t, "stdout", "F", "two", 0)
	o := Options{Path: r.path, Stdout: true, Stderr: true, Watcher: &Watcher{}}
	var got strings.Builder
	if err := Read(t.Context(), o, &got); err != nil || got.String() != want {
		t.Errorf("%v, %q", err, got.String())
	}
	var over atomic.Bool
	var out collected
	done := make(chan error, 1)
	o.Follow, o.Running = true, func(context.Context) bool { return !over.Load() }
	go func() { done <- Read(t.Context(), o, &out) }()
	out.await(t, want)
	want += r.write(t, "stdout", "F", "three", 0)
	r.reopen(t)
	want += r.write(t, "stdout", "F", "four", 0)
	out.await(t, want)
	over.Store(true)
	check.Error(t, <-done)
	check.Fatal(t, r.f.Close())
}

// TestFollowRotating: a log that is rotated many times a second, with compression
// and removal, while the runtime still writes to what was rotated: each follower,
// whenever it came, gets each line once, in order.
func TestFollowRotating(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const followers, rotations = 8, 40
	r := newRotating(t, t.TempDir())
	w := &Watcher{}
	outs := make([]collected, followers)
	var over atomic.Bool
	var all sync.WaitGroup
	follow := func(i int) {
		all.Go(func() {
			err := Read(t.Context(), Options{Path: r.path, Stdout: true, Stderr: true, Follow: true, Watcher: w,
				Running: func(context.Context) bool { return !over.Load() }}, &outs[i])
			if err != nil {
				t.Errorf("follower %d: %v", i, err)
			}
		})
	}
	var want strings.Builder
	line := 0
	more := func(n int) {
		for range n {
			line++
			want.WriteString(r.write(t, "stdout", "P", fmt.Sprintf("line %d ", line), line%50))
			want.WriteString(r.write(t, "stdout", "F", strings.Repeat("z", line%300), line%70))
		}
	}
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for n := range rotations {
		if n < followers {
			follow(n)
		}
		more(50)
		r.rotate(t)
		more(5) // to the old file
		r.reopen(t)
		more(5)
		r.compress(t, t, 30)
		<-pause.C
	}
	more(10)
	over.Store(true)
	all.Wait()
	check.Fatal(t, r.f.Close())
	for i := range outs {
		got, want := strings.SplitAfter(outs[i].String(), "\n"), strings.SplitAfter(want.String(), "\n")
		if !slices.Equal(got, want) {
			k := 0
			for k < len(got) && k < len(want) && got[k] == want[k] {
				k++
			}
			t.Errorf("follower %d: %d lines of %d, first difference at %d", i, len(got), len(want), k)
		}
	}
}
