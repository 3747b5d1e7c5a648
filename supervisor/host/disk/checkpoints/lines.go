package checkpoints

import (
	"context"
	"sync"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// lines have the calls of each checkpoint run one at a time, in the order of the requests. A disk may hang for longer
// than an actor waits, and the actor then asks again, for hours. So there is one goroutine for each checkpoint, with
// one open file, and of the calls of a verb that wait one after another only the newest is kept.
type lines struct {
	mu sync.Mutex
	// waiting are the calls that have not begun, by the name of the checkpoint. A name is there while a call of it runs.
	waiting map[string][]call
}

// call is one call of a checkpoint.
type call struct {
	verb string
	// do makes it and answers. replaced answers instead if a newer call has taken its place.
	do, replaced func()
}

// add makes a call when those before it have ended.
func (l *lines) add(ctx context.Context, name string, c call) {
	l.mu.Lock()
	before, busy := l.waiting[name]
	var old func()
	switch last := len(before) - 1; {
	case !busy:
		if l.waiting == nil {
			l.waiting = map[string][]call{}
		}
		l.waiting[name] = nil
	case last >= 0 && before[last].verb == c.verb:
		old, before[last] = before[last].replaced, c
	default:
		l.waiting[name] = append(before, c)
	}
	l.mu.Unlock()
	if old != nil {
		old()
	}
	if !busy {
		rescue.Go(ctx, func() { l.run(name, c) }, rescue.Answered)
	}
}

// run makes a call, and those that have come meanwhile. None of them panics.
func (l *lines) run(name string, c call) {
	for more := true; more; {
		c.do()
		c, more = l.next(name)
	}
}

// next is the call whose turn it is, if there is one.
func (l *lines) next(name string) (c call, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting[name]
	if len(waiting) == 0 {
		delete(l.waiting, name)
		return call{}, false
	}
	l.waiting[name] = waiting[1:]
	return waiting[0], true
}
