package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// LookResources reads the limits of the pod's cgroup, and the memory in use by the pod and by these
// containers.
type LookResources struct{ IDs []string }

// ResizePod changes the limits of the pod's cgroup, after the runtime was told.
type ResizePod struct {
	SandboxID string
	To        observed.Resources
}

// ResizeContainer changes the limits of a running container.
type ResizeContainer struct {
	Name string
	ID   string
	To   observed.Resources
}

func (LookResources) Lane() Lane                   { return Lane{Kind: LaneResize} }
func (LookResources) About() (name, id string)     { return "", "" }
func (LookResources) Changes() bool                { return false }
func (LookResources) begun(*Facts, time.Time)      {}
func (ResizePod) Lane() Lane                       { return Lane{Kind: LaneResize} }
func (ResizePod) About() (name, id string)         { return "", "" }
func (ResizePod) Changes() bool                    { return false }
func (ResizePod) begun(*Facts, time.Time)          {}
func (ResizeContainer) Lane() Lane                 { return Lane{Kind: LaneResize} }
func (a ResizeContainer) About() (name, id string) { return a.Name, a.ID }
func (ResizeContainer) Changes() bool              { return false }
func (ResizeContainer) begun(*Facts, time.Time)    {}

// If the pod is not known as resized, an effect of these kinds can only be a predecessor's.

func (LookResources) succeeded(f *Facts, s Situation, r Result, _ bool) {
	if f.Resized {
		r.Seen.At = s.Now
		f.Seen = r.Seen
	}
}

func (a ResizePod) succeeded(f *Facts, _ Situation, _ Result, _ bool) {
	if f.Resized && f.Seen != nil {
		seen := *f.Seen
		seen.Pod = a.To
		f.Seen = &seen
	}
}

func (a ResizeContainer) succeeded(f *Facts, _ Situation, _ Result, _ bool) {
	if !f.Resized {
		return
	}
	to := a.To
	put(&f.Given, a.ID, to)
	if c := f.Container(a.ID); c != nil {
		c.Resources = &to
		f.Reread(a.ID)
	}
}

const resizeError = "ResizeError"

func (LookResources) failed(f *Facts, p Problem) string { return f.resizeFailed(p) }
func (ResizePod) failed(f *Facts, p Problem) string     { return f.resizeFailed(p) }

func (a ResizeContainer) failed(f *Facts, p Problem) string {
	if f.Resized && p.Unanswered {
		delete(f.Given, a.ID)
		f.Reread(a.ID)
	}
	return f.resizeFailed(p)
}

// resizeFailed forgets what was read if the call may have worked, so that it is read again.
func (f *Facts) resizeFailed(p Problem) string {
	if f.Resized && p.Unanswered {
		f.Seen = nil
	}
	return resizeError
}

func (LookResources) isAction()   {}
func (LookResources) isEffect()   {}
func (ResizePod) isAction()       {}
func (ResizePod) isEffect()       {}
func (ResizeContainer) isAction() {}
func (ResizeContainer) isEffect() {}

// BeginResizes is called when the pod is resized for the first time.
func (f *Facts) BeginResizes() {
	f.Resized = true
	for i := range f.View.Containers {
		if c := &f.View.Containers[i]; c.State == observed.ContainerRunning {
			f.Reread(c.ID) // its limits did not matter until now
		}
	}
}

// ResizeAgain is called when other limits were allocated to the pod, and to these containers. Earlier
// readings and failures no longer count. Nor do earlier crashes of the containers: who raised a limit
// waits to see that it is enough.
func (f *Facts) ResizeAgain(containers []string) {
	f.Seen = nil
	delete(f.Failures, Lane{Kind: LaneResize})
	for _, name := range containers {
		if n, is := f.View.Newest(name); is {
			put(&f.Crash, name, backoff.Crash{Attempt: n.Attempt})
		}
	}
}
