package differ

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// life is what the apiserver showed of a pod.
type life struct {
	pod     *v1.Pod
	gone    bool
	changed time.Time
	shown   keys // the status in normal form
	phases  []string
	// words are the states that each container was in, and conditions those of the pod.
	words      map[string]map[string]bool
	conditions map[string]bool
}

// lives are those of the pods of a namespace, by name. They are told of by an informer.
type lives struct {
	mu     sync.Mutex
	of     map[string]*life
	normal func(*v1.Pod) normal
}

func (l *lives) OnAdd(obj any, _ bool) { l.see(obj, false) }
func (l *lives) OnUpdate(_, obj any)   { l.see(obj, false) }
func (l *lives) OnDelete(obj any)      { l.see(obj, true) }
func (l *lives) get(name string) (life, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[name]
	if of == nil {
		return life{}, false
	}
	return *of, true
}

func (l *lives) see(obj any, gone bool) {
	p, is := obj.(*v1.Pod)
	if !is {
		return // of a pod that was lost while nobody watched: its deletion is seen by a get
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[p.Name]
	if of == nil {
		of = &life{words: map[string]map[string]bool{}, conditions: map[string]bool{}}
		l.of[p.Name] = of
	}
	of.pod, of.gone = p, gone
	if shown := statusKeys(p, l.normal(p)); !maps.Equal(shown, of.shown) {
		of.shown, of.changed = shown, time.Now()
	}
	phase := strings.TrimSpace(string(p.Status.Phase) + " " + p.Status.Reason)
	if n := len(of.phases); n == 0 || of.phases[n-1] != phase {
		of.phases = append(of.phases, phase)
	}
	for _, c := range p.Status.Conditions {
		of.conditions[fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)] = true
	}
	for _, c := range statuses(p) {
		if of.words[c.Name] == nil {
			of.words[c.Name] = map[string]bool{}
		}
		for _, s := range []v1.ContainerState{c.State, c.LastTerminationState} {
			if w := word(s); w != "" {
				of.words[c.Name][w] = true
			}
		}
	}
	for _, c := range early(p) {
		of.words[c]["early"] = true
	}
}

// early are the main containers that run while an init container does, which none may.
func early(p *v1.Pod) (out []string) {
	runs := func(c v1.ContainerStatus) bool { return c.State.Running != nil }
	if !slices.ContainsFunc(p.Status.InitContainerStatuses, func(c v1.ContainerStatus) bool { return runs(c) && isPlain(p, c.Name) }) {
		return nil
	}
	for _, c := range p.Status.ContainerStatuses {
		if runs(c) {
			out = append(out, c.Name)
		}
	}
	return out
}

func statuses(p *v1.Pod) []v1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses)
}

// passing are states that a watch may miss.
var passing = []string{"waiting ContainerCreating", "waiting PodInitializing"}

// brief is a state that a container without a record of its end shows for a moment.
const brief = "waiting RunContainerError"

// soon are states that come to be shown, sooner or later: see settledStatus. A pull that failed is one of two in turn.
var soon = []string{"waiting CrashLoopBackOff", "waiting ImagePullBackOff"}

// word is a state that a watch does not miss if the container is in it.
func word(s v1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		if w := "waiting " + s.Waiting.Reason; !slices.Contains(passing, w) && !slices.Contains(soon, w) && w != brief {
			return w
		}
	case s.Terminated != nil:
		return fmt.Sprintf("terminated %s %d", s.Terminated.Reason, s.Terminated.ExitCode)
	}
	return ""
}

// keys are the history in a form in which what a watch may miss is not there.
func (l *life) keys(k keys) {
	phases := slices.Clone(l.phases)
	if n := len(phases); n > 0 && (strings.HasPrefix(phases[n-1], "Succeeded") || strings.HasPrefix(phases[n-1], "Failed")) {
		phases = slices.DeleteFunc(phases, func(p string) bool { return p == "Running" })
	}
	k["history/phases"] = strings.Join(phases, ", ")
	for name, words := range l.words {
		k["history/container/"+name] = strings.Join(slices.Sorted(maps.Keys(words)), ", ")
	}
	for c := range l.conditions {
		k["history/condition/"+c] = "seen"
	}
}

// ofTime are fields of a status that are times, or IDs of the runtime.
var ofTime = regexp.MustCompile(`(Time|startedAt|finishedAt|resourceVersion)$`)

// statusKeys are the status in normal form. What is counted is none or some: how many depends on when it is looked at.
func statusKeys(p *v1.Pod, n normal) keys {
	k := keys{}
	if err := k.addAs("status", settledStatus(p)); err != nil {
		k.set("status", err.Error())
	}
	k.drop(ofTime)
	for path, value := range k {
		switch {
		case strings.HasSuffix(path, "/restartCount") && value != "0":
			k[path] = "some"
		case strings.HasSuffix(path, "/containerID"):
			k[path] = "an ID"
		}
	}
	var order []string
	for _, c := range statuses(p) {
		order = append(order, c.Name)
	}
	k["status/order"] = strings.Join(order, ", ")
	return n.in(k)
}

// between are reasons of a container that has ended and is to be made again.
var between = []string{"CrashLoopBackOff", "PostStartHookError"}

// longestMessage is that of a message that is compared whole: the end of a log, which it may be, has more than differs.
const longestMessage = 300

// settledStatus is the status, in which containers that are to be made again are as they ended. That they wait for their
// backoff a kubelet shows when it next looks at the pod, and then not how they ended before.
func settledStatus(p *v1.Pod) *v1.PodStatus {
	s := p.Status.DeepCopy()
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			c := &list[i]
			w, last := c.State.Waiting, c.LastTerminationState
			if w != nil && w.Reason == "ImagePullBackOff" { // it is one of two in turn
				_, why, _ := strings.Cut(w.Message, ": ErrImagePull: ")
				w.Reason, w.Message = "ErrImagePull", why
			}
			if w != nil && slices.Contains(between, w.Reason) && last.Terminated != nil {
				c.State, c.LastTerminationState = last, v1.ContainerState{}
			} else if t := c.State.Terminated; t != nil && again(p, c.Name, t.ExitCode) {
				c.LastTerminationState = v1.ContainerState{}
			}
			for _, t := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if t != nil && len(t.Message) > longestMessage {
					t.Message = "… " + t.Message[len(t.Message)-40:]
				}
			}
		}
	}
	return s
}

// over says whether a pod has ended for good.
func over(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed }

// moving says whether a pod is on its way to something: what it shows is not to be compared yet.
func moving(p *v1.Pod) bool {
	if over(p) {
		return false
	}
	all := statuses(p)
	for _, c := range all {
		// What never starts is waited for by all after it, and by a pod whose volumes are missing.
		if c.State.Waiting != nil && slices.Contains(passing, "waiting "+c.State.Waiting.Reason) {
			return !stuck(all)
		}
		if t := c.State.Terminated; t != nil && c.RestartCount == 0 && again(p, c.Name, t.ExitCode) {
			return true
		}
	}
	return len(all) == 0
}

// stuck says whether a container waits for something that it says.
func stuck(all []v1.ContainerStatus) bool {
	return slices.ContainsFunc(all, func(c v1.ContainerStatus) bool {
		return c.State.Waiting != nil && !slices.Contains(passing, "waiting "+c.State.Waiting.Reason)
	})
}

// again says whether a container that has ended is likely to be started again.
func again(p *v1.Pod, name string, code int32) bool {
	for _, c := range p.Spec.InitContainers {
		if c.Name == name {
			return c.RestartPolicy != nil || code != 0 && p.Spec.RestartPolicy != v1.RestartPolicyNever
		}
	}
	for _, c := range p.Spec.Containers {
		if c.Name != name {
			continue
		}
		policy := p.Spec.RestartPolicy
		if c.RestartPolicy != nil {
			policy = v1.RestartPolicy(*c.RestartPolicy)
		}
		return policy == v1.RestartPolicyAlways || policy == v1.RestartPolicyOnFailure && code != 0 ||
			slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool { return slices.Contains(r.ExitCodes.Values, code) })
	}
	return false
}
