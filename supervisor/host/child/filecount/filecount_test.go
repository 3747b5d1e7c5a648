package filecount

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// child runs this program as a child that counts.
func child(t *testing.T, ask string) ([]Count, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], Arg)
	in, err := cmd.StdinPipe() // its end would end the child
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // it was written to
	var out bytes.Buffer
	cmd.Stdout = &out
	check.Fatal(t, cmd.Start())
	check.Value(in.Write([]byte(ask + "\n")))(t)
	if ask == "" {
		in.Close() //nolint:errcheck // that is the test
	}
	if err := cmd.Wait(); err != nil {
		return nil, err
	}
	return Read(out.Bytes())
}

// files makes a directory: with it, eight entries count, and one more name of a file does not.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, size := range map[string]int{"a": 10_000, "sub/b": 10_000, "sub/skipped/c": 1, "skipped/d": 1, "sub/below/e": 1} {
		hosttest.Write(t, filepath.Join(dir, name), strings.Repeat("x", size))
	}
	for _, err := range []error{
		os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "sub/again")), os.Symlink("/", filepath.Join(dir, "root")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestChild(t *testing.T) {
	dir := files(t)
	for name, c := range map[string]struct {
		change func(*Request)
		want   []uint64
	}{
		"all":                  {func(*Request) {}, []uint64{9, 0}},
		"no time for any":      {func(r *Request) { r.Budget = -1 }, []uint64{0, 0}},
		"no time for one":      {func(r *Request) { r.Slice = -1 }, []uint64{9, 0}}, // few files are always counted
		"of another disk":      {func(r *Request) { r.Home = "/proc" }, []uint64{0, 0}},
		"of a disk not there":  {func(r *Request) { r.Home = dir + "/none" }, []uint64{0, 0}},
		"another order":        {func(r *Request) { r.Trees[0], r.Trees[1] = r.Trees[1], r.Trees[0] }, []uint64{0, 9}},
		"with what is skipped": {func(r *Request) { r.Trees[0].Skip = nil }, []uint64{11, 0}},
		"a file":               {func(r *Request) { r.Trees[0].Path = dir + "/a" }, []uint64{1, 0}},
	} {
		r := Request{
			Home: dir, Trees: []Tree{{Path: dir, Skip: []string{"skipped"}}, {Path: dir + "/none"}}, Slice: time.Minute, Budget: time.Minute,
		}
		c.change(&r)
		raw := check.Value(json.Marshal(r))(t)
		counts, err := child(t, string(raw))
		if err != nil || len(counts) != len(r.Trees) {
			t.Fatalf("%s: %v %+v", name, err, counts)
		}
		for i, got := range counts {
			if got.Left != (name == "no time for any") || got.Partial || got.Entries != c.want[i] || got.Walked != (c.want[i] > 0) || got.Entries == 9 && (got.Bytes < 20_000 || got.Bytes > 80_000) {
				t.Errorf("%s: tree %d has %+v, want %d entries", name, i, got, c.want[i])
			}
		}
	}
	for _, ask := range []string{"", "nonsense"} {
		check.Fails(t, check.Err(child(t, ask)), "asked %q, it gave an answer", ask)
	}
}

// What a child wrote before it failed counts.
func TestRead(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "{}\n": 1, `{"Walked":true}` + "\n" + `{"Wal`: -1, "{}\n{}": 2, "nonsense": -1,
	} {
		got, err := Read([]byte(text))
		if (err != nil) != (want < 0) || err == nil && len(got) != want || strings.Contains(text, "Walked") && len(got) != 1 {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
