// Package whynot says in a sentence why a pod is not ready and what to do about it, for people who
// look at a node.
package whynot

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/gate"
)

// Input is everything known about one pod.
type Input struct {
	Now time.Time
	// Namespace and Name are the pod's.
	Namespace, Name string
	// Life is Syncing, Terminating, Terminated, Rejected, Waiting (not begun).
	Life string
	// Phase, Ready, Reason and Message are the pod's.
	Phase           string
	Ready           bool
	Reason, Message string
	// Problem is what is wrong with the pod's actor, or keeps the pod from starting or ending, if its
	// status does not show it.
	Problem string
	// Unready is the message of the condition Ready.
	Unready string
	// Containers are in the order of the spec, init containers first.
	Containers []Container
	// Calls are the calls under way for the pod.
	Calls []Call
	// Warnings are the pod's warning events, the newest last.
	Warnings []Warning
	// Missing is what the node waits for before it starts pods.
	Missing []string
	// Runtime is the error of the last call to a runtime that has not answered since RuntimeSince;
	// empty if it answers.
	Runtime      string
	RuntimeSince time.Time
}

// Container is one container of the pod.
type Container struct {
	Name, Image string
	// Kind is init, sidecar, main or ephemeral. State is waiting, running or terminated.
	Kind, State     string
	Ready           bool
	Restarts        int32
	Reason, Message string
	// Gate is the one that Reason and Message are of, while it is waiting.
	Gate     gate.Gate
	ExitCode int32
	// Last is the termination of the incarnation before; nil if there was none.
	Last *End
}

// End is the termination of an incarnation of a container.
type End struct {
	Reason   string
	ExitCode int32
	At       time.Time // zero if not known
}

// Call is an effect that has not ended.
type Call struct {
	What, Object string
	// Queued: the call has not begun. Overdue: its deadline has passed, and it may still answer.
	Queued, Overdue bool
	Since           time.Time
	// Patience is how long the call may normally take; zero for a few seconds.
	Patience time.Duration
	// Probe: the call probes a container.
	Probe bool
}

// Warning is an event.
type Warning struct{ Container, Reason, Message string }

// Answer says why a pod is not ready. The zero Answer says that it is.
type Answer struct {
	// Text is one sentence that names its subject.
	Text string `json:"text"`
	// Next is what to do; empty if there is nothing to do but wait.
	Next string `json:"next,omitempty"`
	// Wrong: the pod has failed, or will not recover by itself. Otherwise it is on its way.
	Wrong bool `json:"wrong,omitempty"`
}

const (
	// usual is how long a call may take before it is reported.
	usual = 5 * time.Second
	// textLimit bounds the text taken from other components, sentenceLimit a whole sentence, in bytes.
	textLimit, sentenceLimit = 240, 600

	waiting, running, terminated = "waiting", "running", "terminated"
	kindInit, kindEphemeral      = "init", "ephemeral"
)

// Explain finds the first thing that keeps the pod from being ready. It looks from the node down to
// single containers.
func Explain(in *Input) Answer {
	switch {
	case in.Life == "Rejected":
		return rejected(in)
	case in.Life == "Terminated" && in.lastWarning().Reason == "StatusRejected":
		return Answer{
			Text: sentence(trim(in.lastWarning().Message)),
			Next: "The status is written again with a backoff; a pod that is deleted goes without it after half a minute. If " +
				"the message names a policy or webhook, have it accept pods/status from this node.",
			Wrong: true,
		}
	case in.Phase == "Succeeded":
		return Answer{
			Text: "The pod has completed: all its containers terminated with exit code 0. A completed pod is not ready.",
		}
	case in.Phase == "Failed" && in.Life != "Terminating":
		return failed(in)
	case in.Ready && in.Life == "Syncing" && in.Problem == "":
		return Answer{}
	case in.Runtime != "":
		return Answer{
			Text: fmt.Sprintf("The container runtime has not answered for %s: %s.",
				ago(in.Now, in.RuntimeSince), trim(in.Runtime)),
			Next: "Check the container runtime (systemctl status containerd, crictl info). The pods continue automatically " +
				"when it answers.",
			Wrong: true,
		}
	case in.Life == "Waiting":
		return notBegun(in)
	case in.Life == "Terminating":
		return ending(in)
	}
	if a, is := hangs(in); is {
		return a
	}
	if in.Problem != "" {
		return Answer{
			Text:  sentence(in.Problem),
			Next:  "If the actor of the pod crashed, see `troupe crashes`. Otherwise see `troupe timeline` for what failed.",
			Wrong: true,
		}
	}
	for i := range in.Containers {
		if a, is := container(in, &in.Containers[i]); is {
			return a
		}
	}
	if a, is := underWay(in); is {
		return a
	}
	if in.Unready != "" {
		return Answer{Text: sentence("The containers are ready, but the pod is not: " + in.Unready),
			Next: "A readiness gate is not met: check the controller that sets this pod condition.", Wrong: true}
	}
	return Answer{Text: "The pod has started, but its state is not known yet."}
}

// lastWarning is the newest one, or none.
func (in *Input) lastWarning() (w Warning) {
	if n := len(in.Warnings); n > 0 {
		w = in.Warnings[n-1]
	}
	return w
}

func rejected(in *Input) Answer {
	next := "The node does not retry the pod: change it, or delete it so that its controller creates it on another node."
	if strings.HasPrefix(in.Reason, "OutOf") {
		next = "The node does not retry the pod: lower its requests, or delete it so that it is scheduled to a node with " +
			"free capacity."
	}
	return Answer{Text: sentence(fmt.Sprintf("The node rejected the pod (%s): %s", in.Reason, trim(in.Message))),
		Next: next, Wrong: true}
}

func failed(in *Input) Answer {
	if in.Reason != "" || in.Message != "" {
		return Answer{
			Text: sentence("The pod has failed: " + joined(in.Reason, trim(in.Message))),
			Next: fmt.Sprintf(
				"The pod is not restarted: see its logs (kubectl logs -n %s %s --all-containers), then delete it or let its "+
					"controller replace it.", in.Namespace, in.Name,
			), Wrong: true,
		}
	}
	for i := range in.Containers {
		if c := &in.Containers[i]; c.State == terminated && c.failed() && c.Kind != kindEphemeral {
			return Answer{
				Text: sentence(fmt.Sprintf("The pod has failed: container %q terminated with exit code %d%s", c.Name, c.ExitCode,
					said(c.Reason, c.Message))),
				Next: fmt.Sprintf("The restart policy does not allow a restart. See its logs: %s.", logs(in, c)), Wrong: true,
			}
		}
	}
	return Answer{Text: "The pod has failed.", Wrong: true}
}

func notBegun(in *Input) Answer {
	if len(in.Missing) > 0 {
		return Answer{
			Text: fmt.Sprintf("The node does not start pods yet: it waits for %s.", strings.Join(in.Missing, " and ")),
		}
	}
	return Answer{
		Text: sentence(cmp.Or(in.Problem, "The pod waits for the termination of an older pod with the same name")),
		Next: "`troupe pods` shows what the older pod waits for.",
	}
}

// ending explains a pod that is being deleted.
func ending(in *Input) Answer {
	if a, is := hangs(in); is {
		a.Text = "The pod is terminating. " + a.Text
		return a
	}
	if in.Problem != "" {
		return Answer{Text: sentence("The pod is terminating, but termination fails: " + in.Problem),
			Next: "It is retried automatically; `troupe timeline` shows each attempt.", Wrong: true}
	}
	var left []string
	for i := range in.Containers {
		if in.Containers[i].State == running {
			left = append(left, fmt.Sprintf("%q", in.Containers[i].Name))
		}
	}
	if len(left) > 0 {
		return Answer{
			Text: fmt.Sprintf("The pod is terminating: waiting for %s %s to exit within the grace period.",
				plural(len(left), "container"), strings.Join(left, ", ")),
		}
	}
	for _, c := range in.Calls {
		return Answer{Text: fmt.Sprintf("The pod is terminating: %s, for %s.", nameOf(&c), ago(in.Now, c.Since))}
	}
	return Answer{
		Text: "The pod is terminating: its containers have exited, and the remaining resources are being removed.",
	}
}

// hangs finds the call that exceeds its patience the most.
func hangs(in *Input) (Answer, bool) {
	var worst *Call
	for i := range in.Calls {
		c := &in.Calls[i]
		late := c.Overdue || !c.Queued && in.Now.Sub(c.Since) > max(c.Patience, usual)
		if late && !c.Probe && (worst == nil || c.Since.Before(worst.Since)) {
			worst = c
		}
	}
	if worst == nil {
		return Answer{}, false
	}
	a := Answer{Text: fmt.Sprintf("%s has had no answer for %s.", nameOf(worst), ago(in.Now, worst.Since)), Wrong: true}
	switch {
	case worst.What == "PullImage":
		a.Next = "Check the connection to the registry and its speed. A pull without progress is cancelled and retried."
	case strings.Contains(worst.What, "Mount") || strings.Contains(worst.What, "Volume"):
		a.Next = "Check the file system of the volume: a network file system hangs if its server does not answer."
	case strings.HasSuffix(worst.What, "PodStatus") || worst.What == "GetPod" || worst.What == "DeletePod":
		a.Next = "Check that this node can reach the apiserver."
	default:
		a.Next = "Check the container runtime (its log; crictl ps -a). The call is retried after its deadline."
	}
	return a, true
}

// quiet reasons only say that it is not the container's turn yet.
func quiet(reason string) bool {
	return reason == "" || reason == "ContainerCreating" || reason == "PodInitializing"
}

// underWay explains a pod that is being made.
func underWay(in *Input) (Answer, bool) {
	var at *Call
	for i := range in.Calls {
		if c := &in.Calls[i]; !c.Probe &&
			(at == nil || at.Queued && !c.Queued || at.Queued == c.Queued && c.Since.Before(at.Since)) {
			at = c
		}
	}
	switch {
	case at == nil:
		for i := range in.Containers {
			if c := &in.Containers[i]; c.State == waiting {
				return Answer{Text: sentence(fmt.Sprintf("Container %q is about to be created%s", c.Name, said("", c.Message)))},
					true
			}
		}
		return Answer{}, false
	case at.Queued:
		return Answer{
			Text: fmt.Sprintf("%s has been queued for %s: other pods of the node start first.", nameOf(at),
				ago(in.Now, at.Since)),
		}, true
	}
	return Answer{Text: fmt.Sprintf("The pod is starting: %s, for %s.", nameOf(at), ago(in.Now, at.Since))}, true
}

func nameOf(c *Call) string { return strings.TrimSpace(c.What + " " + c.Object) }

// ago formats a duration for people.
func ago(now, at time.Time) string {
	d := max(0, now.Sub(at))
	switch {
	case at.IsZero():
		return "some time"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
}

// trim bounds text from others. It keeps the end of an error, which names the cause.
func trim(s string) string { return bound(s, textLimit) }

func bound(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= limit {
		return s
	}
	half := limit / 2
	return strings.ToValidUTF8(s[:half], "") + " … " + strings.ToValidUTF8(s[len(s)-half:], "")
}

// sentence gives s the end of a sentence.
func sentence(s string) string {
	s = strings.TrimRight(bound(s, sentenceLimit), " :;")
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

// said formats a reason and a message, to follow a name.
func said(reason, message string) string {
	out := ""
	if reason != "" {
		out = " (" + reason + ")"
	}
	if message != "" {
		out += ": " + trim(message)
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}
