package pod

import (
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
)

// noteRestart has it written down that a container is stopped to be restarted.
func (p *pod) noteRestart(a podplan.NoteRestart) {
	note := podlife.RestartNote{ID: a.ID, Cause: a.Cause}
	put(&p.facts.restartNotes, a.Name, note)
	p.deps.NoteRestart(NoteRestart{UID: p.uid, Container: a.Name, Note: note})
}

// noted takes in that it is written down.
func (p *pod) noted(m Noted) {
	if n, is := p.facts.restartNotes[m.Container]; is && n.ID == m.ID {
		n.Written = true
		p.facts.restartNotes[m.Container] = n
	}
}

// recall takes in what pods knows of restarts: it outlives this actor.
func (p *pod) recall(notes map[string]podlife.RestartNote) {
	for name, n := range notes { // order-free: each on its own
		if mine, is := p.facts.restartNotes[name]; !is || mine.ID == n.ID {
			put(&p.facts.restartNotes, name, n)
		}
	}
}
