package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/e2e/shortage"
)

// outcome is what became of a node that ran short.
type outcome struct {
	short short
	// level is what was seen of what ran short.
	level shortage.Seen
	// evicted are the pods that were evicted, the first first, at when.
	evicted []string
	at      []time.Time
	// shown is when the node was seen to be short, failed when the culprit was seen to have failed. Zero if never.
	shown, failed time.Time
	// culprit is how it was seen last.
	culprit *v1.Pod
	// restarted are the other pods that started again.
	restarted []string
	// stuck are the pods that were deleted afterwards and not seen gone within removalPatience.
	stuck []string
	// log is the first line of the agent's log that says that nothing can be written, empty if there is none.
	log string
}

// acted is how long after the level was passed the culprit was evicted, unless it was not.
func (o *outcome) acted() (time.Duration, bool) {
	i := slices.Index(o.evicted, o.short.culprit)
	if i < 0 || o.level.Crossed.IsZero() {
		return 0, false
	}
	return o.at[i].Sub(o.level.Crossed), true
}

// others says what happened to the other pods, nothing if nothing did.
func (o *outcome) others() string {
	var all []string
	others := slices.DeleteFunc(slices.Clone(o.evicted), func(name string) bool { return name == o.short.culprit })
	if n := len(others); n > 0 {
		all = append(all, fmt.Sprintf("%d of the others evicted", n))
	}
	if n := len(o.restarted); n > 0 {
		all = append(all, fmt.Sprintf("%d of the others restarted", n))
	}
	return strings.Join(all, ", ")
}

// notEnded says that the culprit has not ended, nothing if it has.
func (o *outcome) notEnded() string {
	if !o.failed.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s had not ended within %s", o.short.culprit, evictionPatience)
}

// notRemoved says which pods the agent did not remove, nothing if it removed all.
func (o *outcome) notRemoved() string {
	if len(o.stuck) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d pods were not removed %s after their deletion", len(o.stuck), calmPods+1, removalPatience)
}

// String says all of it.
func (o *outcome) String() string {
	var all []string
	after := func(what string, at time.Time) {
		if at.IsZero() || o.level.Crossed.IsZero() {
			all = append(all, what+" never")
		} else {
			all = append(all, what+" "+ms(at.Sub(o.level.Crossed)))
		}
	}
	if len(o.evicted) == 0 {
		all = append(all, "no pod evicted")
	}
	for i, name := range o.evicted {
		after(name+" evicted", o.at[i])
	}
	after(string(o.short.condition)+" seen", o.shown)
	after(o.short.culprit+" seen Failed", o.failed)
	after("enough left again", o.level.Relieved)
	all = append(all, fmt.Sprintf("at most %d MiB of %d in use", o.level.Peak/shortage.MiB, o.short.all/shortage.MiB))
	if text := o.others(); text != "" {
		all = append(all, text)
	} else {
		all = append(all, "no other pod evicted or restarted")
	}
	if text := o.notRemoved(); text != "" {
		all = append(all, text+"; the benchmark ended them without the agent")
	}
	if o.log != "" {
		all = append(all, "in its log: "+o.log)
	}
	if o.culprit != nil {
		all = append(all, o.short.culprit+": "+kubectlShows(o.culprit))
	}
	return strings.Join(all, "; ")
}

// kubectlShows is what kubectl shows of a pod's end.
func kubectlShows(p *v1.Pod) string {
	text := fmt.Sprintf("phase %s, reason %q, message %q", p.Status.Phase, p.Status.Reason, p.Status.Message)
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			text += fmt.Sprintf(", condition %s=%s %s", c.Type, c.Status, c.Reason)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		text += fmt.Sprintf(", %d restarts", c.RestartCount)
		if t := c.State.Terminated; t != nil {
			text += fmt.Sprintf(", ended %s %d", t.Reason, t.ExitCode)
		}
		if t := c.LastTerminationState.Terminated; t != nil {
			text += fmt.Sprintf(", before that %s %d", t.Reason, t.ExitCode)
		}
	}
	return text
}
