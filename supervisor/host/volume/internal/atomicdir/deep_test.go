package atomicdir

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestDeep: a file, and a directory at which something is mounted, may lie two thousand directories deep. Each is made,
// compared and measured in one step.
func TestDeep(t *testing.T) {
	content := func(n int) *volumefiles.Content {
		return &volumefiles.Content{
			Files:  []volumefiles.File{{Path: strings.Repeat("d/", n) + "f", Data: []byte("x"), Mode: 0o644}},
			Points: []string{strings.Repeat("p/", n) + "p"},
		}
	}
	for name, work := range map[string]func(f *files, c *volumefiles.Content){
		"written": func(f *files, c *volumefiles.Content) {
			check.Equal(t, check.Value(f.write(t.Context(), c, time.Unix(1, 0)))(t), true, "it was changed")
		},
		"written again": func(f *files, c *volumefiles.Content) {
			check.Equal(t, check.Value(f.write(t.Context(), c, time.Unix(1, 0)))(t), false, "it was changed")
		},
		"measured": func(f *files, c *volumefiles.Content) {
			check.Equal(t, f.bytes(check.Value(f.current())(t)), c.Bytes(), "bytes")
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 100, func(n int) func() {
				root := check.Value(os.OpenRoot(t.TempDir()))(t)
				t.Cleanup(func() { check.Error(t, root.Close()) })
				f, c := &files{dir: root}, content(n)
				if name != "written" {
					check.Value(f.write(t.Context(), c, time.Unix(1, 0)))(t)
				}
				return func() { work(f, c) }
			})
		})
	}
}

// TestGivenUp: who has gone gets no files.
func TestGivenUp(t *testing.T) {
	root := check.Value(os.OpenRoot(t.TempDir()))(t)
	defer func() { check.Error(t, root.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &volumefiles.Content{Files: []volumefiles.File{{Path: "f", Mode: 0o644}}}
	if err := Write(ctx, root, c, time.Unix(1, 0), nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	check.Equal(t, Written(root, "."), false, "it is there")
}
