package podset

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestQueue(t *testing.T) {
	of := func(name string, s State, o podspec.Origin) *Entry {
		return &Entry{Pod: made(name), State: s, Origin: o}
	}
	all := []*Entry{
		of("oldest", Waiting, podspec.File), of("runs", Running, podspec.File), of("orphan", Waiting, podspec.Orphan),
		of("next", Waiting, podspec.API), of("rejected", Rejected, podspec.API), of("gone", Collecting, podspec.Orphan),
		of("orphan2", Waiting, podspec.Orphan),
	}
	var got []string
	for _, e := range Queue(slices.Values(all)) {
		got = append(got, e.Pod.Name)
	}
	if want := "orphan orphan2 oldest next"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestTurn(t *testing.T) {
	type setting struct {
		e           *Entry
		beside      []*Entry
		known, runs bool
	}
	stop := &podlife.Stop{At: now}
	for _, c := range []struct {
		name   string
		change func(s *setting)
		want   Admission
	}{
		{"a pod of the apiserver is asked for admission", func(*setting) {}, Ask},
		{"so is a static pod", func(s *setting) { s.e.Origin = podspec.File }, Ask},
		{"an orphan is only cleaned up", func(s *setting) { s.e.Origin = podspec.Orphan }, Clean},
		{"so is a pod that is being deleted", func(s *setting) { s.e.Stop = stop }, Clean},
		{"and one that has ended before", func(s *setting) { s.e.Pod.Status.Phase = v1.PodFailed }, Clean},
		{"and a static pod whose stop was written down by an earlier agent", func(s *setting) {
			s.e.Origin, s.e.Removal, s.e.Stop = podspec.File, Saved, stop
		}, Clean},
		{"and a static pod that was evicted while it waited", func(s *setting) {
			s.e.Origin, s.e.Eviction, s.e.Stop = podspec.File, Saved, stop
		}, Clean},
		{"a static pod with a phase is run all the same", func(s *setting) {
			s.e.Origin, s.e.Pod.Status.Phase = podspec.File, v1.PodFailed
		}, Ask},

		{"a pod of the apiserver waits for the node's object", func(s *setting) { s.known = false }, Wait},
		{"but one that runs already is adopted", func(s *setting) { s.known, s.runs = false, true }, Adopt},
		{"a static pod waits for no object", func(s *setting) { s.known, s.e.Origin = false, podspec.File }, Ask},
		{"one that runs is not judged once the node is known", func(s *setting) { s.runs = true }, Adopt},
		{"nor is a static pod", func(s *setting) { s.runs, s.e.Origin = true, podspec.File }, Adopt},
		{"one that runs and is deleted is only cleaned up", func(s *setting) { s.runs, s.e.Stop = true, stop }, Clean},
		{"a pod that is deleted is cleaned up before the node is known", func(s *setting) { s.known, s.e.Stop = false, stop }, Clean},

		{"a running pod of its name has to end first", func(s *setting) { s.beside[0].State = Running }, Wait},
		{"and be collected", func(s *setting) { s.beside[0].State = Finished }, Wait},
		{"but not until nothing is left of it", func(s *setting) { s.beside[0].State = Collecting }, Ask},
		{"one that the apiserver has no more holds nothing when it is down", func(s *setting) {
			s.beside[0].State, s.beside[0].Removal, s.beside[0].Down = Running, Saved, true
		}, Ask},
		{"or when nobody can stop it", func(s *setting) {
			s.beside[0].State, s.beside[0].Removal, s.beside[0].GivenUp = Running, Saved, true
		}, Ask},
		{"but until then", func(s *setting) { s.beside[0].State, s.beside[0].Removal = Running, Saved }, Wait},
		{"so does an orphan that was of the apiserver", func(s *setting) {
			s.beside[0] = &Entry{Pod: Orphan(running(made("web#1"), 0)), Origin: podspec.Orphan, State: Running, Down: true}
			s.beside[0].Pod.Annotations = map[string]string{podspec.AnnotationSource: string(podspec.API)}
		}, Ask},
		{"for one of the apiserver no static pod waits", func(s *setting) {
			s.e.Origin, s.beside[0].State = podspec.File, Running
		}, Ask},
		{"unless the apiserver has it no more", func(s *setting) {
			s.e.Origin, s.beside[0].State, s.beside[0].Removal = podspec.File, Running, Saved
		}, Wait},
		{"the other way round it does", func(s *setting) { s.beside[0].State, s.beside[0].Origin = Running, podspec.File }, Wait},
		{"but of a kubelet both may run", func(s *setting) {
			s.runs, s.beside[0].State, s.beside[0].Origin = true, Running, podspec.File
		}, Adopt},
		{"two of the apiserver may not", func(s *setting) { s.runs, s.beside[0].State = true, Running }, Wait},
		{"a static pod until it is unmounted", func(s *setting) {
			s.beside[0].State, s.beside[0].Origin, s.beside[0].Down = Running, podspec.File, true
		}, Wait},
		{"and one that comes back", func(s *setting) {
			s.beside[0].State, s.beside[0].Removal, s.beside[0].Down = Running, Saved, true
			s.beside[0].DesiredAgain = &Want{Pod: s.beside[0].Pod, Origin: podspec.API}
		}, Wait},
		{"a rejected one holds nothing", func(s *setting) { s.beside[0].State = Rejected }, Ask},
		{"nor does one that waits too", func(s *setting) { s.beside[0].State = Waiting }, Ask},
		{"unless it is an orphan, of which something runs", func(s *setting) {
			s.beside[0].State, s.beside[0].Origin = Waiting, podspec.Orphan
		}, Wait},
		{"one of the same name in another namespace is another pod", func(s *setting) {
			s.beside[0].State, s.beside[0].Pod.Namespace = Running, "other"
		}, Ask},
		{"a pod that is cleaned up waits for nobody", func(s *setting) { s.beside[0].State, s.e.Stop = Running, stop }, Clean},
		{"one that runs waits for its predecessor too", func(s *setting) {
			s.known, s.runs, s.beside[0].State = false, true, Running
		}, Wait},
		{"but for one that the apiserver has no more: an earlier agent did not wait", func(s *setting) {
			s.runs, s.beside[0].State, s.beside[0].Removal = true, Running, Saved
		}, Adopt},
	} {
		s := setting{
			e:     &Entry{Pod: made("web#2"), Origin: podspec.API},
			known: true, beside: []*Entry{{Pod: made("web#1"), Origin: podspec.API, State: Collecting}},
		}
		c.change(&s)
		check.Equal(t, s.e.Admission(slices.Values(append(s.beside, s.e)), s.known, s.runs), c.want, "%s", c.name)
	}
}

func TestRuns(t *testing.T) {
	rp := running(made("a"), 0)
	if !Runs(rp) {
		t.Error("a pod with a ready sandbox does not run")
	}
	rp.Sandboxes[0].State = observed.SandboxNotReady
	if Runs(rp) || Runs(observed.RuntimePod{}) {
		t.Error("a pod without a ready sandbox runs")
	}
}

// TestDown: containers that may live are not down.
func TestDown(t *testing.T) {
	for state, want := range map[observed.ContainerState]string{
		observed.ContainerRunning: "b", observed.ContainerCreated: "b", observed.ContainerUnknown: "b",
		observed.ContainerExited: "a b",
	} {
		p, rp := made("a"), running(made("a"), 0)
		p.Spec.Containers = []v1.Container{{Name: "a"}, {Name: "b"}}
		rp.Containers = []observed.Container{{Name: "a", State: state}, {Name: "a", State: observed.ContainerExited}}
		check.Equal(t, strings.Join(Down(p, rp), " "), want, "%v: down are", state)
	}
}

// TestDownSince: a container that waits to be made because nobody knows its devices has ended.
func TestDownSince(t *testing.T) {
	waits := func(name, reason string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}}
	}
	s := &v1.PodStatus{
		InitContainerStatuses: []v1.ContainerStatus{waits("i", "CreateContainerConfigError")},
		ContainerStatuses: []v1.ContainerStatus{
			waits("b", "CreateContainerConfigError"), waits("c", "CrashLoopBackOff"), waits("known", "CreateContainerConfigError"),
			{Name: "d", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		},
	}
	of := map[string]string{"i": "?", "b": "?", "c": "?", "d": "?"}
	check.Same(t, DownSince([]string{"b", "z"}, s, of), []string{"b", "i", "z"}, "down are")
}

func TestExpel(t *testing.T) {
	p, grace := made("a"), int64(7)
	p.Spec.TerminationGracePeriodSeconds = &grace
	want := podlife.Stop{
		At: now, Grace: 7 * time.Second, Fail: true, Reason: "OutOfcpu", Message: "Pod was rejected: no CPU", Why: "no CPU",
	}
	check.Equal(t, *Expel(p, &admit.Rejection{Reason: "OutOfcpu", Message: "no CPU"}, now), want, "it")
}

func TestRejectedStatus(t *testing.T) {
	p, why := made("a"), &admit.Rejection{Reason: "OutOfcpu", Message: "no CPU"}
	p.Generation = 3
	s := RejectedStatus(p, why, now)
	if s.Phase != v1.PodFailed || s.Reason != "OutOfcpu" || s.Message != "Pod was rejected: no CPU" || s.ObservedGeneration != 3 {
		t.Errorf("%+v", s)
	}
	if s.QOSClass != v1.PodQOSBestEffort || !s.StartTime.Time.Equal(now) {
		t.Errorf("%v %v", s.QOSClass, s.StartTime)
	}
	before := metav1.NewTime(now.Add(-time.Hour))
	p.Status.StartTime, p.Status.ObservedGeneration = &before, 4
	if s = RejectedStatus(p, why, now); !s.StartTime.Equal(&before) || s.ObservedGeneration != 4 {
		t.Errorf("it goes back: %v, generation %d", s.StartTime, s.ObservedGeneration)
	}
	check.Equal(t, p.Status.Phase, "", "the pod was changed")
}
