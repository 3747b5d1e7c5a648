package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/actortree"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
)

func newTreeCommand() *cobra.Command {
	var l look
	c := &cobra.Command{
		Use:   "tree",
		Short: "Show the live tree of actors of a running node: what each does, since when, and what hangs",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return showTree(c.Context(), c.OutOrStdout(), l)
		},
	}
	l.flags(c)
	return c
}

func showTree(ctx context.Context, w io.Writer, l look) error {
	ask := l.client().Tree
	t := screen.TerminalOf(w)
	draw := func(tree admin.Tree) string {
		var b strings.Builder
		actortree.Write(&b, tree, t.Color) //nolint:errcheck // a Builder takes all
		return b.String()
	}
	switch {
	case l.watch && l.json:
		return watchJSON(ctx, w, ask, func(tree admin.Tree) any { return tree })
	case l.watch:
		var changes actortree.Changes
		return screen.Watch[admin.Tree]{Ask: ask, Draw: draw, Lines: changes.Lines}.Run(ctx, w, t)
	}
	tree, err := ask(ctx)
	if err != nil {
		return err
	}
	if l.json {
		return printJSON(w, tree)
	}
	_, err = io.WriteString(w, draw(tree))
	return err
}
