package simapi

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// name identifies an object within its kind.
type name struct{ namespace, name string }

// entry is one stored object.
type entry struct {
	// object is its newest version. Never changed; replaced.
	object port.APIObject
	// at is its index in its list of table.onNode.
	at int
}

// table is all objects of one kind.
type table struct {
	kind    port.APIKind
	objects map[name]*entry
	// onNode has the pods of each node, unbound ones under "".
	//
	// Invariant: onNode[spec.nodeName][e.at] == e for every pod.
	onNode  map[string][]*entry
	history history
	watches watches
}

func newTable(kind port.APIKind, history int) *table {
	t := &table{kind: kind, objects: map[name]*entry{}, watches: newWatches()}
	t.history.limit, t.history.floor = history, firstVersion
	if kind == port.PodKind {
		t.onNode = map[string][]*entry{}
	}
	return t
}

func nameOf(o port.APIObject) name {
	m := metaOf(o)
	return name{m.Namespace, m.Name}
}

// put makes next the newest version of an object.
func (t *table) put(next port.APIObject) {
	n := nameOf(next)
	e := t.objects[n]
	if e == nil {
		e = &entry{object: next}
		t.objects[n] = e
		t.index(e)
		return
	}
	if nodeOf(e.object) != nodeOf(next) {
		t.unindex(e)
		e.object = next
		t.index(e)
		return
	}
	e.object = next
}

// drop removes an object.
func (t *table) drop(n name) {
	t.unindex(t.objects[n])
	delete(t.objects, n)
}

func (t *table) index(e *entry) {
	if t.onNode == nil {
		return
	}
	node := nodeOf(e.object)
	e.at = len(t.onNode[node])
	t.onNode[node] = append(t.onNode[node], e)
}

func (t *table) unindex(e *entry) {
	if t.onNode == nil {
		return
	}
	node := nodeOf(e.object)
	es := t.onNode[node]
	last := len(es) - 1
	es[e.at] = es[last]
	es[e.at].at = e.at
	es[last] = nil
	if last == 0 {
		delete(t.onNode, node)
		return
	}
	t.onNode[node] = es[:last]
}

// nodeOf is the node of a pod, and empty for other kinds.
func nodeOf(o port.APIObject) string {
	if p, ok := o.(*v1.Pod); ok {
		return p.Spec.NodeName
	}
	return ""
}

// list returns the selected objects, ordered by namespace and name.
func (t *table) list(sel *selector) []port.APIObject {
	var found []port.APIObject
	switch {
	case sel.name != "" && (sel.namespace != "" || kinds[t.kind].cluster):
		if e := t.objects[name{sel.namespace, sel.name}]; e != nil && sel.matches(e.object) {
			found = append(found, e.object)
		}
		return found
	case sel.onNode:
		for _, e := range t.onNode[sel.node] {
			if sel.matches(e.object) {
				found = append(found, e.object)
			}
		}
	default:
		found = make([]port.APIObject, 0, len(t.objects))
		for _, e := range t.objects {
			if sel.matches(e.object) {
				found = append(found, e.object)
			}
		}
	}
	slices.SortFunc(found, func(a, b port.APIObject) int {
		x, y := metaOf(a), metaOf(b)
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return found
}
