package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// template is the web server, ready when it answers, in pods labelled app=name.
func (b *bed) template(name string, change func(*v1.PodSpec)) (*metav1.LabelSelector, v1.PodTemplateSpec) {
	labels := map[string]string{"app": name}
	return &metav1.LabelSelector{MatchLabels: labels}, v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: b.spec(func(s *v1.PodSpec) {
			s.Containers[0].ReadinessProbe = &v1.Probe{
				ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}},
				PeriodSeconds: 1,
			}
			if change != nil {
				change(s)
			}
		}),
	}
}

// pods are those of a label app.
func (b *bed) pods(t *testing.T, app string) []v1.Pod {
	t.Helper()
	list := check.Value(b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app}))(t)
	return list.Items
}

// uids of pods, sorted.
func uids(pods []v1.Pod) []types.UID {
	var out []types.UID
	for i := range pods {
		out = append(out, pods[i].UID)
	}
	slices.Sort(out)
	return out
}

// TestDeployment is created, rolled to another configuration, scaled up and down, and drained: each
// time all its pods are ready in the end and none is left over.
//
//tier:served
func TestDeployment(t *testing.T) {
	t.Parallel()
	b := started(t, "deployment", onServed)
	deployments := b.admin.AppsV1().Deployments(b.name)
	selector, template := b.template("web", nil)
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	check.Value(deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(4)), Selector: selector, Template: template,
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one}},
		},
	}, metav1.CreateOptions{}))(t)
	available := func(n int32) {
		t.Helper()
		b.await(t, fmt.Sprintf("%d replicas are available", n), func() error {
			d := check.Must(deployments.Get(t.Context(), "web", metav1.GetOptions{}))
			if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != n || s.AvailableReplicas != n || s.Replicas != n {
				return fmt.Errorf("generation %d: %+v", d.Generation, s)
			}
			left := b.pods(t, "web")
			return check.That(len(left) == int(n), "%d pods", len(left))
		})
	}
	change := func(f func(*appsv1.DeploymentSpec)) {
		t.Helper()
		b.await(t, "the deployment is changed", func() error {
			d := check.Must(deployments.Get(t.Context(), "web", metav1.GetOptions{}))
			f(&d.Spec)
			return check.Err(deployments.Update(t.Context(), d, metav1.UpdateOptions{}))
		})
	}
	available(4)
	before := uids(b.pods(t, "web"))

	change(func(s *appsv1.DeploymentSpec) {
		s.Template.Spec.Containers[0].Env = []v1.EnvVar{{Name: "RELEASE", Value: "2"}}
	})
	available(4)
	if after := uids(b.pods(t, "web")); slices.ContainsFunc(after, func(u types.UID) bool { return slices.Contains(before, u) }) {
		t.Error("a pod of the old release is left")
	}
	change(func(s *appsv1.DeploymentSpec) { s.Replicas = new(int32(7)) })
	available(7)
	change(func(s *appsv1.DeploymentSpec) { s.Replicas = new(int32(2)) })
	available(2)
	b.drain(t, "web")
	available(2)
}

// drain is kubectl drain and, when all pods are gone, kubectl uncordon.
func (b *bed) drain(t *testing.T, app string) {
	t.Helper()
	check.Value(b.admin.PolicyV1().PodDisruptionBudgets(b.name).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromString("100%")), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{}))(t)
	b.cordon(t, true)
	old := uids(b.pods(t, app))
	for _, p := range b.pods(t, app) {
		b.await(t, "pod "+p.Name+" is evicted", func() error { // the budget is reckoned by a controller
			return b.admin.PolicyV1().Evictions(b.name).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: p.Name}})
		})
	}
	b.await(t, "all are gone, and those that take their place wait", func() error {
		for _, p := range b.pods(t, app) {
			if slices.Contains(old, p.UID) || p.Spec.NodeName != "" {
				return fmt.Errorf("pod %s is %s", p.Name, shown(&p))
			}
		}
		return nil
	})
	b.cordon(t, false)
}

func (b *bed) cordon(t *testing.T, closed bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	check.Value(b.admin.CoreV1().Nodes().Patch(t.Context(), b.name, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// TestStatefulSet is created and updated: its pods come one after the other, and each new one has the
// name of an old one, which is gone before.
//
//tier:served
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	b := started(t, "statefulset", onServed)
	sets := b.admin.AppsV1().StatefulSets(b.name)
	selector, template := b.template("db", nil)
	s := check.Value(sets.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3)), Selector: selector, Template: template, ServiceName: "db"},
	}, metav1.CreateOptions{}))(t)
	settled := func() {
		t.Helper()
		b.await(t, "all replicas are ready", func() error {
			s = check.Must(sets.Get(t.Context(), "db", metav1.GetOptions{}))
			if st := s.Status; st.ObservedGeneration < s.Generation || st.ReadyReplicas != 3 || st.UpdatedReplicas != 3 && st.UpdateRevision != st.CurrentRevision || st.UpdateRevision != st.CurrentRevision {
				return fmt.Errorf("generation %d: %+v", s.Generation, st)
			}
			return nil
		})
	}
	settled()
	first := b.get(t, "db-0")
	check.Equal(t, first.Spec.Hostname, "db-0", "its host")
	s.Spec.Template.Spec.Containers[0].Env = []v1.EnvVar{{Name: "RELEASE", Value: "2"}}
	s = check.Value(sets.Update(t.Context(), s, metav1.UpdateOptions{}))(t)
	settled()
	b.awaitPod(t, "db-0", "is another", another(first.UID))
}

// TestDaemonSet runs on a node that is closed for others, and comes back when its pod is deleted.
//
//tier:served
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	b := started(t, "daemonset", onServed)
	selector, template := b.template("agent", nil)
	sets := b.admin.AppsV1().DaemonSets(b.name)
	b.cordon(t, true)
	check.Value(sets.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{}))(t)
	settled := func(not types.UID) (uid types.UID) {
		t.Helper()
		b.await(t, "its pod is ready", func() error {
			s := check.Must(sets.Get(t.Context(), "agent", metav1.GetOptions{}))
			pods := b.pods(t, "agent")
			if s.Status.NumberReady != 1 || len(pods) != 1 || pods[0].UID == not {
				return fmt.Errorf("%d pods, %+v", len(pods), s.Status)
			}
			uid = pods[0].UID
			return nil
		})
		return uid
	}
	uid := settled("")
	b.remove(t, b.pods(t, "agent")[0].Name)
	settled(uid)
}

// TestJob runs init containers in order, a sidecar beside, and ends when its work does; one that fails
// is tried again.
//
//tier:served
func TestJob(t *testing.T) {
	t.Parallel()
	b := started(t, "job", onServed)
	jobs := b.admin.BatchV1().Jobs(b.name)
	data := []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	container := func(name string, args ...string) v1.Container {
		return v1.Container{Name: name, Image: lab.WorkImage, Args: args, VolumeMounts: data}
	}
	sidecar := container("proxy", "append", "/data/log", "proxy", "then", "sleep")
	sidecar.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	check.Value(jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "work"},
		Spec: batchv1.JobSpec{
			Completions: new(int32(3)), Parallelism: new(int32(2)), BackoffLimit: new(int32(2)),
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "work"}},
				Spec: b.spec(func(s *v1.PodSpec) {
					s.RestartPolicy = v1.RestartPolicyNever
					s.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
					s.InitContainers = []v1.Container{container("first", "append", "/data/log", "first"), sidecar, container("second", "append", "/data/log", "second")}
					s.Containers = []v1.Container{container("main", "cat", "/data/log", "then", "sleep", "500ms")}
				}),
			},
		},
	}, metav1.CreateOptions{}))(t)
	check.Value(jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "fails"},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(1)),
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "fails"}},
				Spec: b.spec(func(s *v1.PodSpec) {
					work("exit 3")(s)
					s.RestartPolicy = v1.RestartPolicyNever
				}),
			},
		},
	}, metav1.CreateOptions{}))(t)
	ended := func(name string, kind batchv1.JobConditionType) {
		t.Helper()
		b.await(t, "job "+name+" is "+string(kind), func() error {
			j := check.Must(jobs.Get(t.Context(), name, metav1.GetOptions{}))
			for _, c := range j.Status.Conditions {
				if c.Type == kind && c.Status == v1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("%+v", j.Status)
		})
	}
	ended("work", batchv1.JobComplete)
	ended("fails", batchv1.JobFailed)
	for _, p := range b.pods(t, "work") {
		check.Equal(t, shown(&p), "0/2 Completed 0", "pod %s is shown as", p.Name)
		for _, c := range p.Status.InitContainerStatuses {
			if c.State.Terminated == nil {
				t.Errorf("container %s of pod %s has not ended: %+v", c.Name, p.Name, c.State)
			}
		}
	}
	failed := b.pods(t, "fails")
	check.Equal(t, len(failed), 2, "%d tries, want 2", len(failed))
	for _, p := range failed {
		if err := errors.Join(is("0/1 Error 0")(&p), phase(v1.PodFailed)(&p)); err != nil {
			t.Errorf("pod %s: %v, %s", p.Name, err, shown(&p))
		}
	}
}
