package live

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// ends are the ends of the pods of a case in one world: of each pod by its name, the last version
// of each of its lives. It is the normal form in which two worlds are compared: nothing in it is
// an ID, a time or an address.
type ends struct {
	lives map[string][]*life
	// looping are pods that never come to rest: how often they were restarted is up to time.
	looping map[string]bool
}

type life struct {
	uid  types.UID
	text string
}

func newEnds() *ends { return &ends{lives: map[string][]*life{}, looping: map[string]bool{}} }

// shown is another version of a pod, by the name of its role.
func (e *ends) shown(name string, p *v1.Pod) {
	all := e.lives[name]
	at := slices.IndexFunc(all, func(l *life) bool { return l.uid == p.UID })
	if at < 0 {
		at = len(all)
		e.lives[name] = append(all, &life{uid: p.UID})
	}
	e.lives[name][at].text = normal(&p.Status)
}

// normal is the normal form of a status.
func normal(s *v1.PodStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", s.Phase)
	if s.Reason != "" {
		fmt.Fprintf(&b, " (%s)", s.Reason)
	}
	if podstatus.Ready(s) {
		b.WriteString(" ready")
	}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			fmt.Fprintf(&b, "; %s ", c.Name)
			switch {
			case c.State.Running != nil:
				b.WriteString("running")
			case c.State.Terminated != nil:
				fmt.Fprintf(&b, "ended with %d (%s)", c.State.Terminated.ExitCode, c.State.Terminated.Reason)
			case c.State.Waiting != nil:
				fmt.Fprintf(&b, "waiting (%s)", c.State.Waiting.Reason)
			}
			if c.RestartCount > 0 {
				fmt.Fprintf(&b, ", restarted %d times", c.RestartCount)
			}
		}
	}
	return b.String()
}

// difference says how the ends of two worlds differ; empty if they do not.
func (e *ends) difference(live *ends) string {
	var names []string
	for _, of := range []*ends{e, live} {
		for name := range of.lives {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var out []string
	for _, name := range names {
		if live.looping[name] {
			continue
		}
		a, b := e.lives[name], live.lives[name]
		for i := range max(len(a), len(b)) {
			if x, y := end(a, i), end(b, i); x != y {
				out = append(out, fmt.Sprintf("pod %s, life %d: simulated %s, live %s", name, i+1, x, y))
			}
		}
	}
	return strings.Join(out, "\n")
}

func end(lives []*life, i int) string {
	if i >= len(lives) {
		return "none"
	}
	return "[" + lives[i].text + "]"
}
