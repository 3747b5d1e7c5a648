package podplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// noted says whether n may be stopped to be restarted for this cause. Where the exit might be
// mistaken for the container's own, the cause is written down first.
func (p *planner) noted(c *v1.Container, n *observed.Container, cause podlife.RestartCause) bool {
	if cause == "" || cause != podlife.ResizeRestarts && alwaysAgain(c, p.in.Pod) {
		return true
	}
	if note, is := p.in.RestartNote(n); is {
		return note.Written
	}
	if cause == podlife.ProbeFailed && !n.Detailed {
		return false // it may have completed, and a note would have it run again
	}
	p.do(NoteRestart{Name: n.Name, ID: n.ID, Cause: cause})
	return false
}

// alwaysAgain: another incarnation follows each, whatever its exit.
func alwaysAgain(c *v1.Container, pod *v1.Pod) bool {
	return podspec.RestartPolicy(c, pod) == v1.RestartPolicyAlways
}

// RestartNote is the note about an incarnation of a container, if there is one.
func (in *Input) RestartNote(n *observed.Container) (podlife.RestartNote, bool) {
	note, is := in.RestartNotes[n.Name]
	return note, is && note.ID == n.ID
}

// EndedForRestart says whether n was stopped so that another incarnation takes its place. Then its
// exit says nothing about its work.
func (in *Input) EndedForRestart(n *observed.Container) bool {
	_, noted := in.RestartNote(n)
	return noted || in.Earlier(n)
}

// Earlier says whether c is older than FirstSandbox. Then it counts as never run.
func (in *Input) Earlier(c *observed.Container) bool {
	if in.FirstSandbox == 0 {
		return false
	}
	for i := range in.View.Sandboxes {
		if s := &in.View.Sandboxes[i]; s.ID == c.SandboxID {
			return s.Attempt < in.FirstSandbox
		}
	}
	return true // its sandbox is gone
}

// restartPending says whether the restart that a container was stopped for is still due: no container of that
// name was started since.
func (p *planner) restartPending(name string) bool {
	cs := p.in.View.Of(name)
	for i := range cs {
		c := &cs[i]
		if c.Name == name && c.State != observed.ContainerCreated {
			return p.in.EndedForRestart(c)
		}
	}
	return false
}

// NoteWritten takes in that the note about an incarnation was written down.
func (f *Facts) NoteWritten(container, id string) {
	if n, is := f.RestartNotes[container]; is && n.ID == id {
		n.Written = true
		f.RestartNotes[container] = n
	}
}

// Recall takes in a note from the pods actor.
func (f *Facts) Recall(container string, n podlife.RestartNote) {
	if mine, is := f.RestartNotes[container]; !is || mine.ID == n.ID {
		put(&f.RestartNotes, container, n)
	}
}
