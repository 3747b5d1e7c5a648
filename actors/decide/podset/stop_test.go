package podset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestFate(t *testing.T) {
	const round = 5
	stop := &podlife.Stop{At: now, Grace: time.Second}
	orphan := func(e *Entry) { e.Origin, e.Removal, e.Stop = podspec.Orphan, Saved, stop }
	comesBack := func(e *Entry) {
		e.Removal, e.Stop, e.Wanted, e.DesiredAgain = Saved, stop, round, &Want{made("a"), podspec.File}
	}
	type change = func(e *Entry)
	with := func(all ...change) change {
		return func(e *Entry) {
			for _, f := range all {
				f(e)
			}
		}
	}
	in := func(s State) change { return func(e *Entry) { e.State = s } }
	of := func(o podspec.Origin) change { return func(e *Entry) { e.Origin = o } }
	wanted := func(e *Entry) { e.Wanted = round }
	earlier := func(e *Entry) { e.HasPreviousLife = true }
	stopping := func(e *Entry) { e.Stop, e.Removal = stop, Saved }
	for _, c := range []struct {
		name    string
		change  change
		unheard bool
		want    NextAction
	}{
		{"a pod that is wanted stays", with(in(Running), wanted), false, Stay},
		{"and one of a source that was not heard yet", in(Running), true, Stay},
		{"one that has ended stays as long as it is wanted", with(in(Finished), wanted), false, Stay},

		{"one that waits is forgotten", in(Waiting), false, Forget},
		{"one that was rejected too", in(Rejected), false, Forget},
		{"a static pod is stopped", in(Running), false, Stop},
		{"once", with(in(Running), stopping), false, Pass},
		{"a pod of the apiserver is released", with(in(Running), of(podspec.API)), false, Release},
		{"also while it stops", with(in(Running), of(podspec.API), func(e *Entry) { e.Stop = stop }), false, Release},
		{"but not twice", with(in(Running), of(podspec.API), stopping), false, Pass},
		{"one that has ended is collected", in(Finished), false, Collect},
		{"also one of the apiserver", with(in(Finished), of(podspec.API)), false, Collect},
		{"once", in(Collecting), false, Pass},

		{"an orphan waits for its actor", with(in(Waiting), orphan), false, Pass},
		{"an orphan is stopped from the beginning", with(in(Running), orphan), false, Pass},
		{"and is collected whichever source was heard", with(in(Finished), orphan), true, Collect},

		{"one that has ended and is wanted again returns", with(in(Finished), comesBack), false, Return},
		{"also an orphan whose source was heard late", with(in(Finished), orphan, comesBack), false, Return},
		{"one that is wanted again has to end first", with(in(Running), comesBack), false, Stay},
		{"and one that is being collected, to be collected", with(in(Collecting), comesBack), false, Stay},
		{"what was wanted again in an earlier round only is collected", with(in(Finished), comesBack, func(e *Entry) {
			e.Wanted = round - 1
		}), false, Collect},
		{"one that waits for another life and is not wanted leaves remains", with(in(Waiting), earlier), false, Discard},
		{"also if it was rejected for it", with(in(Rejected), earlier), false, Discard},
	} {
		e := &Entry{Pod: made("a"), Origin: podspec.File, Wanted: round - 1}
		c.change(e)
		check.Equal(t, e.NextAction(round, !c.unheard), c.want, "%s", c.name)
	}
}

// TestLingers: the logs of a pod that ended by itself can be read for a while. A static pod may come back.
func TestLingers(t *testing.T) {
	for _, c := range []struct {
		name   string
		alone  bool
		origin podspec.Origin
		want   bool
	}{
		{"it ended by itself", true, podspec.API, true}, {"it was stopped", false, podspec.API, false},
		{"a static pod", true, podspec.File, false},
	} {
		e := &Entry{Pod: made("a"), Origin: c.origin, Alone: c.alone}
		check.Equal(t, e.Lingers(), c.want, "%s", c.name)
	}
}

// TestDeletion: a shorter grace period of a later version counts from when the deletion began.
func TestDeletion(t *testing.T) {
	p := made("a")
	if s, since := Deletion(p, time.Time{}, now); s != nil || !since.IsZero() {
		t.Errorf("a pod that is not deleted: %v since %v", s, since)
	}
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, new(int64(30))
	s, since := Deletion(p, time.Time{}, now)
	if s == nil || *s != (podlife.Stop{At: now, Grace: 30 * time.Second, Why: "the pod was deleted"}) || !since.Equal(now) {
		t.Errorf("%+v since %v", s, since)
	}
	p.DeletionGracePeriodSeconds = new(int64(10))
	later := now.Add(4 * time.Second)
	next, since := Deletion(p, since, later)
	if !since.Equal(now) {
		t.Errorf("the deletion began at %v", since)
	}
	if got := Sooner(s, *next); !got.At.Equal(now) || got.Grace != 10*time.Second {
		t.Errorf("it ends %v after %v, want 10s after the deletion began", got.Grace, got.At)
	}
	p.DeletionGracePeriodSeconds = new(int64(0))
	if force, _ := Deletion(p, since, later); !Sooner(s, *force).At.Equal(later) || Sooner(s, *force).Grace != 0 {
		t.Errorf("by force: %+v, want no grace period from now on", *force)
	}
}

// TestInTheWay: a pod that the apiserver has no more has no grace period left while another of its name waits.
func TestInTheWay(t *testing.T) {
	type setting struct{ old, next *Entry }
	graceful := &podlife.Stop{At: now, Grace: time.Minute}
	for _, c := range []struct {
		name   string
		change func(s *setting)
		want   bool
	}{
		{"a pod that is gone, and its successor waits", func(*setting) {}, true},
		{"the successor is a static pod", func(s *setting) { s.next.Origin = podspec.File }, true},
		{"an orphan of the apiserver that has not begun", func(s *setting) {
			s.old.Origin, s.old.State = podspec.Orphan, Waiting
			s.old.Pod.Annotations = map[string]string{podspec.AnnotationSource: "api"}
		}, true},
		{"an orphan that may be of a manifest", func(s *setting) { s.old.Origin = podspec.Orphan }, false},
		{"an orphan of a manifest", func(s *setting) {
			s.old.Origin = podspec.Orphan
			s.old.Pod.Annotations = map[string]string{podspec.AnnotationSource: "file"}
		}, false},
		{"a static pod, whose manifest was changed", func(s *setting) {
			s.old.Origin, s.next.Origin = podspec.File, podspec.File
		}, false},
		{"a pod that is being deleted, and still there", func(s *setting) { s.old.Removal = Kept }, false},
		{"it is there again", func(s *setting) { s.old.DesiredAgain = &Want{s.old.Pod, podspec.API} }, false},
		{"it is stopped by force already", func(s *setting) { s.old.Stop = &podlife.Stop{At: now} }, false},
		{"nothing of it runs", func(s *setting) { s.old.State = Finished }, false},
		{"another name", func(s *setting) { s.next.Pod.Name = "db" }, false},
		{"the successor was refused", func(s *setting) { s.next.State = Rejected }, false},
		{"the successor is being deleted", func(s *setting) { s.next.Stop = graceful }, false},
	} {
		s := setting{
			old:  &Entry{Pod: made("web#1"), Origin: podspec.API, State: Running, Stops: Stops{Stop: graceful, Removal: Saved}},
			next: &Entry{Pod: made("web#2"), Origin: podspec.API, State: Waiting},
		}
		c.change(&s)
		got := InTheWay(slices.Values([]*Entry{s.next, s.old, {Pod: made("other"), Origin: podspec.API, State: Waiting}}))
		if want := []*Entry{s.old}; c.want && !slices.Equal(got, want) || !c.want && len(got) > 0 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSooner(t *testing.T) {
	first := podlife.Stop{At: now, Grace: time.Minute, Why: "evicted"}
	for _, c := range []struct {
		name   string
		before *podlife.Stop
		next   podlife.Stop
		want   podlife.Stop
	}{
		{"the first stop counts as it is", nil, first, first},
		{"a later end changes nothing", &first, podlife.Stop{At: now.Add(time.Minute), Grace: time.Minute}, first},
		{"a sooner end shortens the grace period", &first, podlife.Stop{At: now.Add(10 * time.Second), Grace: 5 * time.Second},
			podlife.Stop{At: now, Grace: 15 * time.Second, Why: "evicted"}},
		{"by force: no grace period", &first, podlife.Stop{At: now.Add(10 * time.Second)},
			podlife.Stop{At: now.Add(10 * time.Second), Why: "evicted"}},
	} {
		check.Equal(t, *Sooner(c.before, c.next), c.want, "%s", c.name)
	}
	check.Equal(t, first.Grace, time.Minute, "the first stop was changed: the pod's actor has it")
}

func TestRemovalStop(t *testing.T) {
	p := made("a")
	p.Spec.TerminationGracePeriodSeconds = new(int64(7))
	check.Equal(t, *RemovalStop(p, now), (podlife.Stop{At: now, Grace: 7 * time.Second, Why: NotWanted}), "it")
}

func TestUnknown(t *testing.T) {
	for _, c := range []struct {
		name            string
		runtime, wanted string
		known           string
		unheard         bool
		source          string // of what runs
		want            string
	}{
		{name: "nothing runs", wanted: "a"},
		{name: "all that runs is wanted", runtime: "a b", wanted: "a b"},
		{name: "what no source wants, in order of UID", runtime: "c a b", wanted: "b", want: "[a c]"},
		{name: "what is looked after already", runtime: "a b", known: "a", want: "[b]"},
		{name: "while a source was not heard it may be of that", runtime: "a b", wanted: "b", unheard: true},
		{name: "but of two pods of one name only one may run", runtime: "web#1 a", wanted: "web#2", unheard: true, want: "[1]"},
		{name: "while another source was not heard", runtime: "a b", wanted: "b", unheard: true, source: "file", want: "[a]"},
		{name: "while its source was not heard", runtime: "a b", wanted: "b", unheard: true, source: "api"},
	} {
		runtime := map[types.UID]observed.RuntimePod{}
		for _, p := range list(c.runtime) {
			runtime[p.UID] = running(p, 0)
			runtime[p.UID].Sandboxes[0].Source = c.source
		}
		known := map[types.UID]bool{}
		for _, p := range list(c.known) {
			known[p.UID] = true
		}
		wanted := Merge([]Source{{podspec.API, list(c.wanted)}})
		unwanted := func(_ types.UID, o podspec.Origin) bool { return o == podspec.File }
		got := ""
		if uids := Unknown(runtime, func(uid types.UID) bool { return known[uid] }, wanted, unwanted, !c.unheard); len(uids) > 0 {
			got = fmt.Sprint(uids)
		}
		check.Equal(t, got, c.want, "%s", c.name)
	}
}

func TestOrphan(t *testing.T) {
	rp := running(made("web#1"), 0, time.Second)
	rp.Sandboxes[1].HostNetwork = true
	rp.Containers = []observed.Container{
		{Name: "app", Image: "app:2", Attempt: 1}, {Name: "app", Image: "app:1"}, {Name: "log", Image: "log:1"},
	}
	p := Orphan(rp)
	if p.UID != "1" || p.Namespace != "default" || p.Name != "web" || !p.Spec.HostNetwork {
		t.Errorf("%+v", p)
	}
	got := ""
	for _, c := range p.Spec.Containers {
		got += c.Name + "=" + c.Image + " "
	}
	check.Equal(t, got, "app=app:2 log=log:1 ", "containers: %s, want one of each name, of the newest", got)
	check.Count(t, podspec.Grace(p), 24*time.Hour, "grace period %v: those of its containers would not count")
	if p.Status.Phase != "" || len(p.Annotations) != 0 {
		t.Errorf("it claims more than the runtime knows: %+v", p)
	}
	rp.Sandboxes[0].Source = "file"
	if !podspec.Static(Orphan(rp)) {
		t.Error("a static pod is taken for one of the apiserver")
	}
}
