package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// find notes a finding, without what differs from run to run.
func (f *fleet) find(p *v1.Pod, format string, args ...any) {
	f.found[f.base(p)+" "+f.plain(p, fmt.Sprintf(format, args...))] = true
}

var podAddress = regexp.MustCompile(`\b(10|172|192)\.\d+\.\d+\.\d+\b`)

// plain is a text without names and numbers of this run.
func (f *fleet) plain(p *v1.Pod, text string) string {
	pairs := []string{
		p.Name, f.base(p), f.dir, "DIR", f.member.Root(), "ROOT", f.name, "NODE", string(p.UID), "UID",
		"-r" + fmt.Sprint(f.release), "-rN",
	}
	for _, label := range []string{"pod-template-hash", "controller-revision-hash"} {
		if v := p.Labels[label]; v != "" {
			pairs = append(pairs, v, "HASH")
		}
	}
	for published, port := range f.ports {
		pairs = append(pairs, port, "PORT"+published)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	return podAddress.ReplaceAllString(uid.ReplaceAllString(text, "UID"), "IP")
}

// look notes what users, and the programs in containers, see of all pods.
func (f *fleet) look(t *testing.T, when string) {
	t.Helper()
	for _, p := range check.Value(f.pods(t.Context()))(t) {
		if p.Status.Phase == v1.PodSucceeded && !strings.HasSuffix(p.Name, fmt.Sprint("-", f.release)) {
			continue // the installer of another release
		}
		f.find(&p, "%s: %s %s priority %d", when, shown(&p), p.Status.QOSClass, *p.Spec.Priority)
		for _, c := range p.Status.Conditions {
			f.find(&p, "%s: %s %s %s", when, c.Type, c.Status, c.Reason)
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			f.find(&p, "%s: %s ready %t restarts %d %s", when, c.Name, c.Ready, c.RestartCount, stateOf(&c.State))
			more := map[string]any{"started": c.Started, "user": c.User, "resources": c.Resources, "mounts": c.VolumeMounts}
			f.find(&p, "%s: %s %s", when, c.Name, check.Value(json.Marshal(more))(t))
			if c.LastTerminationState.Terminated != nil {
				f.find(&p, "%s: %s before: %s", when, c.Name, stateOf(&c.LastTerminationState))
			}
		}
	}
}

// facts notes what the programs in containers find there.
func (f *fleet) facts(t *testing.T, pods []v1.Pod) {
	t.Helper()
	for _, p := range pods {
		if p.Spec.RestartPolicy == v1.RestartPolicyNever && !strings.HasSuffix(p.Name, fmt.Sprint("-", f.release)) {
			continue
		}
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for _, line := range f.logOf(t, &p, c.Name, 0) {
				f.find(&p, "%s: %s", c.Name, line)
				if line == "begun" {
					break
				}
			}
		}
	}
}

func stateOf(s *v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "runs"
	case s.Waiting != nil:
		return fmt.Sprintf("waits %s %s", s.Waiting.Reason, s.Waiting.Message)
	case s.Terminated != nil:
		return fmt.Sprintf("ended %s %d %s", s.Terminated.Reason, s.Terminated.ExitCode, s.Terminated.Message)
	}
	return "nothing"
}

// configHash is an annotation of static pods: the name by which the agent knows one.
const configHash = "kubernetes.io/config.hash"

// logFile is the log of a container's nth run.
func (f *fleet) logFile(p *v1.Pod, container string, run int) string {
	id := string(p.UID)
	if static := p.Annotations[configHash]; static != "" {
		id = static
	}
	return filepath.Join(f.member.Logs(), p.Namespace+"_"+p.Name+"_"+id, container, fmt.Sprint(run, ".log"))
}

func (f *fleet) logOf(t *testing.T, p *v1.Pod, container string, run int) []string {
	t.Helper()
	file, err := os.Open(f.logFile(p, container, run))
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close()
	return linesIn(t, file)
}

// linesIn are the lines of a log as the runtime writes it.
func linesIn(t *testing.T, file *os.File) (out []string) {
	t.Helper()
	part := ""
	s := bufio.NewScanner(file)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		fields := strings.SplitN(s.Text(), " ", 4)
		if len(fields) < 4 {
			continue
		}
		if part += fields[3]; fields[2] == "F" {
			out, part = append(out, part), ""
		}
	}
	check.Error(t, s.Err())
	return out
}

// restart ends the agent, and then the runtime, and starts them again: no container notices.
func (f *fleet) restart(t *testing.T) {
	t.Helper()
	before := f.world(t).RunningIDs()
	check.Fatal(t, f.member.Stop(t.Context()))
	leases := f.admin.CoordinationV1().Leases(v1.NamespaceNodeLease)
	last := check.Value(leases.Get(t.Context(), f.name, metav1.GetOptions{}))(t)
	check.Fatal(t, f.member.Start())
	f.await(t, "the agent has renewed its lease", func() error {
		now := check.Must(leases.Get(t.Context(), f.name, metav1.GetOptions{}))
		return check.That(now.Spec.RenewTime.After(last.Spec.RenewTime.Time), "it has not")
	})
	f.awaitNode(t, "is ready for pods", usable)
	f.awaitAll(t, "are ready after a restart of the agent")
	check.Fatal(t, f.lab.Restart(t.Context()))
	f.awaitNode(t, "is ready for pods", usable)
	f.awaitAll(t, "are ready after a restart of the runtime")
	check.Same(t, f.world(t).RunningIDs(), before, "what runs after the agent and the runtime were restarted")
	f.look(t, "restarted")
}

// break1 kills a container of each workload, or has its probes fail, and waits until it is made again, alone.
func (f *fleet) break1(t *testing.T) {
	t.Helper()
	broken := map[string]string{} // containers by pod
	w := f.world(t)
	for _, workload := range f.all {
		verb, name, _ := strings.Cut(workload.Breaks, " ")
		for _, c := range w.Running() {
			pod := c.Labels["io.kubernetes.pod.name"]
			if c.Metadata.Name != name || !f.isOf(t, workload.Name, pod) {
				continue
			}
			broken[pod] = name
			if verb == "kills" {
				process := check.Value(os.FindProcess(check.Value(node.ContainerPID(t.Context(), f.lab, c.Id))(t)))(t)
				check.Fatal(t, process.Kill())
				continue
			}
			answer := check.Value(f.lab.Runtime().ExecSync(t.Context(),
				&runtimeapi.ExecSyncRequest{ContainerId: c.Id, Cmd: []string{"/standin", "fail"}, Timeout: 30}))(t)
			check.Equal(t, answer.ExitCode, 0, "%s is told to fail: %s", c.Id, answer.Stdout)
		}
	}
	check.Equal(t, len(broken), len(f.all), "containers that were broken: %v", broken)
	f.await(t, "all that was broken was made again", func() error {
		var wrong []string
		for _, p := range check.Must(f.pods(t.Context())) {
			for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
				want := int32(0)
				if broken[p.Name] == c.Name {
					want = 1
				}
				if f.probedForReadiness(&p, c.Name) && want == 1 {
					if c.Ready {
						wrong = append(wrong, p.Name+"/"+c.Name+" is ready")
					}
				} else if c.RestartCount != want || want == 1 && !c.Ready {
					wrong = append(wrong, fmt.Sprintf("%s/%s: %d restarts, want %d", p.Name, c.Name, c.RestartCount, want))
				}
			}
		}
		return check.That(len(wrong) == 0, "%s", strings.Join(wrong, ", "))
	})
	f.look(t, "broken")
}

// probedForReadiness says that a container whose probes fail is not ready, and goes on.
func (f *fleet) probedForReadiness(p *v1.Pod, container string) bool {
	i := slices.IndexFunc(p.Spec.Containers, func(c v1.Container) bool { return c.Name == container })
	return i >= 0 && p.Spec.Containers[i].LivenessProbe == nil && p.Spec.Containers[i].ReadinessProbe != nil
}

// isOf says that a pod is one of a workload.
func (f *fleet) isOf(t *testing.T, workload, pod string) bool {
	t.Helper()
	for _, p := range check.Value(f.pods(t.Context()))(t) {
		for _, u := range f.objects[workload] {
			if p.Name == pod && f.base(&p) == u.GetName() {
				return true
			}
		}
	}
	return false
}

// drain evicts pods as kubectl drain does, removes all workloads, and looks for what is left.
func (f *fleet) drain(t *testing.T) {
	t.Helper()
	f.cordon(t, true)
	logs := map[string]*os.File{}
	all := check.Value(f.pods(t.Context()))(t)
	for _, p := range all {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if c.State.Running != nil {
				file := check.Value(os.Open(f.logFile(&p, c.Name, int(c.RestartCount))))(t)
				defer file.Close()
				logs[p.Name+"/"+c.Name] = file
			}
		}
	}
	var evicted []string
	for _, p := range all {
		if p.Namespace != f.name || len(p.OwnerReferences) > 0 && p.OwnerReferences[0].Kind == "DaemonSet" {
			continue
		}
		f.await(t, "pod "+p.Name+" is evicted", func() error {
			return f.admin.PolicyV1().Evictions(f.name).Evict(t.Context(),
				&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: p.Name}})
		})
		evicted = append(evicted, string(p.UID))
	}
	f.await(t, "those that were evicted are gone", func() error {
		for _, p := range check.Must(f.pods(t.Context())) {
			if slices.Contains(evicted, string(p.UID)) {
				return fmt.Errorf("%s %s", p.Name, shown(&p))
			}
		}
		return nil
	})
	f.uninstall(t)
	for _, p := range all {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			if file := logs[p.Name+"/"+c.Name]; file != nil {
				for i, line := range f.since(t, file) {
					f.find(&p, "end: %s %d %s", c.Name, i, line)
				}
			}
		}
		f.findEvents(t, &p)
	}
	f.await(t, "nothing is left", func() error {
		w := f.world(t)
		left := w.RunningIDs()
		dirs, err := filepath.Glob(filepath.Join(f.member.Root(), "pods/*"))
		left = append(left, dirs...)
		if f.agent == "troupe" { // a kubelet leaves sandboxes, logs and networks to its own collection of garbage
			err = errors.Join(err, w.Empty())
			left = append(left, node.Leftovers(f.member.Daemon, f.lab)...)
		}
		return errors.Join(err, check.That(len(left) == 0, "%s", strings.Join(left, ", ")))
	})
}

// uninstall removes all objects and manifests, and waits until the pods are gone.
func (f *fleet) uninstall(t *testing.T) {
	t.Helper()
	for _, objects := range f.objects {
		for _, u := range objects {
			err := os.Remove(filepath.Join(f.manifests(), u.GetName()+".yaml"))
			if errors.Is(err, os.ErrNotExist) {
				background := metav1.DeletePropagationBackground
				err = f.resource(u).Delete(t.Context(), u.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
			}
			if !apierrors.IsNotFound(err) {
				check.Fatal(t, err)
			}
		}
	}
	f.await(t, "all pods are gone", func() error {
		var left []string
		for _, p := range check.Must(f.pods(t.Context())) {
			if p.Status.Phase != v1.PodSucceeded {
				left = append(left, p.Name+" "+shown(&p))
			}
		}
		return check.That(len(left) == 0, "%s", strings.Join(left, ", "))
	})
	pods := f.admin.CoreV1().Pods(f.name) // those that have ended
	check.Fatal(t, pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}

// since are the lines of a log after its container had begun.
func (f *fleet) since(t *testing.T, file *os.File) []string {
	t.Helper()
	lines := linesIn(t, file)
	if i := slices.Index(lines, "begun"); i >= 0 {
		return lines[i+1:]
	}
	return lines
}

var figure = regexp.MustCompile(`[0-9]+(\.[0-9]+)?(ms|s)\b`)

// findEvents notes the events of a pod. What pulls say is a matter of who was faster.
func (f *fleet) findEvents(t *testing.T, p *v1.Pod) {
	t.Helper()
	ofPod := metav1.ListOptions{FieldSelector: "involvedObject.name=" + p.Name}
	list := check.Value(f.admin.CoreV1().Events(p.Namespace).List(t.Context(), ofPod))(t)
	for i := range list.Items {
		e := &list.Items[i]
		// Whether the node may read an object yet is a matter of who was faster, too.
		early := strings.Contains(e.Message, "no relationship found") || strings.Contains(e.Message, "timed out waiting")
		if e.Source.Component == "kubelet" && e.Reason != "Pulling" && e.Reason != "Pulled" && !early {
			f.find(p, "event %s %s %s %s", e.Type, e.Reason, e.InvolvedObject.FieldPath, figure.ReplaceAllString(e.Message, "N"))
		}
	}
}
