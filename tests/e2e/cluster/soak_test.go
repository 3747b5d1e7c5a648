package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestAgentSoak has pods of all kinds come and go on two nodes, round after round, as long as TROUPE_CHURN says (2h), or
// until there is a verdict, which takes ten minutes. TROUPE_CHURN_ON=containerd has them on containerd, where less
// happens in a minute. The runtime is killed now and then, and the agent of the second node in each round. What the agent
// and its pods take of the machine is in the end what it was after the first tenth (docs/decisions/0115).
//
//tier:all minutes of churn
func TestAgentSoak(t *testing.T) {
	t.Parallel()
	length := check.Value(time.ParseDuration(cmp.Or(os.Getenv("TROUPE_CHURN"), "0")))(t)
	for name, killed := range map[string]bool{"soak": false, "soak-killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSoak(t, name, killed)
			for began := time.Now(); time.Since(began) < length || len(s.looks) < fewestLooks; {
				s.period(t)
			}
			report, grown := s.looks.verdict()
			t.Logf("%s in %d rounds:\n%s", name, s.rounds, report)
			check.None(t, grown, "of what the agent takes, more and more is")
		})
	}
}

// soak is a node with churn.
type soak struct {
	*bed
	killed bool
	// cgroupRoot is the cgroup that those of pods are below.
	cgroupRoot string
	// rolled is the round in which the stateful set got its template.
	rolled int
	// gone are pods that were deleted: others take their place.
	gone   map[types.UID]bool
	rounds int
	looks  soakLooks
}

const (
	soakPods = 3
	// staticFile is the manifest of the static pod.
	staticFile = "static.yaml"
)

func newSoak(t *testing.T, name string, killed bool) *soak {
	t.Helper()
	cgroups := fmt.Sprintf("/%s-%d", name, time.Now().UnixNano())
	t.Cleanup(func() { check.Error(t, lab.RemoveCgroup(context.Background(), cgroups)) })
	s := &soak{killed: killed, gone: map[types.UID]bool{}}
	s.bed = started(t, name, callable(t), func(s *setup) {
		s.served = os.Getenv("TROUPE_CHURN_ON") != "containerd"
		s.plain, s.cgroups = true, cgroups
		s.agent.Settings += "crashLoopBackOff: {maxContainerRestartPeriod: 1s}\nfileCheckFrequency: 1s\n"
	})
	// A static pod stays as long as its manifest, whatever becomes of the namespace.
	t.Cleanup(func() {
		if err := s.Remove(staticFile); !errors.Is(err, fs.ErrNotExist) {
			check.Error(t, err)
		}
	})
	s.cgroupRoot = cmp.Or(s.runtime.CgroupRoot(), cgroups)
	s.configMap(t, "settings", nil)
	s.secret(t, "secret", v1.SecretTypeOpaque, nil)
	selector, template := s.template("set", func(p *v1.PodSpec) {
		p.TerminationGracePeriodSeconds = new(int64(1))
		p.Volumes = append(p.Volumes,
			volume("settings", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
				LocalObjectReference: v1.LocalObjectReference{Name: "settings"},
			}}),
			volume("secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "secret"}}),
			volume("data", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}))
		p.Containers = append(p.Containers, v1.Container{
			Name: "tool", Image: lab.WorkImage, Args: []string{"print", "begin", "then", "sleep"},
			VolumeMounts: []v1.VolumeMount{mounted("settings"), mounted("secret"), mounted("data")},
			LivenessProbe: &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{
				Exec: &v1.ExecAction{Command: []string{"/work", "print", "alive"}},
			}},
		})
	})
	check.Value(s.admin.AppsV1().StatefulSets(name).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set"},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(soakPods)), Selector: selector, Template: template},
	}, metav1.CreateOptions{}))(t)
	selector, template = s.template("crashes", func(p *v1.PodSpec) {
		p.Containers[0] = v1.Container{
			Name: "app", Image: lab.CrashImage, Env: []v1.EnvVar{{Name: "AFTER", Value: "100ms"}},
		}
	})
	check.Value(s.admin.AppsV1().Deployments(name).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "crashes"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: selector, Template: template},
	}, metav1.CreateOptions{}))(t)
	return s
}

// period has rounds, waits until nothing is left of the pods that are gone, and looks at what the agent takes.
func (s *soak) period(t *testing.T) {
	t.Helper()
	began := time.Now()
	for range soakPeriod {
		s.round(t, s.rounds)
		s.rounds++
	}
	churned := time.Since(began)
	s.await(t, "nothing is left of pods that are gone", func() error {
		dirs := check.Must(s.podDirs())
		pods := soakPods + 2 + soakPods + 1 + 1 + 1 // each has a directory
		return check.That(dirs <= pods, "%d pods have a directory, and there are %d", dirs, pods)
	})
	l := s.look(t)
	s.looks = append(s.looks, l)
	t.Logf("%d rounds of %s: the last %d took %v, looked at after %v: %v", s.rounds, s.name, soakPeriod,
		churned.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond), l)
}

// round has one of each come and go, and waits until that is over.
func (s *soak) round(t *testing.T, n int) {
	t.Helper()
	s.change(t, n)
	s.tick(t, n)
	s.roll(t, n)
	s.deletePods(t, "crashes")
	if n%3 == 1 {
		check.Fatal(t, s.runtime.Kill(t.Context()))
		s.await(t, "the agent sees that the runtime is gone", func() error {
			return check.That(check.Must(s.Pods(t.Context())).Runtime != nil, "it does not")
		})
		check.Fatal(t, s.runtime.Start(t.Context()))
	}
	if s.killed {
		s.kill(t)
		s.start(t)
	}
	s.settle(t, n)
	s.use(t, n)
}

// change gives the objects that pods have as files, and the static pod, their contents of a round.
func (s *soak) change(t *testing.T, n int) {
	t.Helper()
	s.configMap(t, "settings", map[string]string{"round": strconv.Itoa(n)})
	patch := fmt.Appendf(nil, `{"stringData":{"round":"%d"}}`, n)
	check.Value(
		s.admin.CoreV1().Secrets(s.name).Patch(t.Context(), "secret", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	check.Fatal(t, s.Write(staticFile, fmt.Sprintf(manifest, lab.WebImage, strconv.Itoa(n))))
}

// jobName and failsName are the jobs of a round, as those of a CronJob, which keeps the last ones.
func jobName(n int) string   { return fmt.Sprint("job-", n) }
func failsName(n int) string { return fmt.Sprint("fails-", n) }

// tick makes the jobs of a round, and a pod without an image, and removes those of the last one.
func (s *soak) tick(t *testing.T, n int) {
	t.Helper()
	jobs := s.admin.BatchV1().Jobs(s.name)
	for name, args := range map[string]string{jobName(n): "print done then exit 0", failsName(n): "warn no then exit 3"} {
		_, template := s.template(name, work(args))
		template.Spec.RestartPolicy, template.Spec.Containers[0].ReadinessProbe = v1.RestartPolicyNever, nil
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: template, BackoffLimit: new(int32(0))},
		}
		if name == jobName(n) {
			job.Spec.Completions, job.Spec.Parallelism = new(int32(soakPods)), new(int32(soakPods))
		}
		check.Value(jobs.Create(t.Context(), job, metav1.CreateOptions{}))(t)
	}
	s.create(t, s.pod(fmt.Sprint("absent-", n), func(p *v1.PodSpec) { p.Containers[0].Image = "registry.invalid/none:1" }))
	if n == 0 {
		return
	}
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	for _, name := range []string{jobName(n - 1), failsName(n - 1)} {
		check.Fatal(t, jobs.Delete(t.Context(), name, background))
	}
	s.remove(t, fmt.Sprint("absent-", n-1))
}

// roll gives the stateful set another template, or deletes a pod of it, in turns.
func (s *soak) roll(t *testing.T, n int) {
	t.Helper()
	if n%2 == 1 {
		p := s.get(t, "set-1")
		s.gone[p.UID] = true
		s.remove(t, p.Name)
		return
	}
	s.rolled = n
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"round":"%d"}}}}}`, n)
	check.Value(
		s.admin.AppsV1().StatefulSets(s.name).Patch(t.Context(), "set", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// deletePods deletes the pods of a label app.
func (s *soak) deletePods(t *testing.T, app string) {
	t.Helper()
	for _, p := range s.pods(t, app) {
		s.gone[p.UID] = true
		s.remove(t, p.Name)
	}
}

// settle waits until a round is over.
func (s *soak) settle(t *testing.T, n int) {
	t.Helper()
	s.await(t, fmt.Sprintf("round %d is over", n), func() error {
		list := check.Must(s.admin.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{}))
		want := map[string]int{"set": soakPods, "crashes": 2, jobName(n): soakPods, failsName(n): 1, "": 1}
		for i := range list.Items {
			p := &list.Items[i]
			if err := s.over(p, n); err != nil {
				return fmt.Errorf("pod %s: %w: %s", p.Name, err, shown(p))
			}
			want[p.Labels["app"]]--
		}
		for app, missing := range want {
			check.OK(check.That(missing == 0, "%d pods of %q are missing", missing, app))
		}
		mirror := check.Must(s.admin.CoreV1().Pods("default").Get(t.Context(), "static-"+s.name, metav1.GetOptions{}))
		check.OK(check.That(mirror.Spec.Containers[0].Env[0].Value == strconv.Itoa(n), "the static pod is an older one"))
		return ready(mirror)
	})
	clear(s.gone)
}

// over is nil of a pod with which the round is over.
func (s *soak) over(p *v1.Pod, n int) error {
	if s.gone[p.UID] || p.DeletionTimestamp != nil {
		return errors.New("it is there still")
	}
	switch p.Labels["app"] {
	case "set":
		check.OK(check.That(p.Annotations["round"] == strconv.Itoa(s.rolled), "it has an older template"))
		return ready(p)
	case "crashes":
		crashes := 0
		for i := range p.Status.ContainerStatuses {
			crashes += int(p.Status.ContainerStatuses[i].RestartCount)
		}
		return check.That(crashes > 0, "it has not crashed yet")
	case jobName(n):
		return phase(v1.PodSucceeded)(p)
	case failsName(n):
		return phase(v1.PodFailed)(p)
	case "":
		check.OK(check.That(p.Name == fmt.Sprint("absent-", n), "it is of an older round"))
		for i := range p.Status.ContainerStatuses {
			if w := p.Status.ContainerStatuses[i].State.Waiting; w != nil && w.Reason != "ContainerCreating" {
				return nil
			}
		}
		return errors.New("nobody knows yet that its image is missing")
	default:
		return errors.New("it is of an older round")
	}
}
