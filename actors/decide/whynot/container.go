package whynot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// container says why one container is not ready.
func container(in *Input, c *Container) (Answer, bool) {
	switch {
	case c.Kind == kindEphemeral:
		return Answer{}, false
	case c.State == waiting:
		return waits(in, c)
	case c.State == terminated && (c.failed() || c.Kind != kindInit):
		return Answer{
			Text: sentence(fmt.Sprintf("Container %q terminated with exit code %d%s", c.Name, c.ExitCode,
				said(c.Reason, c.Message))),
			Next: fmt.Sprintf("See its logs: %s.", logs(in, c)), Wrong: c.failed(),
		}, true
	case c.State == running && c.Kind == kindInit:
		return Answer{
			Text: fmt.Sprintf("Init container %q is running: the next containers start after it has completed.", c.Name),
		}, true
	case c.State == running && !c.Ready:
		return unready(in, c), true
	}
	return Answer{}, false
}

// failed says whether a container that terminated has failed.
func (c *Container) failed() bool {
	return c.ExitCode != 0 || c.Kind == kindInit && podspec.InitFailed(c.ExitCode, c.Reason)
}

// logs is the command that shows the newest logs of a container. --previous shows those of the
// incarnation before, which must exist.
func logs(in *Input, c *Container) string {
	return fmt.Sprintf("kubectl logs -n %s %s -c %s", in.Namespace, in.Name, c.Name)
}

// waits explains a container that does not run, by the gate that it waits at.
func waits(in *Input, c *Container) (Answer, bool) {
	a, is := gate.AdviceOn(c.Gate, c.Reason)
	switch {
	case quiet(c.Reason) && (!is || c.Message == ""):
		return Answer{}, false // the calls under way say more
	case !is:
		a.Text = "Container {container} is waiting" + said(c.Reason, "")
		a.Next = "It is retried automatically; `troupe timeline` shows each attempt."
	}
	fill := strings.NewReplacer("{container}", strconv.Quote(c.Name), "{image}", c.Image, "{logs}", logs(in, c))
	return Answer{
		Text: sentence(fill.Replace(a.Text) + said("", detail(in, c))), Next: fill.Replace(a.Next), Wrong: true,
	}, true
}

// detail is what is known of why a container waits.
func detail(in *Input, c *Container) string {
	switch {
	case c.Reason == "ImagePullBackOff":
		return pullMessage(in, c)
	case c.Reason != "CrashLoopBackOff":
		return c.Message
	case c.Last == nil:
		return ""
	}
	end := fmt.Sprintf("its last run terminated with exit code %d%s", c.Last.ExitCode, said(c.Last.Reason, ""))
	if !c.Last.At.IsZero() {
		end += " " + ago(in.Now, c.Last.At) + " ago"
	}
	return end
}

// pullMessage is why a pull failed that waits for its backoff. The status says less than the last event.
func pullMessage(in *Input, c *Container) string {
	for _, w := range slices.Backward(in.Warnings) {
		if w.Container == c.Name && w.Reason == "Failed" && len(w.Message) > len("Error: ImagePullBackOff") &&
			w.Message != "Error: ErrImagePull" {
			return w.Message
		}
	}
	return c.Message
}

// unready explains a container that runs but is not ready.
func unready(in *Input, c *Container) Answer {
	for _, w := range slices.Backward(in.Warnings) {
		if w.Container == c.Name && w.Reason == "Unhealthy" {
			return Answer{
				Text:  sentence(fmt.Sprintf("Container %q is running, but its probe fails: %s", c.Name, trim(w.Message))),
				Next:  fmt.Sprintf("See its logs: %s. The container is ready as soon as the probe succeeds.", logs(in, c)),
				Wrong: true,
			}
		}
	}
	return Answer{Text: fmt.Sprintf("Container %q is running, but its probes have not succeeded yet.", c.Name)}
}
