//go:build linux && !nonode

package commands

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/podline"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
)

func newTimelineCommand() *cobra.Command {
	var l look
	c := &cobra.Command{
		Use:   "timeline POD",
		Short: "Show what happened to a pod of a running node, and why it is not ready",
		Long: `Show what happened to a pod of a running node: messages to its actor, calls made
for it and their durations, events, and status changes; and one sentence that says
why the pod is not ready. POD is namespace/name, a unique name, or a UID. Recently
terminated pods are included.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return showTimeline(c.Context(), c.OutOrStdout(), l, args[0])
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return podNames(c.Context(), l), cobra.ShellCompDirectiveNoFileComp
		},
	}
	l.flags(c)
	return c
}

// completionPatience is how long a shell waits for the names of pods after a key.
const completionPatience = 2 * time.Second

// podNames are the pods of the node, for shells that complete a command. There are none if the node does not answer: a
// shell has no place for an error.
func podNames(ctx context.Context, l look) (out []cobra.Completion) {
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	view, err := l.client().Pods(ctx)
	if err != nil {
		return nil
	}
	for _, p := range view.Pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return out
}

// headLines are those above the entries.
const headLines = 6

func showTimeline(ctx context.Context, w io.Writer, l look, pod string) error {
	t := screen.TerminalOf(w)
	o := podline.Options{Color: t.Color}
	var changes podline.Changes
	return shown[admin.Timeline]{
		ask: func(ctx context.Context) (admin.Timeline, error) { return l.client().Timeline(ctx, pod) },
		draw: func(line admin.Timeline) string {
			if _, lines := t.Size(); l.watch && lines > headLines {
				o.Newest = lines - headLines
			}
			return podline.Draw(line, o)
		},
		changes: changes.Lines,
		data:    func(line admin.Timeline) any { return line },
		news:    func(line admin.Timeline) any { return line.View },
	}.print(ctx, w, l)
}
