package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// StopContainer sends the stop signal and kills after Grace. A second one may
// overlap a first whose kill would come later; N counts them.
type StopContainer struct {
	Name  string
	ID    string
	Grace time.Duration
	N     int
	// Why is for people, and ends up in the Killing event.
	Why string
}

func (a StopContainer) Lane() Lane               { return Lane{Kind: LaneStop, Name: a.ID, N: a.N} }
func (a StopContainer) About() (name, id string) { return a.Name, a.ID }
func (StopContainer) Changes() bool              { return true }

func (a StopContainer) begun(f *Facts, now time.Time) {
	a.asked(f, now)
	at := now.Add(a.Grace)
	if old, ok := f.KillAt[a.ID]; !ok || at.Before(old) {
		put(&f.KillAt, a.ID, at)
	}
}

func (a StopContainer) asked(f *Facts, at time.Time) {
	if _, is := f.StopBegan[a.ID]; !is {
		put(&f.StopBegan, a.ID, at)
	}
}

func (a StopContainer) succeeded(f *Facts, s Situation, _ Result, _ bool) {
	put(&f.Stopped, a.ID, s.Now)
	delete(f.KillAt, a.ID)
	if c := f.Container(a.ID); c != nil && c.State != observed.ContainerExited {
		f.Reread(a.ID)
	}
}

func (a StopContainer) failed(f *Facts, _ Problem) string {
	delete(f.KillAt, a.ID)
	f.Reread(a.ID)
	return "StopContainerError"
}

func (StopContainer) isAction() {}
func (StopContainer) isEffect() {}
