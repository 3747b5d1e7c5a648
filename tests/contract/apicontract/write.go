package apicontract

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func testGenerateName(s *suite) {
	seen := map[string]bool{}
	for range 3 {
		c := s.configMap("g")
		c.Name, c.GenerateName = "", s.name+"-g-"
		made := s.create(c).ok()
		s.removeLater(made)
		if !strings.HasPrefix(made.GetName(), c.GenerateName) || len(made.GetName()) <= len(c.GenerateName) || seen[made.GetName()] {
			s.Errorf("the name made from %s is %q", c.GenerateName, made.GetName())
		}
		seen[made.GetName()] = true
		s.get(port.APIKeyOf(made)).ok()
	}
}

// testGivenIsNotChanged: objects are shared, so whoever gets one changes none.
func testGivenIsNotChanged(s *suite) {
	unchanged := func(what string, o port.APIObject, call func()) {
		s.Helper()
		before := clone(o)
		call()
		check.Deep(s, before, o, "%s changed the object that it was given from %+v to %+v", what, before, o)
	}
	p := s.bound("p")
	var made port.APIObject
	unchanged("Create", p, func() { made = s.made(p) })
	first := made
	next := with(made, label("a", "1"))
	unchanged("Update", next, func() { made = s.update(next).ok() })
	from, to := made, with(made, label("b", "1"))
	unchanged("Patch (to)", to, func() { unchanged("Patch (from)", from, func() { made = s.patch(from, to).ok() }) })
	unchanged("Delete", made, func() { s.delete(port.APIDelete{Key: port.APIKeyOf(p)}).ok() })
	if first.GetLabels()["a"] != "" || first.GetDeletionTimestamp() != nil {
		s.Errorf("what Create gave was changed later: %+v", first)
	}
}

// testUpdateUnconditional: no version, no conflict.
func testUpdateUnconditional(s *suite) {
	made := s.made(s.configMap("o"))
	s.update(with(made, label("a", "1"))).ok()
	next := as[*v1.ConfigMap](s, s.update(with(s.configMap("o"), func(c *v1.ConfigMap) { c.Data = map[string]string{"m": "x"} })).ok())
	if next.UID != made.GetUID() || !next.CreationTimestamp.Equal(new(made.GetCreationTimestamp())) {
		s.Errorf("UID and creation time are %s and %v, were %s and %v", next.UID, next.CreationTimestamp, made.GetUID(), made.GetCreationTimestamp())
	}
	if len(next.Data) != 1 || next.Data["m"] != "x" || next.Labels["a"] != "" {
		s.Errorf("Update merged instead of replacing: %+v", next)
	}
}

func testUpdateAnotherUID(s *suite) {
	made := s.made(s.configMap("o"))
	s.update(withUID(with(made, func(o port.APIObject) { o.SetResourceVersion("") }))).fails(port.Conflict)
}

// testNothingToChange: a write that changes nothing makes no new version.
func testNothingToChange(s *suite) {
	old := s.made(s.configMap("o"))
	made := s.update(with(old, label("a", "1"))).ok()
	if got := s.patch(old, with(old, func(port.APIObject) {})).ok(); got.GetResourceVersion() != made.GetResourceVersion() || got.GetLabels()["a"] != "1" {
		s.Errorf("an empty patch from an old version gave version %s, want what is there, %s: %+v", got.GetResourceVersion(), made.GetResourceVersion(), got)
	}
	if got := s.update(with(made, func(port.APIObject) {})).ok(); got.GetResourceVersion() != made.GetResourceVersion() {
		s.Errorf("Update with nothing to change made version %s from %s", got.GetResourceVersion(), made.GetResourceVersion())
	}
	if got := s.patch(made, with(made, label("a", "1"))).ok(); got.GetResourceVersion() != made.GetResourceVersion() {
		s.Errorf("Patch with nothing to change made version %s from %s", got.GetResourceVersion(), made.GetResourceVersion())
	}
	s.patch(withUID(old), withUID(old)).fails(port.Conflict)
}

// testLeaseRenew: a lease keeps microseconds, and of two renewals from one
// version the second fails.
func testLeaseRenew(s *suite) {
	made := as[*coordinationv1.Lease](s, s.made(s.lease("o")))
	at := metav1.NewMicroTime(s.now().Add(10 * time.Second).Truncate(time.Second).Add(123456 * time.Microsecond))
	renewal := with(made, func(l *coordinationv1.Lease) { l.Spec.RenewTime = &at })
	renewed := as[*coordinationv1.Lease](s, s.update(renewal).ok())
	if !renewed.Spec.RenewTime.Equal(&at) {
		s.Errorf("renewed at %v, want %v", renewed.Spec.RenewTime, at)
	}
	s.update(renewal).fails(port.Conflict)
	without := with(made, func(l *coordinationv1.Lease) { l.ResourceVersion, l.UID = "", "" })
	s.update(without).fails(port.Invalid)
}

// testFinalizers: what has one stays, and says since when it is being deleted,
// until the last is taken off.
func testFinalizers(s *suite) {
	for _, of := range []func() port.APIObject{
		func() port.APIObject { return s.node("n") },
		func() port.APIObject { return s.configMap("c") },
	} {
		o := of()
		o.SetFinalizers([]string{"contract.test/a", "contract.test/b"})
		made := s.made(o)
		k := port.APIKeyOf(made)
		v := s.started(port.Selection{Kind: k.Kind, Namespace: k.Namespace, Field: "metadata.name=" + k.Name})
		s.deleteNow(made).ok()
		going := s.get(k).ok()
		if going.GetDeletionTimestamp() == nil {
			s.Errorf("%s is deleted and has a finalizer, and doesn't say that it is being deleted", k)
		}
		v.reaches(going)
		s.deleteNow(made).ok()
		left := s.update(with(going, func(o port.APIObject) { o.SetFinalizers([]string{"contract.test/b"}) })).ok()
		if len(left.GetFinalizers()) != 1 || left.GetDeletionTimestamp() == nil {
			s.Errorf("%s: one finalizer was taken off, %v are left", k, left.GetFinalizers())
		}
		s.patch(left, with(left, func(o port.APIObject) { o.SetFinalizers(nil) })).ok()
		s.get(k).fails(port.NotFound)
		v.loses(k)
	}
}
