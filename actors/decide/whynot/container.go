package whynot

import (
	"fmt"
	"slices"
)

// container says what keeps one container from being as it should.
func container(in *Input, c *Container) (Answer, bool) {
	switch {
	case c.Kind == kindEphemeral:
		return Answer{}, false
	case c.State == waiting:
		return waits(in, c)
	case c.State == terminated && (c.ExitCode != 0 || c.Kind != kindInit):
		return Answer{
			Text: sentence(fmt.Sprintf("Container %q ended with exit code %d%s", c.Name, c.ExitCode, said(c.Reason, c.Message))),
			Next: fmt.Sprintf("See its last words: %s.", logs(in, c)), Wrong: c.ExitCode != 0,
		}, true
	case c.State == running && c.Kind == kindInit:
		return Answer{Text: fmt.Sprintf("Init container %q runs: the containers after it begin when it has ended.", c.Name)}, true
	case c.State == running && !c.Ready:
		return unready(in, c), true
	}
	return Answer{}, false
}

// logs is what shows the newest logs of a container; with --previous, those of the
// incarnation before, which there must have been.
func logs(in *Input, c *Container) string {
	return fmt.Sprintf("kubectl logs -n %s %s -c %s", in.Namespace, in.Name, c.Name)
}

// waits is of a container that does not run.
func waits(in *Input, c *Container) (Answer, bool) {
	a := Answer{Text: sentence(fmt.Sprintf("Container %q waits%s", c.Name, said(c.Reason, c.Message))), Wrong: true}
	switch c.Reason {
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		a.Text = sentence(fmt.Sprintf("Container %q can't have its image %s%s", c.Name, c.Image, said("", pullMessage(in, c))))
		a.Next = "Check the image's name, the pull secrets and whether the registry can be reached (crictl pull): it is tried again by itself."
	case "InvalidImageName":
		a.Next = "Correct the image's name in the pod."
	case "ErrImageNeverPull":
		a.Next = "Its pull policy is Never: bring the image to the node, or change the policy."
	case "CrashLoopBackOff":
		end := ""
		if c.Last != nil {
			end = fmt.Sprintf(": it ended with exit code %d%s", c.Last.ExitCode, said(c.Last.Reason, ""))
			if !c.Last.At.IsZero() {
				end += " " + ago(in.Now, c.Last.At) + " ago"
			}
		}
		a.Text = fmt.Sprintf("Container %q crashes again and again, and waits before it is started once more%s.", c.Name, end)
		a.Next = fmt.Sprintf("See its last words: %s --previous.", logs(in, c))
	case "CreateContainerConfigError", "CreateContainerError":
		a.Text = sentence(fmt.Sprintf("Container %q can't be made%s", c.Name, said("", c.Message)))
		a.Next = "Make what it names (a ConfigMap, Secret, key or path), or correct the pod: it is tried again by itself."
	case "RunContainerError", "PreStartHookError", "PostStartHookError":
		a.Text = sentence(fmt.Sprintf("Container %q can't be started%s", c.Name, said("", c.Message)))
		a.Next = "Correct its command or its security context: it is tried again by itself."
	default:
		if !quiet(c.Reason) {
			a.Next = "It is tried again by itself; `troupe timeline` shows each try."
			return a, true
		}
		return Answer{}, false // what is under way says more
	}
	return a, true
}

// pullMessage is why a pull failed: in a backoff the status says less than the
// event before it.
func pullMessage(in *Input, c *Container) string {
	if c.Reason != "ImagePullBackOff" {
		return c.Message
	}
	for _, w := range slices.Backward(in.Warnings) {
		if w.Container == c.Name && w.Reason == "Failed" && len(w.Message) > len("Error: ImagePullBackOff") && w.Message != "Error: ErrImagePull" {
			return w.Message
		}
	}
	return c.Message
}

// unready is of a container that runs.
func unready(in *Input, c *Container) Answer {
	for _, w := range slices.Backward(in.Warnings) {
		if w.Container == c.Name && w.Reason == "Unhealthy" {
			return Answer{
				Text:  sentence(fmt.Sprintf("Container %q runs and its probe says no: %s", c.Name, trim(w.Message))),
				Next:  fmt.Sprintf("See what it does: %s. It is ready as soon as the probe passes.", logs(in, c)),
				Wrong: true,
			}
		}
	}
	return Answer{Text: fmt.Sprintf("Container %q runs, and its probes have not passed yet.", c.Name)}
}
