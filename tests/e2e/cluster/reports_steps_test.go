package cluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// endsDuringItsSleepHook: a container that has ended needs no sleep any more, so its pod is gone at once. A kubelet
// sleeps to the end.
func (r *reported) endsDuringItsSleepHook(t *testing.T) {
	const sleep = 60 * time.Second
	r.add(t, work("await /f/go then exit 0"), never, func(s *v1.PodSpec) {
		s.TerminationGracePeriodSeconds = new(int64(90))
		s.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
			Sleep: &v1.SleepAction{Seconds: int64(sleep.Seconds())},
		}}
	})
	r.awaitPod(t, r.pod, "runs", phase(v1.PodRunning))
	began := time.Now()
	r.remove(t, r.pod)
	r.awaitEvent(t, r.pod, "Killing", "Stopping container app")
	r.touch(t, "go")
	r.awaitGone(t, r.pod)
	if took := time.Since(began); (took >= sleep) != r.kubelet {
		t.Errorf("it took %v", took)
	}
}

// losesItsSandbox: in a new sandbox all init containers run again, in their order, whatever the runtime still has of
// the containers of the last one.
func (r *reported) losesItsSandbox(t *testing.T) {
	first := func(name string) v1.Container {
		return v1.Container{Name: name, Image: lab.WorkImage, Args: strings.Fields("append /f/order " + name)}
	}
	r.add(t, work("append /f/order app then sleep"), func(s *v1.PodSpec) {
		s.InitContainers = []v1.Container{first("one"), first("two")}
	})
	p := r.awaitPod(t, r.pod, "is ready", ready)
	boxes := check.Value(r.lab.Runtime().ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(p.UID)}},
	}))(t)
	stop := &runtimeapi.StopPodSandboxRequest{PodSandboxId: boxes.Items[0].Id}
	check.Value(r.lab.Runtime().StopPodSandbox(t.Context(), stop))(t)
	r.awaitText(t, r.file("order"), strings.Repeat("one\ntwo\napp\n", 2))
}

// resized: a resize from some resources to others comes to its end.
func resized(from, to v1.ResourceRequirements) func(*reported, *testing.T) {
	return func(r *reported, t *testing.T) {
		given := sizes{containers: []v1.ResourceRequirements{from}}
		r.add(t, work("sleep"), given.spec)
		r.awaitPod(t, r.pod, "is ready", ready)
		r.ask(t, r.pod, sizes{containers: []v1.ResourceRequirements{to}})
		r.awaitPod(t, r.pod, "has its new size", func(p *v1.Pod) error {
			check.OK(resizeOver(p))
			got := p.Status.ContainerStatuses[0].Resources
			if got == nil || !podspec.SameResources(got.Requests, to.Requests) || !podspec.SameResources(got.Limits, to.Limits) {
				return fmt.Errorf("it has %v", got)
			}
			return nil
		})
	}
}

// isProbedWhileItEnds: a pod that ends, and whose readiness probe fails meanwhile, is shown as not ready.
func (r *reported) isProbedWhileItEnds(t *testing.T) {
	r.touch(t, "ready")
	r.add(t, work("trap 2m"), func(s *v1.PodSpec) {
		s.TerminationGracePeriodSeconds = new(int64(120))
		probed(s)
		s.Containers[0].StartupProbe, s.Containers[0].ReadinessProbe.FailureThreshold = nil, 1
	})
	r.awaitPod(t, r.pod, "is ready", ready)
	r.remove(t, r.pod)
	r.awaitEvent(t, r.pod, "Killing", "Stopping container app")
	check.Fatal(t, os.Remove(r.file("ready")))
	r.awaitPod(t, r.pod, "is not ready", func(p *v1.Pod) error { return check.That(ready(p) != nil, "it is ready") })
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}
	check.Fatal(t, r.admin.CoreV1().Pods(r.name).Delete(t.Context(), r.pod, now))
}

// hasQuietImageVolume: an image that is a volume is no news once it is there.
func (r *reported) hasQuietImageVolume(t *testing.T) {
	r.add(t, work("sleep"), func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("tool", v1.VolumeSource{Image: &v1.ImageVolumeSource{
			Reference: lab.WebImage, PullPolicy: v1.PullIfNotPresent,
		}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("tool")}
	})
	r.awaitPod(t, r.pod, "has run for a while", func(p *v1.Pod) error {
		return check.That(sinceStart(p) > 20*time.Second, "it has not")
	})
	list := check.Value(r.admin.CoreV1().Events(r.name).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + r.pod + ",reason=Pulled",
	}))(t)
	times := int32(0)
	for i := range list.Items {
		times += max(list.Items[i].Count, 1)
	}
	check.AtMost(t, times, 4, "how often it is said that its images are there")
}

// restartsByRule: the rules of a container count in a static pod too.
func (r *reported) restartsByRule(t *testing.T) {
	mirror := r.static(t, fmt.Sprintf(`  restartPolicy: Never
  containers:
  - name: app
    image: %s
    args: [turns, /f/n, "2"]
    restartPolicy: Never
    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]
    volumeMounts: [{name: f, mountPath: /f}]
  volumes: [{name: f, hostPath: {path: %s}}]
`, lab.WorkImage, r.dir))
	p := r.awaitPod(t, mirror, "succeeds in its second turn", phase(v1.PodSucceeded))
	check.Equal(t, p.Status.ContainerStatuses[0].RestartCount, 1, "restarts")
}

// hasEventsOfVersion: an event says which version of the API its pod is of.
func (r *reported) hasEventsOfVersion(t *testing.T) {
	r.add(t, work("sleep"))
	r.awaitPod(t, r.pod, "is ready", ready)
	r.awaitEvent(t, r.pod, "Started", "")
	list := check.Value(r.admin.CoreV1().Events(r.name).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + r.pod,
	}))(t)
	for i := range list.Items {
		e := &list.Items[i]
		check.Equal(t, e.InvolvedObject.Kind+" "+e.InvolvedObject.APIVersion, "Pod v1", "what %s is about", e.Reason)
	}
}

// isFull: a pod that is evicted for its own limit has failed, though its program ended well, and it is known how that
// ended. On a busy machine the second that an eviction leaves it may be over before.
func (r *reported) isFull(t *testing.T) {
	r.add(t, work("write /full/x text then trap 0s then exit 0"), never, func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("full", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{
			SizeLimit: new(resource.MustParse("1Ki")),
		}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("full")}
	})
	r.saw = r.awaitEvicted(t, r.pod, `Usage of EmptyDir volume "full" exceeds the limit "1Ki".`)
	r.awaitPod(t, r.pod, "shows how it ended", func(p *v1.Pod) error {
		end := p.Status.ContainerStatuses[0].State.Terminated
		well := end != nil && end.ExitCode == 0 && end.Reason == "Completed"
		killed := end != nil && end.ExitCode == 137 && end.Reason == "Error"
		return check.That(well || killed, "it has %+v", end)
	})
}

func (r *reported) isStillFull(t *testing.T) {
	p := r.get(t, r.pod)
	got, want := p.Status.Reason+": "+p.Status.Message, r.saw.Status.Reason+": "+r.saw.Status.Message
	check.Equal(t, got, want, "the reason")
	check.Equal(t, p.Status.Phase, v1.PodFailed, "the phase")
}

// probed has probes that pass if there is a file.
func probed(s *v1.PodSpec) {
	passes := func() *v1.Probe {
		return &v1.Probe{PeriodSeconds: 3, FailureThreshold: 30, ProbeHandler: v1.ProbeHandler{Exec: words("cat /f/ready")}}
	}
	s.Containers[0].StartupProbe, s.Containers[0].ReadinessProbe = passes(), passes()
}

// becomesReady, staysReady: a restart of the agent makes no pod unready.
func (r *reported) becomesReady(t *testing.T) {
	r.touch(t, "ready")
	r.add(t, work("sleep"), probed)
	r.saw = r.awaitPod(t, r.pod, "is ready", ready)
}

func (r *reported) staysReady(t *testing.T) {
	versions := r.audit.versionsOf(r.saw.UID)
	was := slices.IndexFunc(versions, func(p *v1.Pod) bool { return ready(p) == nil })
	for _, p := range versions[max(was, 0):] {
		check.Error(t, ready(p))
	}
}

// runsUnready, staysUnready: and none ready that was not.
func (r *reported) runsUnready(t *testing.T) {
	r.add(t, work("sleep"), probed, func(s *v1.PodSpec) { s.Containers[0].StartupProbe = nil })
	r.saw = r.awaitPod(t, r.pod, "has failed its probe", func(p *v1.Pod) error {
		return check.That(sinceStart(p) > 6*time.Second, "it runs for %v", sinceStart(p))
	})
}

func (r *reported) staysUnready(t *testing.T) {
	for _, p := range r.audit.versionsOf(r.saw.UID) {
		check.Fails(t, ready(p), "it was shown as ready")
	}
}

// isStarting: nor one that has not passed its startup probe.
func (r *reported) isStarting(t *testing.T) {
	r.add(t, work("sleep"), probed, func(s *v1.PodSpec) { s.Containers[0].ReadinessProbe = nil })
	r.saw = r.awaitPod(t, r.pod, "has failed its probe", func(p *v1.Pod) error {
		return check.That(sinceStart(p) > 6*time.Second, "it runs for %v", sinceStart(p))
	})
}

// startsOver: a container that was restarted for its liveness probe is asked by its startup probe first.
func (r *reported) startsOver(t *testing.T) {
	r.touch(t, "alive")
	r.add(t, work("append /f/order app then sleep"), func(s *v1.PodSpec) {
		asks := func(how string) *v1.Probe {
			return &v1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: v1.ProbeHandler{Exec: words(how)}}
		}
		s.Containers[0].StartupProbe = asks("append /f/order startup")
		s.Containers[0].LivenessProbe = asks("append /f/order liveness then cat /f/alive")
	})
	r.awaitPod(t, r.pod, "is ready", ready)
	check.Fatal(t, os.Remove(r.file("alive")))
	r.awaitPod(t, r.pod, "was restarted", func(p *v1.Pod) error {
		return check.That(p.Status.ContainerStatuses[0].RestartCount > 0, "it was not")
	})
	r.touch(t, "alive")
	r.await(t, "it is asked again", func() error {
		text := string(check.Must(os.ReadFile(r.file("order"))))
		last := text[strings.LastIndex(text, "app"):]
		return check.That(strings.Contains(last, "liveness"), "since its start: %q", last)
	})
	if text := string(check.Value(os.ReadFile(r.file("order")))(t)); strings.Contains(text, "app\nliveness") {
		t.Errorf("in order: %q", text)
	}
}

// losesItsInitRecord, staysInitialized: a static pod whose init container the runtime does not know any more is shown
// as what it is, also by an agent that has never seen that container.
func (r *reported) losesItsInitRecord(t *testing.T) {
	mirror := r.static(t, fmt.Sprintf(`  initContainers: [{name: first, image: %[1]s, args: [print, hello]}]
  containers: [{name: app, image: %[1]s, args: [sleep]}]
`, lab.WorkImage))
	r.saw = r.awaitPod(t, mirror, "is ready", ready)
	_, id, _ := strings.Cut(r.saw.Status.InitContainerStatuses[0].ContainerID, "://")
	remove := &runtimeapi.RemoveContainerRequest{ContainerId: id}
	check.Value(r.lab.Runtime().RemoveContainer(t.Context(), remove))(t)
}

func (r *reported) staysInitialized(t *testing.T) {
	r.awaitPod(t, r.saw.Name, "is shown as before", func(p *v1.Pod) error {
		check.OK(ready(p))
		if end := p.Status.InitContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 0 {
			return errors.New("its init container is not shown as done")
		}
		return check.That(shown(p) == shown(r.saw), "it was %s", shown(r.saw))
	})
	for _, p := range r.audit.versionsOf(r.saw.UID) {
		if strings.Contains(shown(p), "Init:") && ready(p) == nil {
			t.Errorf("it was shown as %s", shown(p))
		}
	}
}
