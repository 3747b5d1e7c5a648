package node

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// mostTimelines is of how many pods the timelines are kept.
const mostTimelines = 50

// Collect keeps what says why a test with the agent has failed: its log, where it is in the kernel, its tree, and the
// timelines of its pods, if it answers.
func (a *Agent) Collect(ctx context.Context, e lab.Evidence) {
	a.Keep(e)
	if a.PID() == 0 {
		return
	}
	tree, err := a.Command(ctx, "tree", "--root-dir", a.Root())
	e.Text("tree", tree, err)
	view, err := a.Pods(ctx)
	text, jsonErr := json.MarshalIndent(view, "", "  ")
	if err == nil {
		err = jsonErr
	}
	e.Text("pods.json", string(text), err)
	for _, p := range view.Pods[:min(len(view.Pods), mostTimelines)] {
		timeline, err := a.Command(ctx, "timeline", p.UID, "--json", "--root-dir", a.Root())
		e.Text(fmt.Sprintf("timeline-%s-%s.json", p.Namespace, p.Name), timeline, err)
	}
}
