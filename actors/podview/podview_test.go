package podview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/gate"
	decide "github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
)

func made(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
}

func fact(name string, s decide.State) podset.Fact {
	return podset.Fact{Entry: decide.Entry{Pod: made(name), Origin: podspec.File, State: s}}
}

func status(phase v1.PodPhase, ready v1.ConditionStatus) *v1.PodStatus {
	return &v1.PodStatus{Phase: phase, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready, Message: "not yet"}}}
}

func noCalls(*podset.Fact) []kernel.EffectInfo { return nil }

// TestShow is how one pod is shown: base + mutation → line.
func TestShow(t *testing.T) {
	const runs = "file Syncing Running ready"
	for _, c := range []struct {
		name   string
		change func(f *podset.Fact)
		want   string
	}{
		{"a pod that runs", func(*podset.Fact) {}, runs},
		{"one that is not ready: why", func(f *podset.Fact) { f.Report.Status = status(v1.PodRunning, v1.ConditionFalse) },
			"file Syncing Running unready: not yet"},
		{"its actor is in trouble", func(f *podset.Fact) { f.Report.Trouble = "image not found" }, runs + "; image not found"},
		{"its actor has crashed", func(f *podset.Fact) {
			f.Report.Trouble = "image not found"
			f.Crash = &kernel.CrashReport{Crashes: 2, RetryAfter: time.Second, Reason: "boom"}
		}, runs + "; its actor is restarted after 2 crashes, next attempt in 1s: boom"},
		{"too often", func(f *podset.Fact) {
			f.Crash = &kernel.CrashReport{Decision: kernel.Quarantine, Crashes: 6, RetryAfter: time.Minute, Reason: "boom"}
		}, runs + "; its actor is quarantined after 6 crashes, next attempt in 1m0s: boom"},
		{"it was added again while it stops", func(f *podset.Fact) { f.DesiredAgain = &decide.Want{Pod: made("a"), Origin: podspec.File} },
			runs + "; it was removed from its source and added again; it is stopping and then starts again"},
		{"and has to be collected first", func(f *podset.Fact) {
			f.DesiredAgain, f.State = &decide.Want{Pod: made("a"), Origin: podspec.File}, decide.Collecting
		}, runs + "; it starts when the remains of its previous run are removed"},

		{"nothing was reported yet", func(f *podset.Fact) { f.Report = pod.Report{} }, "file Running Pending"},
		{"but it was here before this agent", func(f *podset.Fact) { f.Report, f.Found = pod.Report{}, true },
			"file Running Unknown; found in the runtime at agent start; its state is not known yet"},
		{"it waits for its turn", func(f *podset.Fact) { f.Report, f.State = pod.Report{}, decide.Waiting }, "file Waiting Pending"},
		{"it waits for another of its name", func(f *podset.Fact) {
			f.Report, f.State, f.Behind = pod.Report{}, decide.Waiting, "waiting for the end of u1"
		}, "file Waiting Pending; waiting for the end of u1"},
		{"it was rejected", func(f *podset.Fact) {
			f.Report, f.State, f.Rejected = pod.Report{}, decide.Rejected, &admit.Rejection{Reason: "OutOfcpu", Message: "no CPU"}
		}, "file Rejected Failed OutOfcpu Pod was rejected: no CPU"},
		{"and that is in its status", func(f *podset.Fact) {
			f.State, f.Rejected = decide.Rejected, &admit.Rejection{Reason: "OutOfcpu", Message: "no CPU"}
		}, "file Rejected Failed OutOfcpu Pod was rejected: no CPU"},
	} {
		f := fact("a", decide.Running)
		f.Report = pod.Report{Status: status(v1.PodRunning, v1.ConditionTrue), Life: "Syncing"}
		c.change(&f)
		v := viewOf("n1", podset.Inventory{Pods: []podset.Fact{f}}, noCalls)
		if len(v.Pods) != 1 {
			t.Errorf("%s: %d pods", c.name, len(v.Pods))
			continue
		}
		check.Equal(t, line(&v.Pods[0]), c.want, "%s", c.name)
	}
}

func line(p *Pod) string {
	b := []string{string(p.Source), p.Life, p.Phase}
	switch {
	case p.Ready:
		b = append(b, "ready")
	case p.Unready != "":
		b = append(b, "unready: "+p.Unready)
	}
	if p.Reason != "" {
		b = append(b, p.Reason, p.Message)
	}
	out := strings.Join(b, " ")
	if p.Problem != "" {
		out += "; " + p.Problem
	}
	return out
}

// TestGateOfAContainer: what a report says of a container that waits is with that container.
func TestGateOfAContainer(t *testing.T) {
	f := fact("a", decide.Running)
	s := status(v1.PodPending, v1.ConditionFalse)
	s.ContainerStatuses = []v1.ContainerStatus{{Name: "app"}, {Name: "other"}}
	f.Report = pod.Report{Status: s, Life: "Syncing"}
	f.Report.Gates.Set("other", gate.Claims)
	p := show(&f)
	check.Same(t, []gate.Gate{p.Containers[0].Gate, p.Containers[1].Gate}, []gate.Gate{gate.None, gate.Claims}, "gates")
}

func TestContainers(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	spec := v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init"}, {Name: "proxy", RestartPolicy: &always}}, Containers: []v1.Container{{Name: "app"}},
	}
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Error", ExitCode: 3, FinishedAt: at}}
	got := ""
	for _, c := range containers(&spec, &v1.PodStatus{
		InitContainerStatuses: []v1.ContainerStatus{
			{Name: "init", State: ended}, {Name: "proxy", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}},
		},
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "app", RestartCount: 2, LastTerminationState: ended,
			State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}},
		EphemeralContainerStatuses: []v1.ContainerStatus{{Name: "debug"}},
	}) {
		got += fmt.Sprintf("%s %s %s %s", c.Name, c.Kind, c.State, c.Reason)
		if c.ExitCode != nil {
			got += fmt.Sprintf(" exit %d", *c.ExitCode)
		}
		if c.Last != nil {
			got += fmt.Sprintf(" last %d", c.Last.ExitCode)
		}
		got += fmt.Sprintf(" started %v\n", c.StartedAt != nil)
	}
	want := "init init terminated Error exit 3 started false\n" +
		"proxy sidecar running  started true\n" +
		"app main waiting CrashLoopBackOff last 3 started false\n" +
		"debug ephemeral waiting  started false\n"
	check.Equal(t, got, want, "it")
}

func TestViewOf(t *testing.T) {
	nameless := fact("", decide.Collecting)
	comesBack := fact("", decide.Collecting)
	comesBack.Origin, comesBack.DesiredAgain = podspec.Orphan, &decide.Want{Pod: made("c"), Origin: podspec.HTTP}
	v := viewOf("n1", podset.Inventory{Pods: []podset.Fact{fact("b", decide.Running), nameless, comesBack, fact("a", decide.Waiting)}},
		func(f *podset.Fact) []kernel.EffectInfo {
			if f.Pod.Name != "b" {
				return nil
			}
			return []kernel.EffectInfo{{Kind: "StopContainer", Object: "app"}, {Kind: "List"}}
		})
	got := ""
	for _, p := range v.Pods {
		got += fmt.Sprintf("%s/%s@%s %v; ", p.Namespace, p.Name, p.Source, p.Doing)
	}
	check.Equal(t, got, "default/a@file []; default/b@file [List StopContainer app]; default/c@http []; ", "it")
	if !v.Ready || v.Node != "n1" || v.WaitingFor != nil {
		t.Errorf("ready %v, waiting for %v", v.Ready, v.WaitingFor)
	}
}

// TestRemoved: pods that no source has any more, and how many mirrors there are.
func TestRemoved(t *testing.T) {
	removed, back := fact("removed", decide.Running), fact("back", decide.Running)
	removed.Removal, back.Removal = decide.Unsaved, decide.Saved
	back.DesiredAgain = &decide.Want{Pod: made("back"), Origin: podspec.File}
	collected, soon := fact("collected", decide.Collecting), fact("soon", decide.Collecting)
	soon.Removal, soon.DesiredAgain = decide.Saved, back.DesiredAgain
	all := []podset.Fact{fact("kept", decide.Running), removed, back, collected, soon}
	v := viewOf("n1", podset.Inventory{Pods: all, Mirrors: 3}, noCalls)
	got := fmt.Sprint(v.Mirrors)
	for _, p := range v.Pods {
		got += fmt.Sprint(" ", p.Name, " ", p.Removed)
	}
	check.Equal(t, got, "3 back false collected true kept false removed true soon false", "it")
}

func TestWaitingFor(t *testing.T) {
	v := viewOf("n1", podset.Inventory{
		NotListed: true, AsksCollected: true, Loading: []string{"stops"}, Unseen: []podspec.Origin{podspec.API},
	}, noCalls)
	want := "the list of leftover pods to remove, the first list of containers from the runtime, the checkpoint stops, the source api"
	if got := strings.Join(v.WaitingFor, ", "); got != want || v.Ready {
		t.Errorf("%s (ready %v)", got, v.Ready)
	}
}

// TestVolumeImages: images of pods that live here, or will. all says that no pod is unknown.
func TestVolumeImages(t *testing.T) {
	with := func(s decide.State, images ...string) podset.Fact {
		f := fact("web", s)
		f.Pod.Spec.Volumes = []v1.Volume{{Name: "empty"}}
		for _, image := range images {
			f.Pod.Spec.Volumes = append(f.Pod.Spec.Volumes,
				v1.Volume{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: image}}})
		}
		return f
	}
	ended := with(decide.Finished, "ended")
	ended.Origin, ended.Pod.Status.Phase = podspec.API, v1.PodSucceeded
	got := volumeImages([]podset.Fact{
		with(decide.Running, "b", "", "a"), with(decide.Waiting, "c", "a"), with(decide.Rejected, "rejected"),
		with(decide.Collecting, "gone"), ended,
	})
	check.Equal(t, strings.Join(got, " "), "a b c", "%q", got)
	for name, c := range map[string]struct {
		of   podset.Inventory
		want bool
	}{
		"all is known":              {podset.Inventory{}, true},
		"the runtime is not listed": {podset.Inventory{NotListed: true}, false},
		"gc has not answered":       {podset.Inventory{AsksCollected: true}, false},
		"a checkpoint is missing":   {podset.Inventory{Loading: []string{"stops"}}, false},
		"a source is missing":       {podset.Inventory{Unseen: []podspec.Origin{podspec.API}}, false},
	} {
		check.Equal(t, c.of.Complete(), c.want, "%s", name)
	}
}

func TestFind(t *testing.T) {
	old, next, other := fact("web", decide.Running), fact("web", decide.Waiting), fact("db", decide.Rejected)
	old.Report.Status = status(v1.PodRunning, v1.ConditionTrue)
	other.Rejected = &admit.Rejection{Reason: "OutOfcpu", Message: "no CPU"}
	orphan := fact("web", decide.Running)
	orphan.Origin = podspec.Orphan
	back := fact("back", decide.Collecting)
	back.DesiredAgain = &decide.Want{Pod: made("back"), Origin: podspec.File}
	all := []podset.Fact{old, other, orphan, fact("db", decide.Collecting), next, back}
	for _, c := range []struct{ namespace, name, want string }{
		{"default", "web", "web Pending, web Running, "},
		{"default", "db", "db Failed, "},
		{"other", "web", ""},
		{"", "", "back Pending, web Pending, db Failed, web Running, "},
	} {
		got := ""
		for _, p := range find(all, c.namespace, c.name) {
			got += p.Name + " " + string(p.Status.Phase) + ", "
		}
		check.Equal(t, got, c.want, "%s/%s", c.namespace, c.name)
	}
	if next.Pod.Status.Phase != "" || other.Pod.Status.Phase != "" {
		t.Error("the pods of the registry were changed")
	}
}
