package apicontract

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// view is what one watch told, held to the rules of the port. Its fields belong
// to the suite's lock.
type view struct {
	s    *suite
	sel  port.Selection
	stop context.CancelFunc

	busy     bool // a callback is running
	replaced int
	broken   int
	objects  map[port.APIKey]port.APIObject
	// newest is the newest version seen of each object, whether it is there or not.
	newest map[types.UID]uint64
	// told counts the changes; ended the calls of done, with what the last one said.
	told, ended int
	err         error
}

// watch begins a watch, which ends with the test.
func (s *suite) watch(sel port.Selection) *view {
	v := &view{s: s, sel: sel, objects: map[port.APIKey]port.APIObject{}, newest: map[types.UID]uint64{}}
	ctx, cancel := s.context()
	v.stop = cancel
	inside := s.Until != nil
	s.API.Watch(ctx, sel, func(c port.APIChange) {
		s.mu.Lock()
		if inside {
			s.Errorf("watch %v: told inside the call", sel)
		}
		if v.busy {
			s.Errorf("watch %v: told by two goroutines at once", sel)
		}
		v.busy = true
		v.take(c)
		s.mu.Unlock()
		s.mu.Lock() // a window in which a second callback would be seen
		v.busy = false
		s.mu.Unlock()
	}, func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		v.ended++
		v.err = err
	})
	if s.Until != nil { // elsewhere another goroutine may be reading it
		inside = false
	}
	s.Cleanup(func() {
		cancel()
		s.eventually("the watch ends", func() bool { return v.ended > 0 })
	})
	return v
}

// started is watch, with its first list here.
func (s *suite) started(sel port.Selection) *view {
	s.Helper()
	v := s.watch(sel)
	s.eventually("the watch lists", func() bool { return v.replaced > 0 })
	return v
}

func (v *view) take(c port.APIChange) {
	v.told++
	check.AtMost(v.s, v.ended, 0, "watch %v: told %T after its end", v.sel, c)
	switch c := c.(type) {
	case port.APIReplaced:
		v.replaced++
		clear(v.objects)
		for _, o := range c.Objects {
			v.set("Replaced", o)
		}
	case port.APISet:
		v.set("Set", c.Object)
	case port.APIDeleted:
		v.check("Deleted", c.Object)
		delete(v.objects, port.APIKeyOf(c.Object))
	case port.APIBroken:
		v.broken++
		if c.Err == nil {
			v.s.Errorf("watch %v: broken for no reason", v.sel)
		}
	}
}

// set notes an object, which must not be older than what is known of it.
func (v *view) set(how string, o port.APIObject) {
	v.check(how, o)
	version := versionOf(v.s, o)
	if version < v.newest[o.GetUID()] {
		v.s.Errorf("watch %v: %s of %s goes back from version %d to %d", v.sel, how, port.APIKeyOf(o), v.newest[o.GetUID()], version)
	}
	v.newest[o.GetUID()] = version
	v.objects[port.APIKeyOf(o)] = o
}

func (v *view) check(how string, o port.APIObject) {
	k := port.APIKeyOf(o)
	if v.replaced == 0 {
		v.s.Errorf("watch %v: %s of %s came before the first Replaced", v.sel, how, k)
	}
	if k.Kind != v.sel.Kind || v.sel.Namespace != "" && k.Namespace != v.sel.Namespace {
		v.s.Errorf("watch %v: %s of %s, which isn't selected", v.sel, how, k)
	}
}

// shows lets time pass until the watch tells of an object that ok accepts.
func (v *view) shows(what string, k port.APIKey, ok func(port.APIObject) bool) {
	v.s.Helper()
	v.s.eventually("watch shows "+k.String()+" "+what, func() bool { return v.objects[k] != nil && ok(v.objects[k]) })
}

// reaches lets time pass until the watch shows that version of o, or a newer one.
func (v *view) reaches(o port.APIObject) {
	v.s.Helper()
	want := versionOf(v.s, o)
	v.shows("in version "+o.GetResourceVersion(), port.APIKeyOf(o), func(is port.APIObject) bool {
		return is.GetUID() == o.GetUID() && versionOf(v.s, is) >= want
	})
}

// loses lets time pass until the watch no longer shows an object.
func (v *view) loses(k port.APIKey) {
	v.s.Helper()
	v.s.eventually("watch no longer shows "+k.String(), func() bool { return v.replaced > 0 && v.objects[k] == nil })
}

// names are the names of what is shown, sorted.
func (v *view) names() []string {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	var names []string
	for _, o := range v.objects {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	return names
}

// keys are the keys of what is shown.
func (v *view) keys() []port.APIKey {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	return slices.Collect(maps.Keys(v.objects))
}

// versionOf is the resourceVersion, a number that only grows: the API has
// guaranteed that order since v1.35 (KEP-5504).
func versionOf(s *suite, o port.APIObject) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		s.Errorf("%s: resourceVersion: %v", port.APIKeyOf(o), err)
	}
	return n
}
