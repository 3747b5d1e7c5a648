package checkpoints

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// hang keeps a line busy, as a disk does that does not answer, until answers is called.
func hang(l *lines, name string) (answers func()) {
	disk := make(chan struct{})
	l.add(context.Background(), name, call{verb: "Hang", do: func() { <-disk }})
	return func() { close(disk) }
}

// TestHungDisk: however often an actor asks again, there is one goroutine. What was asked for last is made when the disk
// answers, and what was asked for before has its answer at once.
func TestHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := New(dir)
		check.Fatal(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte("old"), 0o600))
		writes, reads := hang(&c.writes, "a"), hang(&c.reads, "a")
		synctest.Wait()
		before := runtime.NumGoroutine()
		const times = 5
		var saved, loaded [times]string
		for i := range times {
			c.Save(t.Context(), "a", fmt.Append(nil, i), func(err error) { saved[i] = answered("", err) })
			c.Load(t.Context(), "a", func(data []byte, err error) { loaded[i] = answered(string(data), err) })
		}
		synctest.Wait()
		check.Equal(t, runtime.NumGoroutine(), before, "goroutines while it hangs")
		for i := range times {
			want := "canceled "
			if i == times-1 {
				want = ""
			}
			check.Equal(t, saved[i], want, "the answer to write %d", i)
			check.Equal(t, loaded[i], want, "the answer to read %d", i)
		}
		reads()
		synctest.Wait()
		check.Equal(t, loaded[times-1], "ok old", "read while a write hangs")
		writes()
		synctest.Wait()
		check.Equal(t, saved[times-1], "ok ", "the answer to the last write")
		check.Equal(t, string(check.Value(c.Read("a"))(t)), fmt.Sprint(times-1), "it")
		check.Equal(t, len(c.writes.waiting)+len(c.reads.waiting), 0, "lines that are kept")
	})
}

// answered is the kind of an error, or ok, and what was read.
func answered(data string, err error) string {
	if err == nil {
		return "ok " + data
	}
	return port.KindOf(err).String() + " " + data
}

// TestOrderOfVerbs: a call takes the place of one of its verb only, and of none of another checkpoint.
func TestOrderOfVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		var made, replaced []string
		answers := hang(&l, "a")
		add := func(name, verb, what string) {
			l.add(t.Context(), name, call{
				verb: verb, do: func() { made = append(made, what) }, replaced: func() { replaced = append(replaced, what) },
			})
		}
		add("a", "Save", "1")
		add("a", "SetAside", "2")
		add("a", "Save", "3")
		add("b", "Save", "of another")
		add("a", "Save", "4")
		synctest.Wait()
		check.Same(t, made, []string{"of another"}, "made while the disk hangs:")
		check.Same(t, replaced, []string{"3"}, "replaced:")
		answers()
		synctest.Wait()
		check.Same(t, made, []string{"of another", "1", "2", "4"}, "made:")
		check.Same(t, replaced, []string{"3"}, "replaced:")
	})
}
