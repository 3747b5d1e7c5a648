package simapi

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestIsName holds our reading of RFC 1123 to apimachinery's.
func TestIsName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-cA0.\-_]{0,8}|[a-z]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*|a{250,256}`).Draw(t, "s")
		check.Fatal(t, check.Is(isName(s), len(validation.IsDNS1123Subdomain(s)) == 0, "isName(%q)", s))
	})
}

func TestCreateRefused(t *testing.T) {
	cm := func(namespace, name string) *v1.ConfigMap {
		return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for _, c := range []struct {
		name string
		o    port.APIObject
		is   func(error) bool
	}{
		{"no name", cm("default", ""), apierrors.IsInvalid},
		{"a bad name", cm("default", "A_b"), apierrors.IsInvalid},
		{"no namespace", cm("", "c"), apierrors.IsBadRequest},
		{"a namespace that it can't have", &v1.Node{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n"}}, apierrors.IsBadRequest},
		{"a version", &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", ResourceVersion: "5"}}, apierrors.IsBadRequest},
		{"a bad generateName", &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "A"}}, apierrors.IsInvalid},
		{"no containers", &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}, apierrors.IsInvalid},
		{"there already", cm("default", "there"), apierrors.IsAlreadyExists},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.created(cm("default", "there"))
			if o, err := w.Create(c.o); !c.is(err) {
				t.Errorf("gave %v and %v", o, err)
			}
		})
	}
}

func TestGenerateName(t *testing.T) {
	w := newWorld(t, nil)
	long := strings.Repeat("a", 80)
	for _, base := range []string{"web-", long} {
		o := w.created(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: base}})
		if len(o.GetName()) != min(len(base), 58)+5 || !strings.HasPrefix(o.GetName(), base[:min(len(base), 58)]) {
			t.Errorf("of %q was made %q", base, o.GetName())
		}
	}
	if uid := string(w.created(aPod("p", "")).GetUID()); len(uid) != 36 || uid[14] != '4' || !strings.ContainsRune("89ab", rune(uid[19])) ||
		uid[8] != '-' || uid[13] != '-' || uid[18] != '-' || uid[23] != '-' {
		t.Errorf("%q is no UUID of version 4", uid)
	}
}

// TestPodsShare: pods of one template have one list of containers, with the
// defaults filled in; nothing of what was given is changed.
func TestPodsShare(t *testing.T) {
	w := newWorld(t, nil)
	template := aPod("t", "").Spec
	template.Volumes = []v1.Volume{{Name: "v"}}
	made := make([]*v1.Pod, 3)
	for i, name := range []string{"a", "b", "c"} {
		p := aPod(name, "")
		p.Spec = template
		made[i] = w.created(p).(*v1.Pod)
	}
	for _, p := range made[1:] {
		if &p.Spec.Containers[0] != &made[0].Spec.Containers[0] || &p.Spec.Volumes[0] != &made[0].Spec.Volumes[0] ||
			p.Spec.TerminationGracePeriodSeconds != made[0].Spec.TerminationGracePeriodSeconds {
			t.Errorf("pods of one template don't share")
		}
	}
	if template.Containers[0].ImagePullPolicy != "" || made[0].Spec.Containers[0].ImagePullPolicy != v1.PullIfNotPresent || made[0].Spec.Volumes[0].EmptyDir == nil {
		t.Errorf("the template is %+v, the pod's containers are %+v", template, made[0].Spec.Containers)
	}
	// What has its defaults already is taken as it is.
	p := aPod("d", "")
	p.Spec.Containers = made[0].Spec.Containers
	if again := w.created(p).(*v1.Pod); &again.Spec.Containers[0] != &made[0].Spec.Containers[0] {
		t.Errorf("a list with defaults was copied")
	}
	// A slow patch keeps what it did not change.
	old := made[0]
	check.Value(w.Update(with(old, func(p *v1.Pod) { p.Labels = map[string]string{"a": "1"} })))(t)
	got := check.Value(
		w.Patch(port.APIPatch{Key: podKey("a"), From: old, To: with(old, func(p *v1.Pod) { p.Annotations = map[string]string{"b": "2"} })}))(w).(*v1.Pod)
	if &got.Spec.Containers[0] != &old.Spec.Containers[0] || got.Labels["a"] != "1" || got.Annotations["b"] != "2" {
		t.Errorf("a slow patch gave %+v", got)
	}
}

func with[T port.APIObject](o T, change func(T)) T {
	c := o.DeepCopyObject().(T)
	change(c)
	return c
}

// TestTimesAreWhole: nobody reads back more of a time than the API keeps.
func TestTimesAreWhole(t *testing.T) {
	w := newWorld(t, nil)
	w.v.Advance(1234567 * time.Microsecond)
	p := w.created(aPod("p", "n1")).(*v1.Pod)
	at := metav1.NewTime(w.v.Now())
	given := runningStatus(p, at, 0)
	got := check.Value(w.UpdateStatus(withStatus(p, given)))(w).(*v1.Pod).Status
	cut := metav1.NewTime(at.Truncate(time.Second))
	if !got.StartTime.Equal(&cut) || !got.Conditions[2].LastTransitionTime.Equal(&cut) || !got.ContainerStatuses[0].State.Running.StartedAt.Equal(&cut) {
		t.Errorf("the status was kept as %+v", got)
	}
	if !given.StartTime.Equal(&at) || !given.Conditions[2].LastTransitionTime.Equal(&at) {
		t.Errorf("the status that was given was changed: %+v", given)
	}
	if !p.CreationTimestamp.Equal(&cut) {
		t.Errorf("created at %v, want %v", p.CreationTimestamp, cut)
	}
	l := w.created(aLease("l"))
	renew := check.Value(w.Update(renewed(l, epoch.Add(1234567891))))(w)
	if at := leaseOf(renew).Spec.RenewTime; at.Nanosecond() != 234567000 {
		t.Errorf("renewed at %v", at)
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, LastHeartbeatTime: at}}}}
	if kept := w.created(n).(*v1.Node); !kept.Status.Conditions[0].LastHeartbeatTime.Equal(&cut) || !n.Status.Conditions[0].LastHeartbeatTime.Equal(&at) {
		t.Errorf("the node's condition is %v, was given as %v", kept.Status.Conditions[0], n.Status.Conditions[0])
	}
	e := &v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, FirstTimestamp: at, EventTime: metav1.NewMicroTime(epoch.Add(1001)),
		Series: &v1.EventSeries{LastObservedTime: metav1.NewMicroTime(epoch.Add(2002))}}
	if kept := w.created(e).(*v1.Event); !kept.FirstTimestamp.Equal(&cut) || kept.EventTime.Nanosecond() != 1000 || kept.Series.LastObservedTime.Nanosecond() != 2000 || e.Series.LastObservedTime.Nanosecond() != 2002 {
		t.Errorf("the event was kept as %+v", kept)
	}
}

// TestStatusMayFollow: which statuses of a pod the apiserver takes.
func TestStatusMayFollow(t *testing.T) {
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
	}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	always := v1.ContainerRestartPolicyAlways
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		change func(*v1.Pod)
		from   v1.ContainerState
		to     v1.ContainerState
		ok     bool
	}{
		{"always", v1.RestartPolicyAlways, nil, ended(0), waiting, true},
		{"on failure, failed", v1.RestartPolicyOnFailure, nil, ended(1), waiting, true},
		{"on failure, succeeded", v1.RestartPolicyOnFailure, nil, ended(0), waiting, false},
		{"never", v1.RestartPolicyNever, nil, ended(1), waiting, false},
		{"never, but of its own", v1.RestartPolicyNever, func(p *v1.Pod) { p.Spec.Containers[0].RestartPolicy = &always }, ended(1), waiting, true},
		{"never, ended still", v1.RestartPolicyNever, nil, ended(1), ended(2), true},
		{"never, not ended yet", v1.RestartPolicyNever, nil, waiting, ended(0), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := with(aPod("p", "n1"), func(p *v1.Pod) {
				p.Spec.RestartPolicy = c.policy
				if c.change != nil {
					c.change(p)
				}
			})
			is := w.created(p).(*v1.Pod)
			for i, state := range []v1.ContainerState{c.from, c.to} {
				next := is.Status
				next.ContainerStatuses = []v1.ContainerStatus{{Name: "app", State: state}}
				o, err := w.UpdateStatus(withStatus(is, next))
				if i == 1 {
					if c.ok != (err == nil) || err != nil && !apierrors.IsInvalid(err) {
						t.Errorf("%v", err)
					}
					return
				}
				check.Fatal(w, err)
				is = o.(*v1.Pod)
			}
		})
	}
	w := newWorld(t, nil)
	is := w.created(aPod("p", "n1")).(*v1.Pod)
	next := is.Status
	next.QOSClass = v1.PodQOSGuaranteed
	if _, err := w.UpdateStatus(withStatus(is, next)); !apierrors.IsInvalid(err) {
		t.Errorf("another class of service: %v", err)
	}
}

// TestUpdateRefused: what may not change, of other kinds than pods.
func TestUpdateRefused(t *testing.T) {
	w := newWorld(t, nil)
	m := metav1.ObjectMeta{Name: "o"}
	in := metav1.ObjectMeta{Namespace: "default", Name: "o"}
	for _, c := range []struct {
		o      port.APIObject
		change func(port.APIObject)
		is     func(error) bool
	}{
		{&v1.Secret{ObjectMeta: in}, func(o port.APIObject) { o.(*v1.Secret).Type = "other" }, apierrors.IsInvalid},
		{&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "i"}, Immutable: new(true)}, func(o port.APIObject) { o.(*v1.Secret).Data = map[string][]byte{"a": nil} }, apierrors.IsInvalid},
		{&v1.Node{ObjectMeta: m, Spec: v1.NodeSpec{ProviderID: "x://1"}}, func(o port.APIObject) { o.(*v1.Node).Spec.ProviderID = "x://2" }, apierrors.IsInvalid},
		{&storagev1.VolumeAttachment{ObjectMeta: m}, func(o port.APIObject) { o.(*storagev1.VolumeAttachment).Spec.NodeName = "n" }, apierrors.IsInvalid},
		{&storagev1.CSINode{ObjectMeta: m}, func(o port.APIObject) { o.SetResourceVersion("") }, apierrors.IsInvalid},
		{&v1.PersistentVolume{ObjectMeta: m}, func(o port.APIObject) { o.SetDeletionTimestamp(new(metav1.NewTime(epoch))) }, apierrors.IsInvalid},
		{&v1.PersistentVolumeClaim{ObjectMeta: in}, func(o port.APIObject) { o.SetResourceVersion("1") }, apierrors.IsConflict},
		{&v1.Service{ObjectMeta: in}, func(o port.APIObject) { o.SetUID("other") }, apierrors.IsConflict},
	} {
		made := w.created(c.o)
		next := made.DeepCopyObject().(port.APIObject)
		c.change(next)
		if o, err := w.Update(next); !c.is(err) {
			t.Errorf("%T: %v, %v", c.o, o, err)
		}
	}
	if _, err := w.UpdateStatus(aLease("l")); !apierrors.IsNotFound(err) {
		t.Errorf("the status of a lease: %v", err)
	}
}

// TestUpdateCreates: leases and events may be written without being there.
func TestUpdateCreates(t *testing.T) {
	w := newWorld(t, nil)
	l := check.Value(w.Update(aLease("l")))(w)
	if l.GetUID() == "" {
		t.Errorf("made %+v", l)
	}
	gone := with(leaseOf(l), func(l *lease) { l.Name = "gone" })
	if _, err := w.Update(gone); !apierrors.IsConflict(err) {
		t.Errorf("one that claims to have been there: %v", err)
	}
}

func TestServices(t *testing.T) {
	w := newWorld(t, nil)
	in := metav1.ObjectMeta{Namespace: "default", GenerateName: "s-"}
	for _, c := range []struct {
		spec v1.ServiceSpec
		want string
	}{
		{v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}}, "10.96.0.1"},
		{v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}}, "10.96.0.2"},
		{v1.ServiceSpec{ClusterIP: v1.ClusterIPNone}, v1.ClusterIPNone},
		{v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: "x.test"}, ""},
	} {
		got := w.created(&v1.Service{ObjectMeta: in, Spec: c.spec}).(*v1.Service)
		if got.Spec.ClusterIP != c.want || got.Spec.Type == "" || len(got.Spec.Ports) > 0 && (got.Spec.Ports[0].Protocol != v1.ProtocolTCP || got.Spec.Ports[0].TargetPort.IntVal != 80) {
			t.Errorf("%+v became %+v, want address %s", c.spec, got.Spec, c.want)
		}
		if len(c.spec.Ports) > 0 && c.spec.Ports[0].Protocol != "" {
			t.Errorf("what was given was changed")
		}
	}
}

// TestEventsEnd: after an hour, counted from when they were written last, or when
// there are too many.
func TestEventsEnd(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.EventLimit = 3 })
	event := func(name string) port.APIObject {
		return w.created(&v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	there := func() string {
		all := check.Value(Objects[*v1.Event](w.Server, Select{}))(t)
		names := ""
		for _, e := range all {
			names += e.Name
		}
		return names
	}
	a := event("a")
	event("b")
	w.v.Advance(30 * time.Minute)
	check.Value(w.Update(with(a.(*v1.Event), func(e *v1.Event) { e.Count = 2 })))(t)
	event("c")
	w.v.Advance(29 * time.Minute)
	check.Equal(t, there(), "abc", "after 59 minutes there")
	w.v.Advance(2 * time.Minute)
	check.Equal(t, there(), "ac", "after an hour there")
	w.v.Advance(30 * time.Minute)
	if got := there(); got != "" || len(w.ages.expires) != 0 || len(w.ages.queue) != 0 {
		t.Errorf("after an hour and a half there are %q, and %+v", got, w.ages)
	}
	for _, name := range []string{"d", "e", "f", "g", "h"} {
		event(name)
	}
	check.Equal(t, there(), "fgh", "of five the last three")
	check.Fatal(t, w.Delete(port.APIDelete{Key: port.APIKey{Kind: port.EventKind, Namespace: "default", Name: "g"}}))
	event("g")
	w.v.Advance(2 * time.Hour)
	if got := there(); got != "" || len(w.ages.expires) != 0 {
		t.Errorf("at last there are %q, %+v", got, w.ages)
	}
}

// TestForget: a node that is gone leaves nothing behind.
func TestForget(t *testing.T) {
	w := newWorld(t, nil)
	l := w.listen("n1", port.Selection{Kind: port.PodKind})
	w.v.Advance(time.Second)
	other := w.listen("n2", port.Selection{Kind: port.PodKind})
	hangs := w.create(w.ending(), "n1", "m")
	w.SetLink("n1", Silent)
	w.Forget("n1")
	w.Forget("n3")
	w.created(aPod("p", "n1"))
	w.v.Advance(5 * time.Minute)
	l.ctx.End(context.Canceled)
	w.v.Advance(time.Minute)
	if len(l.heard()) != 1 || len(l.ended) != 0 || hangs.said != "" || len(other.objects) != 1 {
		t.Errorf("a forgotten node heard %q, %v and %q", l.said, l.ended, hangs.said)
	}
	if st := w.Stats(); st.Watches != 1 || st.InFlight != 0 || len(w.clients) != 1 {
		t.Errorf("left behind: %+v", st)
	}
	check.Equal(t, w.create(w.ending(), "n1", "m").said, "", "answered at once")
}
