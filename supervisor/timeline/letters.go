package timeline

import (
	"runtime"
	"strings"
	"time"
)

const (
	// lettersKept bounds the dead letters that are kept; more are only counted.
	lettersKept = 64
	// callersLooked bounds the stack frames that are searched for the sender.
	callersLooked = 16
)

// Letter is a dead letter: a message to a stopped actor.
type Letter struct {
	At time.Time `json:"at"`
	// From is the function that sent it; of one that was in the mailbox when the
	// actor stopped it is not known.
	From string `json:"from,omitempty"`
	// To is the path in the tree without an actor, Type that of the message.
	To   string `json:"to"`
	Type string `json:"type"`
	// Count is how often the same came in a row, until Last.
	Count int        `json:"count,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
}

// letters keeps the newest ones.
type letters struct{ kept []Letter }

func (l *letters) add(n Letter) {
	if i := len(l.kept) - 1; i >= 0 && l.kept[i].From == n.From && l.kept[i].To == n.To && l.kept[i].Type == n.Type {
		o := &l.kept[i]
		o.Count, o.Last = max(o.Count, 1)+1, &n.At
		return
	}
	if len(l.kept) == lettersKept {
		copy(l.kept, l.kept[1:])
		l.kept = l.kept[:lettersKept-1]
	}
	l.kept = append(l.kept, n)
}

const (
	module     = "github.com/troupe-dev/troupe/"
	kernelCode = module + "actors/kernel."
	thisCode   = module + "supervisor/timeline."
	// wiring connects actors: it sends on behalf of one of them.
	wiring = module + "actors/node."
)

// sender is the function on the stack that sent a message, because the kernel does not know the
// sender. Empty if the kernel returned the unread messages of a stopped actor.
func sender() string {
	var pcs [callersLooked]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	wired := ""
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, "kernel.(*cell).systemLocked"):
			return ""
		case strings.HasPrefix(f.Function, kernelCode), strings.HasPrefix(f.Function, thisCode):
		case strings.HasPrefix(f.Function, wiring):
			if wired == "" {
				wired = strings.TrimPrefix(f.Function, module)
			}
		case strings.HasPrefix(f.Function, module):
			return strings.TrimPrefix(f.Function, module)
		default:
			return wired
		}
		if !more {
			return wired
		}
	}
}
