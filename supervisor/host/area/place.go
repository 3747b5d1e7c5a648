package area

import (
	"io/fs"
	"os"
	"sync"
)

// Place is where an area is that people remove, or mount another file system over, such as that of logs.
type Place struct {
	path string
	mode fs.FileMode

	mu     sync.Mutex
	last   *Area // nil for none
	closed bool
}

// At is a place of the agent. Nothing is made or opened yet.
func At(path string, mode fs.FileMode) *Place { return &Place{path: path, mode: mode} }

// Area opens the directory that is there now, and makes it if there is none. One that was there before is closed when
// nobody uses it any more, as each os.Root is.
func (p *Place) Area() (*Area, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, fs.ErrClosed
	case p.last != nil && p.last.isAt(p.path):
		return p.last, nil
	}
	a, err := Open(p.path, p.mode)
	if err == nil {
		p.last = a
	}
	return a, err
}

// Close lets go of the directory. Calls under way, and later ones, fail.
func (p *Place) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.last == nil {
		return nil
	}
	return p.last.Root.Close()
}

// isAt says whether the area is what a path leads to.
func (a *Area) isAt(path string) bool {
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	held, err := a.Root.Stat(".")
	return err == nil && os.SameFile(there, held)
}
