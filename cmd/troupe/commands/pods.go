//go:build linux && !nonode

package commands

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/cmd/troupe/podtable"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
	"github.com/troupe-dev/troupe/supervisor/admin"
)

func newPodsCommand() *cobra.Command {
	var l look
	var output string
	var o podtable.Options
	c := &cobra.Command{
		Use:   "pods",
		Short: "List the pods of a running node, and show why unhealthy pods are not ready",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch output {
			case "":
			case "wide":
				o.Wide = true
			case "json":
				l.json = true
			default:
				return fmt.Errorf("-o %s: unknown output format: must be wide or json", output)
			}
			return showPods(c.Context(), c.OutOrStdout(), l, o)
		},
	}
	l.flags(c)
	c.Flags().StringVarP(&output, "output", "o", "", "wide or json")
	c.Flags().StringVarP(&o.Namespace, "namespace", "n", "", "only pods of this namespace")
	return c
}

// podsAnswer is what the command gets.
type podsAnswer struct {
	view  podview.View
	doing map[types.UID][]podtable.Call
}

func showPods(ctx context.Context, w io.Writer, l look, o podtable.Options) error {
	client := l.client()
	o.Color = screen.TerminalOf(w).Color
	ask := func(ctx context.Context) (podsAnswer, error) {
		view, err := client.Pods(ctx)
		if err != nil {
			return podsAnswer{}, err
		}
		view.Pods = ofNamespace(view.Pods, o.Namespace)
		return podsAnswer{view: view, doing: underWay(ctx, client, view.Pods)}, nil
	}
	draw := func(a podsAnswer) string {
		var b strings.Builder
		o.Now, o.Doing = time.Now(), a.doing
		podtable.Write(&b, a.view, o) //nolint:errcheck // a Builder takes all
		return b.String()
	}
	var changes podtable.Changes
	return shown[podsAnswer]{
		ask: ask, draw: draw,
		changes: func(a podsAnswer) []string {
			o.Now, o.Doing = time.Now(), a.doing
			return changes.Lines(a.view, o)
		},
		data: func(a podsAnswer) any { return a.view },
	}.print(ctx, w, l)
}

func ofNamespace(all []podview.Pod, namespace string) []podview.Pod {
	if namespace == "" {
		return all
	}
	out := []podview.Pod{}
	for _, p := range all {
		if p.Namespace == namespace {
			out = append(out, p)
		}
	}
	return out
}

// underWay asks the tree what calls are made for which pod, and since when. The
// list of pods is worth showing without.
func underWay(ctx context.Context, client admin.Client, shown []podview.Pod) map[types.UID][]podtable.Call {
	tree, err := client.Tree(ctx)
	if err != nil {
		return nil
	}
	out := map[types.UID][]podtable.Call{}
	for uid, calls := range podview.CallsOf(tree.Actors, shown) {
		for _, c := range calls {
			call := podtable.Call{What: strings.TrimSpace(c.Kind + " " + c.Object), Phase: c.Phase.String(), Since: c.Since}
			out[uid] = append(out[uid], call)
		}
	}
	return out
}
