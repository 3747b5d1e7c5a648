// Package filecount counts what directories take of a disk, in child processes that cost little to start: it imports
// only what package served allows.
package filecount

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/child/served"
)

// Arg is the first argument of a child that counts. No user passes it.
const Arg = "__host-count"

// Tree is a directory to count.
type Tree struct {
	Path string `json:"path"`
	// Skip are names of directories in it that don't count.
	Skip []string `json:"skip,omitempty"`
}

// Request is what a child reads from its stdin. What is not on the file system of Home counts nothing. Trees are
// counted in their order: each for Slice at most, and none is begun once Budget has passed.
type Request struct {
	Home   string        `json:"home,omitempty"`
	Trees  []Tree        `json:"trees,omitempty"`
	Slice  time.Duration `json:"slice,omitempty"`
	Budget time.Duration `json:"budget,omitempty"`
}

// Count is what is below a directory. A child writes one to its stdout for each tree, as soon as it has it.
type Count struct {
	// Walked: it was there.
	Walked bool `json:",omitempty"`
	// Partial: not all could be counted, so the rest is a lower bound. Left: it was not begun, and nothing is known.
	Partial bool   `json:",omitempty"`
	Left    bool   `json:",omitempty"`
	Bytes   uint64 `json:",omitempty"`
	Entries uint64 `json:",omitempty"`
	// Took is how long it took to count.
	Took time.Duration `json:",omitempty"`
}

// Read is what a child has written: the counts of the first trees, of all if it did not fail.
func Read(stdout []byte) (out []Count, err error) {
	for d := json.NewDecoder(bytes.NewReader(stdout)); ; {
		var c Count
		switch err := d.Decode(&c); err {
		case nil:
			out = append(out, c)
		case io.EOF:
			return out, nil
		default:
			return out, err
		}
	}
}

func init() { served.Serve(Arg, (*Request).count) }

func (r *Request) count(tell func(any) error) error {
	var top unix.Stat_t
	there := unix.Lstat(r.Home, &top) == nil
	end := time.Now().Add(r.Budget)
	for _, t := range r.Trees {
		began, c := time.Now(), Count{}
		switch {
		case began.After(end):
			c.Left = true
		case there:
			c = Walk{Device: &top.Dev, Skip: t.Skip, End: began.Add(r.Slice)}.Of(t.Path)
			c.Took = time.Since(began)
		}
		if err := tell(c); err != nil {
			return err
		}
	}
	return nil
}
