//go:build linux && !nonode

package commands

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/config"
)

// look are the flags of commands that look at a running node.
type look struct {
	rootDir     string
	json, watch bool
}

func (l *look) flags(c *cobra.Command) {
	c.Flags().StringVar(&l.rootDir, "root-dir", config.DefaultRootDir, "root directory of the node to inspect")
	c.Flags().BoolVar(&l.json, "json", false, "print JSON")
	c.Flags().BoolVarP(&l.watch, "watch", "w", false, "watch: show changes until Ctrl-C")
}

func (l *look) client() admin.Client { return admin.Client{Socket: admin.SocketIn(l.rootDir)} }

// shown is how a command shows what a running node answers.
type shown[T any] struct {
	ask func(context.Context) (T, error)
	// draw is for people, changes for what --watch prints where it can't draw again.
	draw    func(T) string
	changes func(T) []string
	// data is what --json prints; news, if it is not all of that, is what --watch
	// prints as JSON when it has changed.
	data, news func(T) any
}

// print shows it as the flags say: once, or until ctx ends.
func (s shown[T]) print(ctx context.Context, w io.Writer, l look) error {
	switch {
	case l.watch && l.json:
		if s.news == nil {
			s.news = s.data
		}
		return screen.Watch[T]{Ask: s.ask, Lines: changedJSON(s.news)}.Run(ctx, w, screen.Terminal{})
	case l.watch:
		return screen.Watch[T]{Ask: s.ask, Draw: s.draw, Lines: s.changes}.Run(ctx, w, screen.TerminalOf(w))
	}
	answer, err := s.ask(ctx)
	if err != nil {
		return err
	}
	if l.json {
		return printJSON(w, s.data(answer))
	}
	_, err = io.WriteString(w, s.draw(answer))
	return err
}

// printJSON prints v for people and programs.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// changedJSON is a line of JSON whenever it is another than the one before.
func changedJSON[T any](of func(T) any) func(T) []string {
	last := ""
	return func(v T) []string {
		b, err := json.Marshal(of(v))
		if err != nil || string(b) == last {
			return nil
		}
		last = string(b)
		return []string{last}
	}
}
