package simapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// saidOfMaps are the changes that the owner's watch of the maps tells.
func (w *world) saidOfMaps() *[]string {
	var said []string
	check.Value(w.Watch(WatchOptions{Select: Select{Kind: port.ConfigMapKind}}, func(e Event) {
		said = append(said, fmt.Sprintf("%d %s@%s", e.Type, e.Object.GetName(), e.Object.GetResourceVersion()))
	}))(w)
	return &said
}

// TestRestore: objects and versions are those of the backup, again and again, and versions are given
// a second time.
func TestRestore(t *testing.T) {
	w := newWorld(t, nil)
	w.created(aMap("kept"))
	w.created(aMap("deleted"))
	pod := w.created(aPod("web", "n1")).(*v1.Pod)
	b := w.Checkpoint()
	for range 2 {
		check.Fatal(t, w.Delete(port.APIDelete{Key: mapKey("deleted")}))
		changed := aMap("kept")
		changed.Data = map[string]string{"a": "b"}
		check.Value(w.Update(changed))(t)
		w.created(aMap("new"))
		runs := withStatus(pod, runningStatus(pod, pod.CreationTimestamp, 0))
		check.Value(w.Patch(port.APIPatch{Key: podKey("web"), From: pod, To: runs, Status: true}))(t)
		said := w.saidOfMaps()
		w.v.Advance(time.Second)
		*said = nil
		w.Restore(b)
		w.v.Advance(time.Second)
		check.Equal(t, strings.Join(*said, ", "), "3 new@7, 1 deleted@3, 2 kept@2", "the owner's watch told")
		check.Equal(t, w.Stats().Version, 4, "the version")
		if p := w.pod(podKey("web")); p != pod || w.there("new") || !w.there("deleted") {
			t.Errorf("the pod is %+v", p)
		}
		if on, _, _ := w.List(Select{Kind: port.PodKind, Field: "spec.nodeName=n1"}); len(on) != 1 {
			t.Errorf("the node has %d pods", len(on))
		}
		_, err := w.Watch(WatchOptions{Select: Select{Kind: port.ConfigMapKind}, Since: 7}, func(Event) {})
		if !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "Too large resource version: 7, current: 4") {
			t.Errorf("a watch from a later version: %v", err)
		}
	}
	check.Equal(t, w.created(aMap("again")).GetResourceVersion(), "5", "the next version")
}

// TestRestoredWatch: the port's watches break, and list the older objects.
func TestRestoredWatch(t *testing.T) {
	w := newWorld(t, nil)
	w.created(aMap("old"))
	b := w.Checkpoint()
	l := w.listen("n1", port.Selection{Kind: port.ConfigMapKind})
	w.v.Advance(time.Second)
	w.created(aMap("new"))
	a := w.create(w.ending(), "n1", "lost")
	w.v.Advance(5 * time.Millisecond)
	l.heard()
	w.Restore(b)
	w.v.Advance(5 * time.Second)
	said := l.heard()
	if len(said) != 2 || !strings.HasSuffix(said[0], "connection reset by peer") || !strings.HasSuffix(said[1], "replaced 1") {
		t.Errorf("the watch told %q", said)
	}
	if o := l.objects[mapKey("old")]; len(l.objects) != 1 || o.GetResourceVersion() != "2" {
		t.Errorf("it has %v", l.objects)
	}
	if a.said != "1.005s unavailable" || w.there("lost") {
		t.Errorf("the call that was under way: %s", a.said)
	}
	w.created(aMap("next"))
	w.v.Advance(time.Second)
	if got := l.heard(); len(got) != 1 || !strings.HasSuffix(got[0], "set next@3") {
		t.Errorf("later it told %q", got)
	}
}

// TestRestoredEvents: Events of a backup expire.
func TestRestoredEvents(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.EventTTL = time.Minute })
	w.created(&v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}})
	b := w.Checkpoint()
	w.v.Advance(2 * time.Minute)
	w.Restore(b)
	count := func() int { return w.Stats().Objects[port.EventKind] }
	check.Count(t, count(), 1, "%d Events are back")
	w.v.Advance(2 * time.Minute)
	check.Count(t, count(), 0, "%d Events never expire")
}

// TestHalfLinks: links of which one half works.
func TestHalfLinks(t *testing.T) {
	for _, c := range []struct {
		link   Link
		answer string   // of a call with a deadline after 10 s
		broken []string // what the watch says within a minute
	}{
		{NoAnswers, "11s canceled", []string{
			"9s broken Watch ConfigMap: unavailable: http2: client connection lost",
			"12.14230602s broken Watch ConfigMap: unavailable: dial tcp: i/o timeout",
		}},
		{NoWatches, "1.01s m", nil},
	} {
		t.Run(c.link.String(), func(t *testing.T) {
			w := newWorld(t, nil)
			l := w.listen("n1", port.Selection{Kind: port.ConfigMapKind})
			w.v.Advance(time.Second)
			l.heard()
			w.SetLink("n1", c.link)
			ctx := w.ending()
			a := w.create(ctx, "n1", "m")
			late := w.listen("n1", port.Selection{Kind: port.ConfigMapKind})
			w.v.AfterFunc(10*time.Second, func() { ctx.End(fmt.Errorf("gave up")) })
			w.v.Advance(time.Minute)
			if !w.there("m") || a.said != c.answer {
				t.Errorf("there: %v, answered %q, want %q", w.there("m"), a.said, c.answer)
			}
			check.Same(t, l.heard(), c.broken, "the watch told")
			if got := late.heard(); len(got) != 1 || !strings.Contains(got[0], "i/o timeout") {
				t.Errorf("a new watch told %q", got)
			}
			w.SetLink("n1", Up)
			w.v.Advance(2 * time.Minute)
			for _, x := range []*listener{l, late} {
				if x.objects[mapKey("m")] == nil {
					t.Errorf("afterwards it told %q", x.heard())
				}
			}
		})
	}
}
