package simapi

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/tests/check"
)

func labeled(name, node, app string) *v1.Pod {
	p := aPod(name, node)
	p.Labels = map[string]string{"app": app}
	return p
}

func TestSelectors(t *testing.T) {
	w := newWorld(t, nil)
	running := w.created(labeled("running", "n1", "web")).(*v1.Pod)
	check.Value(w.UpdateStatus(withStatus(running, runningStatus(running, metav1.NewTime(epoch), 0))))(t)
	w.created(labeled("pending", "n1", "db"))
	w.created(labeled("none", "", "web"))
	elsewhere := labeled("elsewhere", "n2", "web")
	elsewhere.Namespace = "other"
	w.created(elsewhere)
	w.created(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1.NodeSpec{Unschedulable: true}})
	w.created(&v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Reason: "Started", InvolvedObject: v1.ObjectReference{Kind: "Pod", Name: "running"}})
	w.created(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
	for _, c := range []struct {
		q    Select
		want []string
	}{
		{Select{Kind: port.PodKind}, []string{"none", "pending", "running", "elsewhere"}},
		{Select{Kind: port.PodKind, Namespace: "other"}, []string{"elsewhere"}},
		{Select{Kind: port.PodKind, Field: "metadata.namespace=other"}, []string{"elsewhere"}},
		{Select{Kind: port.PodKind, Namespace: "default", Field: "metadata.namespace=other"}, nil},
		{Select{Kind: port.PodKind, Field: "metadata.namespace!=other"}, []string{"none", "pending", "running"}},
		{Select{Kind: port.PodKind, Field: "metadata.name=running"}, []string{"running"}},
		{Select{Kind: port.PodKind, Namespace: "default", Field: "metadata.name=running"}, []string{"running"}},
		{Select{Kind: port.PodKind, Namespace: "default", Field: "metadata.name=running,spec.nodeName=n2"}, nil},
		{Select{Kind: port.PodKind, Field: "metadata.name=running,metadata.name=pending"}, nil},
		{Select{Kind: port.PodKind, Field: "spec.nodeName=n1"}, []string{"pending", "running"}},
		{Select{Kind: port.PodKind, Field: "spec.nodeName="}, []string{"none"}},
		{Select{Kind: port.PodKind, Field: "spec.nodeName=n1,spec.nodeName=n2"}, nil},
		{Select{Kind: port.PodKind, Field: "spec.nodeName!="}, []string{"pending", "running", "elsewhere"}},
		{Select{Kind: port.PodKind, Field: "spec.nodeName=n1,status.phase=Running"}, []string{"running"}},
		{Select{Kind: port.PodKind, Field: "spec.nodeName=n1,status.phase!=Running"}, []string{"pending"}},
		{Select{Kind: port.PodKind, Field: "status.podIP=10.88.0.7,spec.restartPolicy=Always,spec.schedulerName=default-scheduler,spec.serviceAccountName=default,spec.hostNetwork=false,status.nominatedNodeName="}, []string{"running"}},
		{Select{Kind: port.PodKind, Label: "app=web"}, []string{"none", "running", "elsewhere"}},
		{Select{Kind: port.PodKind, Label: "app in (db, x),app!=x"}, []string{"pending"}},
		{Select{Kind: port.PodKind, Label: "!app"}, nil},
		{Select{Kind: port.PodKind, Label: "app=web", Field: "spec.nodeName=n2"}, []string{"elsewhere"}},
		{Select{Kind: port.NodeKind, Field: "spec.unschedulable=true"}, []string{"n1"}},
		{Select{Kind: port.NodeKind, Field: "metadata.name=n2"}, nil},
		{Select{Kind: port.EventKind, Field: "involvedObject.name=running,reason=Started,type!=Warning"}, []string{"e"}},
		{Select{Kind: port.SecretKind, Field: "type=Opaque"}, []string{"s"}},
	} {
		all, version, err := w.List(c.q)
		var names []string
		for _, o := range all {
			names = append(names, o.GetName())
		}
		if err != nil || !slices.Equal(names, c.want) || version != w.Stats().Version {
			t.Errorf("%+v gives %v, %v, want %v", c.q, names, err, c.want)
		}
	}
	for _, q := range []Select{
		{Kind: port.PodKind, Field: "spec.nodeName"}, {Kind: port.PodKind, Field: "spec.color=red"}, {Kind: port.NodeKind, Field: "spec.nodeName=n"},
		{Kind: port.NodeKind, Field: "metadata.namespace=x"}, {Kind: port.NodeKind, Namespace: "x"}, {Kind: port.PodKind, Label: "a in"},
		{Kind: 0}, {Kind: 99}, {Kind: port.LeaseKind, Field: "type=x"},
	} {
		if all, _, err := w.List(q); !apierrors.IsBadRequest(err) {
			t.Errorf("%+v gives %v, %v, want a bad request", q, all, err)
		}
		if _, err := w.Watch(WatchOptions{Select: q}, func(Event) {}); !apierrors.IsBadRequest(err) {
			t.Errorf("a watch of %+v: %v, want a bad request", q, err)
		}
	}
}

// ownListener notes what a watch of the owner's tells.
type ownListener struct{ said []string }

func (l *ownListener) take(e Event) {
	name := ""
	if e.Object != nil {
		name = e.Object.GetName()
	}
	l.said = append(l.said, fmt.Sprintf("%s %s@%d", e.Type, name, e.Version))
}

func (l *ownListener) heard() []string {
	said := l.said
	l.said = nil
	return said
}

func wantSaid(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		t.Errorf("%s: heard %q, want %q", what, got, want)
	}
}

func TestOwnWatch(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.History = 3 })
	a := w.created(labeled("a", "n1", "web")).(*v1.Pod) // 2
	w.created(labeled("b", "n1", "db"))                 // 3
	var l, late, none ownListener
	stop, err := w.Watch(WatchOptions{Select: Select{Kind: port.PodKind, Label: "app=web"}, Bookmarks: time.Minute}, l.take)
	if err != nil {
		t.Fatal(err)
	}
	check.None(t, l.said, "told inside the call")
	w.v.Advance(0)
	wantSaid(t, "what there is", l.heard(), "Added a@2")
	left := check.Value(w.Update(with(a, func(p *v1.Pod) { p.Labels = map[string]string{"app": "db"} })))(w).(*v1.Pod) // 4
	check.Value(w.Update(with(left, func(p *v1.Pod) { p.Labels = map[string]string{"app": "web"} })))(t)               // 5
	w.created(labeled("c", "", "web"))                                                                                 // 6
	w.v.Advance(0)
	wantSaid(t, "in and out of the selection", l.heard(), "Deleted a@4", "Added a@5", "Added c@6")
	w.v.Advance(150 * time.Second)
	wantSaid(t, "bookmarks", l.heard(), "Bookmark @6", "Bookmark @6")

	// What is in the history can be told later.
	check.Value(w.Watch(WatchOptions{Select: Select{Kind: port.PodKind, Label: "app=web"}, Since: 3}, late.take))(t)
	w.v.Advance(0)
	wantSaid(t, "since 3", late.heard(), "Deleted a@4", "Added a@5", "Added c@6")
	for since, is := range map[uint64]func(error) bool{2: apierrors.IsResourceExpired, 7: apierrors.IsTimeout} {
		if _, err := w.Watch(WatchOptions{Select: Select{Kind: port.PodKind}, Since: since}, none.take); !is(err) {
			t.Errorf("since %d: %v", since, err)
		}
	}
	// Other kinds have histories of their own.
	if _, err := w.Watch(WatchOptions{Select: Select{Kind: port.NodeKind}, Since: 1}, none.take); err != nil {
		t.Error(err)
	}
	w.Expire()
	if _, err := w.Watch(WatchOptions{Select: Select{Kind: port.NodeKind}, Since: 1}, none.take); !apierrors.IsResourceExpired(err) {
		t.Errorf("since 1, after all was forgotten: %v", err)
	}
	if _, err := w.Watch(WatchOptions{Select: Select{Kind: port.NodeKind}, Since: 6}, none.take); err != nil {
		t.Errorf("since the newest: %v", err)
	}
	stop()
	stop()
	w.created(labeled("d", "", "web"))
	w.v.Advance(2 * time.Minute)
	wantSaid(t, "after its end", l.heard())
	wantSaid(t, "the other", late.heard(), "Added d@7")
	wantSaid(t, "those of nodes", none.heard())
}

// TestWatcherStopsItself: a callback may end its own watch, and write.
func TestWatcherStopsItself(t *testing.T) {
	w := newWorld(t, nil)
	n := 0
	var stop func()
	stop = check.Value(w.Watch(WatchOptions{Select: Select{Kind: port.PodKind}}, func(e Event) {
		if n++; n == 2 {
			stop()
			w.created(aPod("more", ""))
		}
	}))(t)
	for i := range 4 {
		w.created(aPod(fmt.Sprint("p", i), ""))
	}
	w.v.Advance(time.Second)
	check.Equal(t, n, 2, "told %d times, want 2", n)
}

func TestFollow(t *testing.T) {
	w := newWorld(t, nil)
	w.created(aPod("a", "n1"))
	w.created(aPod("b", "n2"))
	l := w.listen("n1", port.Selection{Kind: port.PodKind, Field: "spec.nodeName=n1"})
	w.v.Advance(time.Second)
	wantSaid(t, "the list", l.heard(), "11ms replaced 1")
	c := w.created(aPod("c", "")).(*v1.Pod)
	check.Fatal(t, w.Bind("default", "c", "n1"))
	check.Value(w.UpdateStatus(withStatus(w.pod(podKey("c")), runningStatus(c, metav1.NewTime(epoch), 0))))(t)
	check.Fatal(t, w.Delete(port.APIDelete{Key: podKey("a"), Grace: new(int64)}))
	w.v.Advance(time.Second)
	wantSaid(t, "changes", l.heard(), "1.001s set c@5", "1.001s set c@6", "1.001s set a@7", "1.001s deleted a@8")
	// The stream is closed: it goes on where it was, in silence.
	w.CloseWatches("n1")
	w.created(aPod("d", "n1"))
	w.v.Advance(time.Second)
	wantSaid(t, "after the stream was closed", l.heard(), "2.011s set d@9")
	// It is closed, and nobody knows what happened since.
	w.CloseWatches("n1")
	w.created(aPod("e", "n1"))
	w.Expire()
	w.v.Advance(time.Second)
	wantSaid(t, "after the history was lost", l.heard(), "3.021s replaced 3")
	l.ctx.End(fmt.Errorf("no more"))
	w.created(aPod("f", "n1"))
	w.v.Advance(time.Second)
	wantSaid(t, "after its end", l.heard())
	if len(l.ended) != 1 || port.KindOf(l.ended[0]) != port.Canceled {
		t.Errorf("ended with %v", l.ended)
	}
	if st := w.Stats(); st.Watches != 0 || st.InFlight != 0 {
		t.Errorf("left behind: %+v", st)
	}
}

// TestFollowBadSelection: it is told, again and again.
func TestFollowBadSelection(t *testing.T) {
	w := newWorld(t, nil)
	l := w.listen("n1", port.Selection{Kind: port.PodKind, Field: "spec.color=red"})
	w.v.Advance(time.Minute)
	wantSaid(t, "a bad selection", l.heard(), `10ms broken List Pod spec.color=red: invalid: field label not supported: spec.color`)
	l.ctx.End(fmt.Errorf("no more"))
	w.v.Advance(time.Minute)
	if len(l.ended) != 1 || w.Stats().InFlight != 0 {
		t.Errorf("ended %v, left behind %+v", l.ended, w.Stats())
	}
}

// TestFollowTooFarBehind: what a watch has to tell is bounded.
func TestFollowTooFarBehind(t *testing.T) {
	lag := time.Minute
	w := newWorld(t, func(c *Config) {
		c.WatchBuffer = 5
		c.ExtraLag = func(Watching) time.Duration { return lag }
	})
	l := w.listen("n1", port.Selection{Kind: port.ConfigMapKind})
	for i := range 100 {
		w.created(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("c%02d", i)}})
		w.v.Advance(time.Second)
	}
	for _, f := range w.byNode["n1"].follows {
		check.AtMost(t, len(f.queue), 5, "%d changes wait", len(f.queue))
	}
	check.AtLeast(t, len(l.objects), 30, "after 100 s a watch that is 60 s late shows %d objects", len(l.objects))
	w.v.Advance(2 * time.Minute)
	if len(l.objects) != 100 {
		t.Errorf("it came to %d objects, want 100: %q", len(l.objects), l.heard())
	}
}

// TestFollowSkips: what was overtaken may be left out, the newest never is.
func TestFollowSkips(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.WatchSkip = 1; c.WatchLag = simport.Constant(time.Second) })
	l := w.listen("n1", port.Selection{Kind: port.PodKind})
	w.v.Advance(2 * time.Second)
	wantSaid(t, "the list", l.heard(), "1.01s replaced 0")
	p := w.created(aPod("a", "n1")).(*v1.Pod)
	w.created(aPod("b", "n1"))
	for i := range 5 {
		p = check.Value(w.UpdateStatus(withStatus(p, runningStatus(p, metav1.NewTime(epoch), int32(i+1)))))(w).(*v1.Pod)
	}
	w.v.Advance(2 * time.Second)
	wantSaid(t, "the changes", l.heard(), "3s set b@3", "3s set a@8")
}

// TestBookmarksKeepAWatchFresh: a watch of a quiet selection of a busy kind goes
// on after a break, although the history has long forgotten what it told last.
func TestBookmarksKeepAWatchFresh(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.History = 20 })
	w.created(aPod("a", "n1"))
	l := w.listen("n1", port.Selection{Kind: port.PodKind, Field: "spec.nodeName=n1"})
	busy := w.created(aPod("busy", "n2")).(*v1.Pod)
	restarts := int32(0)
	churn := func(n int) {
		for range n {
			restarts++
			busy = check.Value(
				w.UpdateStatus(withStatus(busy, runningStatus(busy, metav1.NewTime(epoch), restarts))))(w).(*v1.Pod)
			w.v.Advance(10 * time.Second)
		}
	}
	churn(100)
	wantSaid(t, "the list", l.heard(), "11ms replaced 1")
	w.CloseWatches("n1")
	w.v.Advance(time.Second)
	wantSaid(t, "after a short break", l.heard())
	w.SetLink("n1", Refused)
	churn(50)
	w.SetLink("n1", Up)
	w.v.Advance(time.Minute)
	if said := l.heard(); len(said) != 3 || said[2][len(said[2])-10:] != "replaced 1" {
		t.Errorf("after a long break: %q", said)
	}
}
