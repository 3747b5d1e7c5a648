//go:build linux && !nonode

package commands

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/cmd/troupe/actortree"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
)

func newTreeCommand() *cobra.Command {
	var l look
	var wiring bool
	c := &cobra.Command{
		Use:   "tree",
		Short: "Show the actor tree of a running node: what each actor is doing, since when, and which calls hang",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if wiring {
				_, err := io.WriteString(c.OutOrStdout(), node.Wiring)
				return err
			}
			return showTree(c.Context(), c.OutOrStdout(), l)
		},
	}
	l.flags(c)
	c.Flags().BoolVar(&wiring, "wiring", false,
		"print which actor sends which messages to which other actor, and exit; needs no running node")
	return c
}

func showTree(ctx context.Context, w io.Writer, l look) error {
	color := screen.TerminalOf(w).Color
	var changes actortree.Changes
	return shown[admin.Tree]{
		ask: l.client().Tree,
		draw: func(tree admin.Tree) string {
			var b strings.Builder
			actortree.Write(&b, tree, color) //nolint:errcheck // a Builder takes all
			return b.String()
		},
		changes: changes.Lines,
		data:    func(tree admin.Tree) any { return tree },
	}.print(ctx, w, l)
}
