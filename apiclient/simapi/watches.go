package simapi

import (
	"slices"

	"github.com/troupe-dev/troupe/actors/port"
)

// EventType is the kind of a change, relative to one watch's selection.
type EventType uint8

const (
	// Added: it was created, or it matches the selection now.
	Added EventType = iota + 1
	// Modified: it has a newer version.
	Modified
	// Deleted: it was removed, or it no longer matches the selection. Object is its last state,
	// with the version of that change.
	Deleted
	// Bookmark: no change; everything up to Version was reported.
	Bookmark
)

var eventTypes = [...]string{"invalid", "Added", "Modified", "Deleted", "Bookmark"}

func (t EventType) String() string {
	if int(t) < len(eventTypes) {
		return eventTypes[t]
	}
	return eventTypes[0]
}

// Event is an event of a watch.
type Event struct {
	Type EventType
	// Object is nil in a bookmark.
	Object port.APIObject
	// Version is the resource version of the change.
	Version uint64
}

// watch is one watch that follows the changes of a kind.
type watch struct {
	sel *selector
	// tell takes an event, under the lock.
	tell func(Event)
}

// see reports a change to a watch, if its selection matches.
func (w *watch) see(c *change) {
	was := c.old != nil && w.sel.matches(c.old)
	is := !c.gone && w.sel.matches(c.new)
	switch {
	case is && was:
		w.tell(Event{Modified, c.new, c.version})
	case is:
		w.tell(Event{Added, c.new, c.version})
	case was:
		w.tell(Event{Deleted, c.leaving(), c.version})
	}
}

// watches are the watches of one kind, each in the one list that its selection has an index for,
// so that a change checks few watches. All lists are ordered by the start of the watches.
type watches struct {
	onNode      map[string][]*watch
	byName      map[name][]*watch
	byNamespace map[string][]*watch
	all         []*watch
	n           int
}

func newWatches() watches {
	return watches{onNode: map[string][]*watch{}, byName: map[name][]*watch{}, byNamespace: map[string][]*watch{}}
}

func (ws *watches) add(w *watch) {
	ws.n++
	switch s := w.sel; {
	case s.onNode:
		ws.onNode[s.node] = append(ws.onNode[s.node], w)
	case s.name != "" && (s.namespace != "" || kinds[s.kind].cluster):
		n := name{s.namespace, s.name}
		ws.byName[n] = append(ws.byName[n], w)
	case s.namespace != "":
		ws.byNamespace[s.namespace] = append(ws.byNamespace[s.namespace], w)
	default:
		ws.all = append(ws.all, w)
	}
}

func (ws *watches) remove(w *watch) {
	ws.n--
	switch s := w.sel; {
	case s.onNode:
		without(ws.onNode, s.node, w)
	case s.name != "" && (s.namespace != "" || kinds[s.kind].cluster):
		without(ws.byName, name{s.namespace, s.name}, w)
	case s.namespace != "":
		without(ws.byNamespace, s.namespace, w)
	default:
		ws.all = slices.DeleteFunc(ws.all, func(x *watch) bool { return x == w })
	}
}

func without[K comparable](lists map[K][]*watch, k K, w *watch) {
	list := slices.DeleteFunc(lists[k], func(x *watch) bool { return x == w })
	if len(list) == 0 {
		delete(lists, k)
		return
	}
	lists[k] = list
}

// see reports a change to all watches that may match it.
func (ws *watches) see(c *change) {
	if ws.n == 0 {
		return
	}
	node := nodeOf(c.new)
	if c.old != nil {
		if was := nodeOf(c.old); was != node {
			seeAll(ws.onNode[was], c)
		}
	}
	seeAll(ws.onNode[node], c)
	n := nameOf(c.new)
	seeAll(ws.byName[n], c)
	seeAll(ws.byNamespace[n.namespace], c)
	seeAll(ws.all, c)
}

func seeAll(list []*watch, c *change) {
	for _, w := range list {
		w.see(c)
	}
}
