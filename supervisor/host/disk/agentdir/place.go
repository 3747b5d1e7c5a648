package agentdir

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// Place is where a directory is that people remove, or mount another file system over, such as that of logs.
type Place struct {
	path string
	mode fs.FileMode

	// turn has who looks at what is there: on a disk that hangs it is one.
	turn sync.Mutex
	// mu guards the rest, and is never held for long.
	mu     sync.Mutex
	last   *Dir // nil for none
	closed bool
}

// At is a place of the agent. Nothing is made or opened yet.
func At(path string, mode fs.FileMode) *Place { return &Place{path: path, mode: mode} }

// Dir opens the directory that is there now, and makes it if there is none. One that was there before is closed when
// nobody uses it any more, as each os.Root is.
func (p *Place) Dir() (*Dir, error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	last, closed := p.last, p.closed
	p.mu.Unlock()
	switch {
	case closed:
		return nil, fs.ErrClosed
	case last != nil && last.isAt(p.path):
		return last, nil
	}
	a, err := Open(p.path, p.mode)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(fs.ErrClosed, a.Root.Close())
	}
	p.last = a
	return a, nil
}

// Close lets go of the directory. Calls under way, and later ones, fail. It does not wait for those that hang.
func (p *Place) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.last == nil {
		return nil
	}
	return p.last.Root.Close()
}

// isAt says whether the directory is what a path leads to.
func (a *Dir) isAt(path string) bool {
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	held, err := a.Root.Stat(".")
	return err == nil && os.SameFile(there, held)
}
