package manifestdir

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// returns finds files that are removed and made again, by the order of events: whoever reads the directory may be too
// late to miss them. A file that is put in the place of another is no removal.
type returns struct {
	// gone are the files that are missing, by path.
	gone map[string]absence
	// again are those that are back since the last take.
	again []string
}

// absence is one file that is missing. Maybe it is not: it was moved away and is there, so that another one may have
// been exchanged with it, or its return is not told yet. old: it was missing in the last period already.
type absence struct{ maybe, old bool }

// follow goes on with an event of a file in the directory.
func (r *returns) follow(e fsnotify.Event) {
	if strings.HasPrefix(filepath.Base(e.Name), ".") { // it is not read
		return
	}
	switch _, missing := r.gone[e.Name]; {
	case e.Has(fsnotify.Create):
		if missing {
			delete(r.gone, e.Name)
			r.again = append(r.again, e.Name)
		}
	case e.Has(fsnotify.Remove), e.Has(fsnotify.Rename):
		if r.gone == nil || len(r.gone) >= MaxFiles {
			r.gone = map[string]absence{}
		}
		r.gone[e.Name] = absence{maybe: e.Has(fsnotify.Rename) && exists(e.Name)}
	}
}

// take is what is back. All events that there were have been followed.
func (r *returns) take() []string {
	for name, a := range r.gone { // order-free: each on its own
		if a.maybe {
			delete(r.gone, name)
		}
	}
	again := r.again
	r.again = nil
	return again
}

// age forgets what is missing for a whole period: it was read since, and what comes there is new.
func (r *returns) age() {
	for name, a := range r.gone { // order-free: each on its own
		if a.old {
			delete(r.gone, name)
			continue
		}
		a.old = true
		r.gone[name] = a
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
