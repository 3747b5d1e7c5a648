//go:build linux && !nonode

package commands

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

func newCrashesCommand() *cobra.Command {
	var rootDir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "crashes",
		Short: "Show recent actor crashes of a running node with stack traces, and its dead letters",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return showCrashes(c.Context(), c.OutOrStdout(), admin.Client{Socket: admin.SocketIn(rootDir)}, asJSON)
		},
	}
	c.Flags().StringVar(&rootDir, "root-dir", config.DefaultRootDir, "root directory of the node to inspect")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// trouble is what the command shows.
type trouble struct {
	Crashes     []*kernel.CrashReport `json:"crashes"`
	DeadLetters uint64                `json:"deadLetters"`
	Letters     []timeline.Letter     `json:"letters"`
}

func showCrashes(ctx context.Context, w io.Writer, client admin.Client, asJSON bool) error {
	tree, err := client.Tree(ctx)
	if err != nil {
		return err
	}
	letters, err := client.Letters(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, trouble{tree.Crashes, tree.DeadLetters, letters})
	}
	var b strings.Builder
	color := screen.TerminalOf(w).Color
	if len(tree.Crashes) == 0 {
		b.WriteString("No actor has crashed since the agent started.\n")
	}
	for _, r := range tree.Crashes {
		writeCrash(&b, r, color)
	}
	fmt.Fprintf(&b, "\nDead letters (messages to stopped actors): %d\n", tree.DeadLetters)
	table := screen.Table{Header: []string{"TIME", "TYPE", "TO", "FROM", "TIMES"}}
	for _, l := range letters {
		at := l.At
		if l.Last != nil {
			at = *l.Last
		}
		table.Add([]string{at.Local().Format(time.DateTime), l.Type, l.To, l.From, fmt.Sprint(max(1, l.Count))})
	}
	if len(letters) > 0 {
		b.WriteString(strings.Join(table.Lines(), "\n") + "\n")
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func writeCrash(b *strings.Builder, r *kernel.CrashReport, color bool) {
	fmt.Fprintf(b, "%s\n",
		screen.Red(fmt.Sprintf("%s  %s: %s", r.At.Local().Format(time.DateTime), r.Path, screen.Line(r.Reason, 0)), color))
	fmt.Fprintf(b, "  on %s", screen.Line(r.Message, 0))
	if r.Detail != "" {
		fmt.Fprintf(b, " {%s}", screen.Line(r.Detail, 0))
	}
	fmt.Fprintf(b, ", incarnation %d; recent crashes: %d; decision: %v", r.Incarnation, r.Crashes, r.Decision)
	if r.RetryAfter > 0 {
		fmt.Fprintf(b, ", next attempt after %v", r.RetryAfter.Round(time.Millisecond))
	}
	b.WriteString("\n")
	if len(r.Last) > 0 {
		fmt.Fprintf(b, "  messages before it: %s\n", screen.Line(strings.Join(r.Last, ", "), 0))
	}
	for line := range strings.Lines(r.Stack) {
		b.WriteString("    " + strings.ReplaceAll(screen.Line(line, 0), "\t", "  ") + "\n")
	}
}
