package simapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/tests/check"
)

// modelPod is what the model knows of a pod: the rules of the API written down
// a second time, as simply as can be.
type modelPod struct {
	uid       types.UID
	label     string
	node      string
	phase     v1.PodPhase
	image     int
	finalizer bool
	gen       int64
	// grace is -1 until it is deleted; ends is when it is over then.
	grace int64
	ends  time.Time
}

// model is a server, and what ought to be in it.
type model struct {
	*rapid.T
	w    *world
	pods map[string]*modelPod
	// old are versions of pods that a writer may still have.
	old map[string][]*v1.Pod
	// listeners are watches that must come to what is there, and own those of the
	// owner's.
	listeners []*checkedListener
	own       []*ownMirror
}

// checkedListener holds a watch of the port to what it may tell.
type checkedListener struct {
	*listener
	sel    port.Selection
	newest map[types.UID]uint64
}

func (l *checkedListener) check(t *rapid.T, c port.APIChange) {
	see := func(o port.APIObject) {
		if v := versionOf(o); v < l.newest[o.GetUID()] {
			t.Fatalf("%v: %s goes back from %d to %d", l.sel, o.GetName(), l.newest[o.GetUID()], v)
		} else {
			l.newest[o.GetUID()] = v
		}
	}
	switch c := c.(type) {
	case port.APIReplaced:
		for _, o := range c.Objects {
			see(o)
		}
	case port.APISet:
		see(c.Object)
	case port.APIDeleted:
		see(c.Object)
	case port.APIBroken:
	}
}

// ownMirror is a copy of what is selected, kept by a watch of the owner's.
type ownMirror struct {
	q       Select
	objects map[string]port.APIObject
}

func (m *ownMirror) take(t *rapid.T, e Event) {
	name := e.Object.GetName()
	_, known := m.objects[name]
	if known == (e.Type == Added) {
		t.Fatalf("%+v: %s of %s, which is known: %v", m.q, e.Type, name, known)
	}
	if e.Type == Deleted {
		delete(m.objects, name)
		return
	}
	m.objects[name] = e.Object
}

var modelNames = []string{"a", "b", "c"}

// names of nodes that pods are bound to; the first has watches.
var modelNodes = []string{"", "n1", "n2"}

func newModel(t *rapid.T, tb testing.TB) *model {
	m := &model{T: t, pods: map[string]*modelPod{}, old: map[string][]*v1.Pod{}}
	m.w = newWorld(tb, func(c *Config) {
		c.WatchLag = simport.Lognormal(time.Second, 10*time.Second)
		c.WatchSkip, c.WatchBuffer, c.History = 0.3, 4, 8
	})
	for i, sel := range []port.Selection{
		{Kind: port.PodKind}, {Kind: port.PodKind, Field: "spec.nodeName=n1"}, {Kind: port.PodKind, Namespace: "default", Field: "metadata.name=a"},
		{Kind: port.PodKind, Field: "status.phase=Pending"},
	} {
		l := &checkedListener{sel: sel, newest: map[types.UID]uint64{}, listener: &listener{w: m.w, ctx: m.w.ending(), objects: map[port.APIKey]port.APIObject{}}}
		m.w.Client(fmt.Sprint("n", i%2+1)).Watch(l.ctx, sel, func(c port.APIChange) { l.check(t, c); l.take(c) }, func(error) {})
		m.listeners = append(m.listeners, l)
	}
	for _, q := range []Select{{Kind: port.PodKind}, {Kind: port.PodKind, Label: "x=1"}, {Kind: port.PodKind, Field: "spec.nodeName="}} {
		o := &ownMirror{q: q, objects: map[string]port.APIObject{}}
		check.Value(m.w.Watch(WatchOptions{Select: q}, func(e Event) { o.take(t, e) }))(t)
		m.own = append(m.own, o)
	}
	return m
}

// reason is an error in one word.
func reason(err error) string { return string(apierrors.ReasonForError(err)) }

// wants fails unless an error is the one that the model expects.
func (m *model) wants(what string, err error, want metav1.StatusReason) {
	m.Helper()
	if err == nil && want != "" || err != nil && reason(err) != string(want) {
		m.Fatalf("%s: %v, want %q", what, err, want)
	}
}

func (m *model) keep(o port.APIObject, err error) {
	if err == nil {
		p := o.(*v1.Pod)
		m.old[p.Name] = append(m.old[p.Name], p)
	}
}

func (m *model) now() time.Time { return m.w.v.Now().Truncate(time.Second) }

func (m *model) create(t *rapid.T) {
	name, node := rapid.SampledFrom(modelNames).Draw(t, "name"), rapid.SampledFrom(modelNodes).Draw(t, "node")
	p := labeled(name, node, "web")
	finalizer := rapid.Bool().Draw(t, "finalizer")
	if finalizer {
		p.Finalizers = []string{"test/f"}
	}
	o, err := m.w.Create(p)
	m.keep(o, err)
	if m.pods[name] != nil {
		m.wants("create", err, metav1.StatusReasonAlreadyExists)
		return
	}
	m.wants("create", err, "")
	m.pods[name] = &modelPod{uid: o.GetUID(), node: node, phase: v1.PodPending, finalizer: finalizer, gen: 1, grace: -1}
}

// version draws a version of a pod that a writer may have, nil if there never was one.
func (m *model) version(t *rapid.T) *v1.Pod {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	if len(m.old[name]) == 0 {
		return nil
	}
	if rapid.IntRange(0, 3).Draw(t, "newest") > 0 {
		if o, err := m.w.Get(podKey(name)); err == nil {
			return o.(*v1.Pod)
		}
	}
	return m.old[name][rapid.IntRange(0, len(m.old[name])-1).Draw(t, "version")]
}

// write is a write of any kind to a version that may be old.
func (m *model) write(t *rapid.T) {
	from := m.version(t)
	if from == nil {
		return
	}
	is := m.pods[from.Name]
	newest := false
	if o, err := m.w.Get(podKey(from.Name)); err == nil {
		newest = o.GetResourceVersion() == from.ResourceVersion
	}
	missing, another := is == nil, is != nil && is.uid != from.UID
	to := from.DeepCopy()
	key := podKey(from.Name)
	value := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "value"))
	var o port.APIObject
	var err error
	var want metav1.StatusReason
	verb := rapid.SampledFrom([]string{"update", "label", "image", "phase", "node", "unfinalize"}).Draw(t, "verb")
	then := func() {}
	patch := func(status bool) {
		o, err = m.w.Patch(port.APIPatch{Key: key, From: from, To: to, Status: status})
	}
	switch verb {
	case "update":
		to.Labels = map[string]string{"app": "web", "x": value}
		to.Finalizers = from.Finalizers
		o, err = m.w.Update(to)
		if !missing && !another && !newest {
			want = metav1.StatusReasonConflict
		}
		then = func() { is.label = value }
	case "label":
		to.Labels = map[string]string{"app": "web", "x": value}
		patch(false)
		if from.Labels["x"] != value {
			then = func() { is.label = value }
		}
	case "image":
		n := from.Generation + int64(value[0])
		to.Spec.Containers[0].Image = fmt.Sprint("registry.test/app:", n)
		patch(false)
		if from.Spec.Containers[0].Image != to.Spec.Containers[0].Image {
			then = func() {
				if is.image != int(n) {
					is.image, is.gen = int(n), is.gen+1
				}
			}
		}
	case "phase":
		to.Status.Phase = []v1.PodPhase{v1.PodRunning, v1.PodSucceeded, v1.PodFailed}[value[0]-'0']
		patch(true)
		if from.Status.Phase != to.Status.Phase {
			then = func() { is.phase = to.Status.Phase }
		}
	case "node":
		to.Spec.NodeName = "n3"
		patch(false)
		want = metav1.StatusReasonInvalid
	case "unfinalize":
		to.Finalizers = nil
		patch(false)
		if len(from.Finalizers) > 0 {
			then = func() { is.finalizer = false }
		}
	}
	switch {
	case missing:
		want = metav1.StatusReasonNotFound
	case another:
		want = metav1.StatusReasonConflict
	}
	m.wants(verb, err, want)
	if err != nil {
		return
	}
	then()
	m.keep(o, err)
	m.endIfOver(from.Name)
}

// endIfOver takes out what is deleted, has no grace left and no finalizer.
func (m *model) endIfOver(name string) {
	if p := m.pods[name]; p != nil && p.grace == 0 && !p.finalizer {
		delete(m.pods, name)
	}
}

func (m *model) bind(t *rapid.T) {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	p := m.pods[name]
	err := m.w.Bind("default", name, "n1")
	switch {
	case p == nil:
		m.wants("bind", err, metav1.StatusReasonNotFound)
	case p.node != "" || p.grace >= 0:
		m.wants("bind", err, metav1.StatusReasonConflict)
	default:
		m.wants("bind", err, "")
		p.node = "n1"
	}
}

func (m *model) delete(t *rapid.T) {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	p := m.pods[name]
	d := port.APIDelete{Key: podKey(name)}
	if rapid.Bool().Draw(t, "asks") {
		d.Grace = new(rapid.SampledFrom([]int64{0, 0, 1, 5, 40}).Draw(t, "grace"))
	}
	wrong := rapid.IntRange(0, 4).Draw(t, "wrong") == 0
	if wrong {
		d.UID = "another"
	}
	err := m.w.Delete(d)
	switch {
	case p == nil:
		m.wants("delete", err, metav1.StatusReasonNotFound)
		return
	case wrong:
		m.wants("delete", err, metav1.StatusReasonConflict)
		return
	}
	m.wants("delete", err, "")
	switch {
	case p.grace < 0:
		p.gen++
		switch {
		case p.node == "" || p.phase == v1.PodSucceeded || p.phase == v1.PodFailed:
			p.grace = 0
		case d.Grace != nil:
			p.grace = *d.Grace
		default:
			p.grace = 30
		}
		p.ends = m.now().Add(time.Duration(p.grace) * time.Second)
	case d.Grace != nil && *d.Grace < p.grace:
		p.ends = p.ends.Add(time.Duration(*d.Grace-p.grace) * time.Second)
		p.grace = *d.Grace
		if p.ends.Before(m.now()) {
			p.ends, p.grace = m.now(), min(p.grace, 1)
		}
	}
	m.endIfOver(name)
}

// trouble is what befalls watches.
func (m *model) trouble(t *rapid.T) {
	node := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")
	switch rapid.IntRange(0, 4).Draw(t, "trouble") {
	case 0:
		m.w.SetLink(node, rapid.SampledFrom([]Link{Refused, Silent}).Draw(t, "link"))
	case 1:
		m.w.SetLink(node, Up)
	case 2:
		m.w.CloseWatches(node)
	case 3:
		m.w.Expire()
	case 4:
		m.w.SetDown(true)
		m.w.SetDown(false)
	}
}

func (m *model) pass(t *rapid.T) {
	m.w.v.Advance(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ms")) * time.Millisecond)
}

// check compares what is there with what ought to be.
func (m *model) check(*rapid.T) {
	all := check.Value(Objects[*v1.Pod](m.w.Server, Select{}))(m)
	names := []string{}
	for _, p := range all {
		names = append(names, p.Name)
		want := m.pods[p.Name]
		if want == nil {
			m.Fatalf("%s is there", p.Name)
		}
		is := modelPod{uid: p.UID, label: p.Labels["x"], node: p.Spec.NodeName, phase: p.Status.Phase, finalizer: len(p.Finalizers) > 0, gen: p.Generation, grace: -1, image: want.image}
		if want.image != 0 && p.Spec.Containers[0].Image != fmt.Sprint("registry.test/app:", want.image) {
			m.Fatalf("%s has image %s, want %d", p.Name, p.Spec.Containers[0].Image, want.image)
		}
		if p.DeletionTimestamp != nil {
			is.grace, is.ends = *p.DeletionGracePeriodSeconds, p.DeletionTimestamp.Time
		}
		check.Fatal(m, check.Is(is, *want, "%s", p.Name))
	}
	if want := slices.Sorted(maps.Keys(m.pods)); !slices.Equal(names, want) {
		m.Fatalf("there are %v, want %v", names, want)
	}
}

// settle ends all trouble and holds the watches to what is there.
func (m *model) settle() {
	m.w.SetLink("n1", Up)
	m.w.SetLink("n2", Up)
	m.w.v.Advance(5 * time.Minute)
	for _, l := range m.listeners {
		all, _ := check.Values(m.w.List(Select{Kind: l.sel.Kind, Namespace: l.sel.Namespace, Field: l.sel.Field}))(m)
		m.same(l.sel.String(), all, slices.Collect(maps.Values(l.objects)))
	}
	for _, o := range m.own {
		all, _ := check.Values(m.w.List(o.q))(m)
		m.same(fmt.Sprintf("%+v", o.q), all, slices.Collect(maps.Values(o.objects)))
	}
}

func (m *model) same(what string, want, got []port.APIObject) {
	m.Helper()
	text := func(list []port.APIObject) string {
		var out []string
		for _, o := range list {
			out = append(out, o.GetName()+"@"+o.GetResourceVersion())
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	check.Fatal(m, check.Is(text(got), text(want), "%s came to", what))
}

// TestModel runs random writes and random trouble against the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, t)
		rt.Repeat(map[string]func(*rapid.T){
			"create": m.create, "write": m.write, "write again": m.write, "bind": m.bind, "delete": m.delete,
			"trouble": m.trouble, "pass": m.pass, "": m.check,
		})
		m.settle()
	})
}
