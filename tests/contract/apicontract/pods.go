package apicontract

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// testPodDefaults: an actor may read these without asking whether they are there.
func testPodDefaults(s *suite) {
	given := s.pod("p", "")
	given.Spec.TerminationGracePeriodSeconds = nil
	p := s.podOf(s.made(given))
	c := p.Spec.Containers[0]
	if p.Spec.RestartPolicy != v1.RestartPolicyAlways || p.Spec.DNSPolicy != v1.DNSClusterFirst || p.Spec.SecurityContext == nil ||
		p.Spec.TerminationGracePeriodSeconds == nil || *p.Spec.TerminationGracePeriodSeconds != 30 ||
		p.Spec.EnableServiceLinks == nil || !*p.Spec.EnableServiceLinks || p.Spec.SchedulerName != v1.DefaultSchedulerName ||
		c.ImagePullPolicy != v1.PullIfNotPresent || c.TerminationMessagePath != "/dev/termination-log" ||
		c.TerminationMessagePolicy != v1.TerminationMessageReadFile {
		s.Errorf("defaults are missing: %+v", p.Spec)
	}
	if p.Status.Phase != v1.PodPending || p.Status.QOSClass != v1.PodQOSBestEffort {
		s.Errorf("a new pod's status is %+v", p.Status)
	}
}

func testPodGeneration(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	check.Equal(s, p.Generation, 1, "a new pod has generation")
	p = s.podOf(s.update(with(p, func(p *v1.Pod) { label("a", "1")(p); p.Generation = 7 })).ok())
	check.Equal(s, p.Generation, 1, "new labels make generation")
	p = s.podOf(s.update(with(p, func(p *v1.Pod) { p.Spec.Containers[0].Image = "contract.test/a:2" })).ok())
	check.Equal(s, p.Generation, 2, "a new image makes generation")
	p = s.podOf(s.patchStatus(p, with(p, running(s))).ok())
	check.Equal(s, p.Generation, 2, "a status makes generation")
	s.delete(port.APIDelete{Key: port.APIKeyOf(p)}).ok()
	if p = s.podOf(s.get(port.APIKeyOf(p)).ok()); p.Generation != 3 {
		s.Errorf("a deletion makes generation %d, want 3", p.Generation)
	}
}

type podChange struct {
	what   string
	change func(*v1.Pod)
}

func testPodImmutable(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	for _, c := range []podChange{
		{"nodeName", func(p *v1.Pod) { p.Spec.NodeName = "other" }},
		{"command", func(p *v1.Pod) { p.Spec.Containers[0].Command = []string{"x"} }},
		{"env", func(p *v1.Pod) { p.Spec.Containers[1].Env = []v1.EnvVar{{Name: "A", Value: "1"}} }},
		{"restartPolicy", func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever }},
		{"containers", func(p *v1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] }},
		{"grace", func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(5)) }},
	} {
		if _, err := s.update(with(p, c.change)).result(); port.KindOf(err) != port.Invalid {
			s.Errorf("a change of %s: %v, want invalid", c.what, err)
		}
		if _, err := s.patch(p, with(p, c.change)).result(); port.KindOf(err) != port.Invalid {
			s.Errorf("a patch of %s: %v, want invalid", c.what, err)
		}
	}
	c := with(s.configMap("c"), func(c *v1.ConfigMap) { c.Immutable = new(true) })
	made := as[*v1.ConfigMap](s, s.made(c))
	s.update(with(made, func(c *v1.ConfigMap) { c.Data["k"] = "other" })).fails(port.Invalid)
	s.update(with(made, func(c *v1.ConfigMap) { label("a", "1")(c) })).ok()
}

func testPodMutable(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	for _, c := range []podChange{
		{"image", func(p *v1.Pod) { p.Spec.Containers[1].Image = "contract.test/b:2" }},
		{"activeDeadlineSeconds", func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(100)) }},
		{"tolerations", func(p *v1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "k", Operator: v1.TolerationOpExists})
		}},
	} {
		next, err := s.patch(p, with(p, c.change)).result()
		if err != nil {
			s.Errorf("a change of %s: %v", c.what, err)
			continue
		}
		p = s.podOf(next)
	}
	if p.Spec.Containers[1].Image != "contract.test/b:2" || p.Spec.Containers[0].Image != "contract.test/a:1" ||
		p.Spec.ActiveDeadlineSeconds == nil || p.Generation != 4 {
		s.Errorf("after three changes the pod is %+v", p)
	}
}

// testDeleteGracefully: a pod on a node is marked, and whoever runs it takes it away.
func testDeleteGracefully(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	k := port.APIKeyOf(p)
	v := s.started(port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + p.Spec.NodeName})
	before := s.now()
	s.delete(port.APIDelete{Key: k, UID: p.UID}).ok()
	going := s.podOf(s.get(k).ok())
	if going.DeletionTimestamp == nil || going.DeletionGracePeriodSeconds == nil || *going.DeletionGracePeriodSeconds != 30 {
		s.Fatalf("a deleted pod has %v and grace %v, want 30 s", going.DeletionTimestamp, going.DeletionGracePeriodSeconds)
	}
	if at := going.DeletionTimestamp.Time; at.Before(before.Add(25*time.Second)) || at.After(s.now().Add(35*time.Second)) {
		s.Errorf("deleted at %v, grace ends at %v, want 30 s later", before, at)
	}
	v.shows("as being deleted", k, func(o port.APIObject) bool { return o.GetDeletionTimestamp() != nil })
	// No write takes the mark away.
	s.update(with(going, func(p *v1.Pod) { p.DeletionTimestamp = nil; label("a", "1")(p) })).ok()
	if again := s.podOf(s.get(k).ok()); !again.DeletionTimestamp.Equal(going.DeletionTimestamp) || again.DeletionGracePeriodSeconds == nil {
		s.Errorf("Update changed the mark from %v to %v", going.DeletionTimestamp, again.DeletionTimestamp)
	}
	s.delete(port.APIDelete{Key: k, UID: "somebody-else", Grace: new(int64)}).fails(port.Conflict)
	s.deleteNow(p).ok()
	s.get(k).fails(port.NotFound)
	v.loses(k)
}

func testGraceShortened(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	k := port.APIKeyOf(p)
	for _, c := range []struct {
		ask  *int64
		want int64
	}{{new(int64(20)), 20}, {new(int64(25)), 20}, {nil, 20}, {new(int64(10)), 10}, {new(int64(10)), 10}, {new(int64(300)), 10}} {
		s.delete(port.APIDelete{Key: k, Grace: c.ask}).ok()
		is := s.podOf(s.get(k).ok())
		if is.DeletionGracePeriodSeconds == nil || *is.DeletionGracePeriodSeconds != c.want {
			s.Errorf("grace is %v, want %d", is.DeletionGracePeriodSeconds, c.want)
		}
		check.AtMost(s, is.DeletionTimestamp.Sub(s.now()), time.Duration(c.want+5)*time.Second, "grace %d ends in", c.want)
		check.Equal(s, is.Generation, 2, "generation is %d, want 2: only the first delete counts", is.Generation)
	}
}

func testDeleteUnscheduled(s *suite) {
	p := s.made(s.pod("p", ""))
	s.delete(port.APIDelete{Key: port.APIKeyOf(p)}).ok()
	s.get(port.APIKeyOf(p)).fails(port.NotFound)
}

func testDeleteTerminal(s *suite) {
	for _, phase := range []v1.PodPhase{v1.PodSucceeded, v1.PodFailed} {
		p := s.podOf(s.made(s.bound("p")))
		p = s.podOf(s.patchStatus(p, with(p, func(p *v1.Pod) { p.Status.Phase = phase })).ok())
		s.delete(port.APIDelete{Key: port.APIKeyOf(p)}).ok()
		s.get(port.APIKeyOf(p)).fails(port.NotFound)
	}
}

func testDeleteNow(s *suite) {
	p := s.made(s.bound("p"))
	s.delete(port.APIDelete{Key: port.APIKeyOf(p), UID: "somebody-else", Grace: new(int64)}).fails(port.Conflict)
	s.get(port.APIKeyOf(p)).ok()
	s.deleteNow(p).ok()
	s.get(port.APIKeyOf(p)).fails(port.NotFound)
	s.deleteNow(p).fails(port.NotFound)
}

// testDeletePodWithFinalizer: with grace 0 it says so, and goes with its last finalizer.
func testDeletePodWithFinalizer(s *suite) {
	given := s.bound("p")
	given.Finalizers = []string{"contract.test/f"}
	made := s.podOf(s.made(given))
	k := port.APIKeyOf(made)
	s.delete(port.APIDelete{Key: k}).ok()
	going := s.podOf(s.get(k).ok())
	// Taking the finalizer off doesn't end the grace.
	kept := s.podOf(s.patch(going, with(going, func(p *v1.Pod) { p.Finalizers = nil })).ok())
	s.get(k).ok()
	if kept.DeletionTimestamp == nil || len(kept.Finalizers) > 0 {
		s.Errorf("the pod is %+v", kept.ObjectMeta)
	}
	s.deleteNow(made).ok()
	s.get(k).fails(port.NotFound)

	made = s.podOf(s.made(given))
	s.deleteNow(made).ok()
	going = s.podOf(s.get(k).ok())
	if going.DeletionGracePeriodSeconds == nil || *going.DeletionGracePeriodSeconds != 0 {
		s.Errorf("grace is %v, want 0", going.DeletionGracePeriodSeconds)
	}
	s.patch(going, with(going, func(p *v1.Pod) { p.Finalizers = nil })).ok()
	s.get(k).fails(port.NotFound)
}

// testStatusWhileDeleted: an agent reports on a pod until it is gone.
func testStatusWhileDeleted(s *suite) {
	p := s.podOf(s.made(s.bound("p")))
	s.delete(port.APIDelete{Key: port.APIKeyOf(p)}).ok()
	// From the version before the deletion, which the agent has not seen.
	got := s.podOf(s.patchStatus(p, with(p, func(p *v1.Pod) {
		p.Status.Phase = v1.PodFailed
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: metav1.NewTime(s.now())}}
	})).ok())
	if got.Status.Phase != v1.PodFailed || got.DeletionTimestamp == nil || got.Generation != 2 {
		s.Errorf("the pod is %+v", got)
	}
	s.delete(port.APIDelete{Key: port.APIKeyOf(p), UID: p.UID, Grace: new(int64)}).ok()
	s.get(port.APIKeyOf(p)).fails(port.NotFound)
	s.patchStatus(got, with(got, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })).fails(port.NotFound)
}
