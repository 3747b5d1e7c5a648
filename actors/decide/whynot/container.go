package whynot

import (
	"fmt"
	"slices"

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

// waits explains a container that does not run.
func waits(in *Input, c *Container) (Answer, bool) {
	a := Answer{Text: sentence(fmt.Sprintf("Container %q is waiting%s", c.Name, said(c.Reason, c.Message))), Wrong: true}
	switch c.Reason {
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		a.Text = sentence(fmt.Sprintf("Container %q: the image %s cannot be pulled%s", c.Name, c.Image,
			said("", pullMessage(in, c))))
		a.Next = "Check the image name, the pull secrets and the connection to the registry (crictl pull). The pull is " +
			"retried automatically."
	case "InvalidImageName":
		a.Next = "Correct the image name in the pod."
	case "ErrImageNeverPull":
		a.Next = "The pull policy is Never: load the image onto the node, or change the policy."
	case "CrashLoopBackOff":
		end := ""
		if c.Last != nil {
			end = fmt.Sprintf(": its last run terminated with exit code %d%s", c.Last.ExitCode, said(c.Last.Reason, ""))
			if !c.Last.At.IsZero() {
				end += " " + ago(in.Now, c.Last.At) + " ago"
			}
		}
		a.Text = fmt.Sprintf("Container %q is in a crash loop and waits for the end of its restart backoff%s.", c.Name, end)
		a.Next = fmt.Sprintf("See the logs of its last run: %s --previous.", logs(in, c))
	case "CreateContainerConfigError", "CreateContainerError":
		a.Text = sentence(fmt.Sprintf("Container %q cannot be created%s", c.Name, said("", c.Message)))
		a.Next = "Create the missing ConfigMap, Secret, key or path, or correct the pod. The container is retried " +
			"automatically."
	case "PostStartHookError":
		a.Text = sentence(fmt.Sprintf("The postStart hook of container %q failed%s", c.Name, said("", c.Message)))
		a.Next = "Correct the hook. The container is restarted automatically."
	case "RunContainerError", "PreStartHookError":
		a.Text = sentence(fmt.Sprintf("Container %q cannot be started%s", c.Name, said("", c.Message)))
		a.Next = "Correct its command or its security context. The start is retried automatically."
	default:
		if !quiet(c.Reason) {
			a.Next = "It is retried automatically; `troupe timeline` shows each attempt."
			return a, true
		}
		return Answer{}, false // the calls under way say more
	}
	return a, true
}

// pullMessage is why a pull failed. During a backoff the status says less than the last event.
func pullMessage(in *Input, c *Container) string {
	if c.Reason != "ImagePullBackOff" {
		return c.Message
	}
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
