package trace

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

var header = Header{Program: "v1", Seed: 7, Nodes: 10, Scenario: "name: x\n", ScenarioName: "x.yaml", Every: time.Minute}

func record(t check.Test, beats []Beat) []byte {
	var out bytes.Buffer
	w := check.Value(NewWriter(&out, header))(t)
	for _, b := range beats {
		check.Fatal(t, w.Beat(b))
	}
	check.Fatal(t, w.Close())
	return out.Bytes()
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var beats []Beat
		last := Beat{}
		for range rapid.IntRange(0, 50).Draw(t, "beats") {
			last = Beat{
				At:       last.At + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "time")),
				Messages: last.Messages + rapid.Uint64Range(0, 1<<40).Draw(t, "messages"),
				Hash:     rapid.Uint64Min(1).Draw(t, "hash"),
			}
			beats = append(beats, last)
		}
		r, err := NewReader(bytes.NewReader(record(t, beats)))
		if err != nil || r.Header != header {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, b := range beats {
			check.Fatal(t, r.Check(b))
		}
		check.Fatal(t, r.End())
	})
}

func TestDifference(t *testing.T) {
	beats := []Beat{{time.Minute, 10, 1}, {2 * time.Minute, 20, 2}}
	data := record(t, beats)
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	check.Fatal(t, r.Check(beats[0]))
	err = r.Check(Beat{2 * time.Minute, 21, 3})
	d, ok := errors.AsType[*Difference](err)
	if !ok || d.After != time.Minute || d.Recorded != beats[1] || !strings.Contains(err.Error(), "between 1m0s and 2m0s of simulated time") {
		t.Errorf("got %v", err)
	}
	check.Says(t, r.Check(beats[1]), "the recording ends at 2m0s", "got")
	r = check.Value(NewReader(bytes.NewReader(data)))(t)
	check.Says(t, r.End(), "the recording continues at 1m0s", "got")
}

func TestBroken(t *testing.T) {
	good := record(t, []Beat{{time.Minute, 10, 1}})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":           {nil, "this is not a recording"},
		"something else":  {[]byte("PK\x03\x04 zip\n"), "this is not a recording"},
		"a later version": {[]byte("troupe-trace 2\nx"), `recording in format "2"`},
		"cut":             {good[:len(good)-9], "the recording is truncated"},
		"cut at once":     {good[:20], "the recording is truncated"},
		"not packed":      {[]byte("troupe-trace 1\nnonsense in here"), "the recording is damaged"},
	} {
		r, err := NewReader(bytes.NewReader(c.data))
		for err == nil {
			_, err = r.Next()
		}
		if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %s", name, err, c.want)
		}
	}
}

// A recording that was interrupted says so, and is whole for what it has.
func TestInterrupted(t *testing.T) {
	beat := Beat{time.Minute, 10, 1}
	var out bytes.Buffer
	w := check.Value(NewWriter(&out, header))(t)
	check.Fatal(t, errors.Join(w.Beat(beat), w.Interrupted(), w.Close()))
	r, err := NewReader(&out)
	if err != nil || !r.Interrupted || r.Over() || r.Last() != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := r.Check(beat); err != nil || !r.Over() || r.Last() != time.Minute {
		t.Errorf("%v, %+v", err, r)
	}
	whole, err := NewReader(bytes.NewReader(record(t, []Beat{beat, beat})))
	if err != nil || whole.Interrupted {
		t.Errorf("%+v, %v", whole, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(record(f, []Beat{{time.Minute, 10, 1}, {time.Hour, 10, 2}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(bytes.NewReader(data))
		for last := (Beat{}); err == nil; {
			var b Beat
			if b, err = r.Next(); err == nil && (b.At < last.At || b.Messages < last.Messages) {
				t.Fatalf("%+v after %+v", b, last)
			}
			last = b
		}
	})
}
