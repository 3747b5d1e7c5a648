package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// A mark is a file on the host to which a pod's program appends a line as the first thing it does.
// So the file's size is how often the program started and its modification time when it did so the
// last time: nobody needs to be asked, and nothing is disturbed by looking.

// Mark is how often a program started, and when the last time.
type Mark struct {
	Starts int
	At     time.Time
}

// ReadMark reads the mark of name in dir. None is no start.
func ReadMark(dir, name string) (Mark, error) {
	file := filepath.Join(dir, name)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Mark{}, nil
	}
	if err != nil {
		return Mark{}, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Mark{}, err
	}
	return Mark{bytes.Count(text, []byte("\n")), info.ModTime()}, nil
}

// AwaitMarks waits until every name has started at least n times, and returns the times of the
// last starts in the order of names.
func AwaitMarks(ctx context.Context, limit time.Duration, dir string, n int, names ...string) ([]time.Time, error) {
	at := make([]time.Time, len(names))
	next := 0
	err := lab.Eventually(ctx, limit, "programs have started", func() error {
		for ; next < len(names); next++ {
			mark := check.Must(ReadMark(dir, names[next]))
			if mark.Starts < n {
				return fmt.Errorf("%s has %d starts of %d (%d more to look at)", names[next], mark.Starts, n, len(names)-next-1)
			}
			at[next] = mark.At
		}
		return nil
	})
	return at, err
}

// MarkArgs are the arguments of the work image that leave a mark and sleep until SIGTERM.
func MarkArgs(name string) []string {
	return []string{"append", "/marks/" + name, "started", "then", "sleep"}
}

// MarkPod is a manifest of a pod with one container that leaves a mark in dir and sleeps.
func MarkPod(name, dir string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: default
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - name: main
      image: %[2]s
      imagePullPolicy: IfNotPresent
      args: [append, /marks/%[1]s, started, then, sleep]
      volumeMounts:
        - {name: marks, mountPath: /marks}
  volumes:
    - name: marks
      hostPath: {path: %[3]s, type: Directory}
`, name, lab.WorkImage, dir)
}
