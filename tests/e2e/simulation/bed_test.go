// Package simulation runs troupe sim against a real control plane: the nodes are
// simulated, and etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// kubectl are not. The processes have the service account of
// docs/manifests/troupe-sim.yaml, and no other rights.
package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// bed is a control plane with what the tests need on it, made once.
type bed struct {
	plane   *lab.ControlPlane
	dir     string
	binary  string
	kubectl string
	// admin is the test's own, account that of the service account.
	admin, account string
	api            port.API
}

var started struct {
	once sync.Once
	bed  *bed
	err  error
}

var shared = lab.Shared{Name: "troupe-simulation", Plane: lab.ControlPlaneConfig{ControllerManager: true, Scheduler: true, Log: os.Stderr}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

const patience = 90 * time.Second

func theBed(t *testing.T) *bed {
	t.Helper()
	lab.Need(t, lab.GoToolchain)
	started.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), lab.BuildTime)
		defer cancel()
		started.bed, started.err = newBed(ctx)
	})
	if started.err != nil {
		t.Fatal(started.err)
	}
	return started.bed
}

func newBed(ctx context.Context) (_ *bed, err error) {
	defer check.Return(&err)
	repository := check.Must(lab.Repository())
	b := &bed{dir: shared.Dir}
	b.binary = check.Must(shared.Troupe())
	b.kubectl = check.Must(lab.BuildKubernetes(ctx, repository, "kubectl", os.Stderr))
	b.plane = check.Must(shared.ControlPlane())
	b.admin = check.Must(b.plane.Kubeconfig("test-admin", "system:masters"))
	rest := check.Must(kube.Load(b.admin))
	b.api = check.Must(kube.New(kube.Config{REST: rest, Version: "test", QPS: -1, Log: zerolog.Nop()}))
	if out, err := b.run(ctx, "apply", "-f", filepath.Join(repository, "docs/manifests/troupe-sim.yaml")); err != nil {
		return nil, fmt.Errorf("apply the manifests: %w\n%s", err, out)
	}
	b.account, err = b.serviceAccount(ctx, "troupe-sim", "troupe-sim")
	return b, err
}

// run runs kubectl as the administrator.
func (b *bed) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, b.kubectl, append([]string{"--kubeconfig", b.admin}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+b.dir)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// kubectlDo runs kubectl, and fails the test if that fails.
func (b *bed) kubectlDo(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := b.run(ctx, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// afterwards runs kubectl when the test is over.
func (b *bed) afterwards(t *testing.T, args ...string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if out, err := b.run(ctx, args...); err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	})
}

// apply applies a manifest that is given as text.
func (b *bed) apply(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	check.Fatal(t, os.WriteFile(file, []byte(text), 0o644))
	b.kubectlDo(t, "apply", "-f", file)
}

// serviceAccount is a kubeconfig with a token of a service account.
func (b *bed) serviceAccount(ctx context.Context, namespace, name string) (string, error) {
	token, err := b.run(ctx, "create", "token", name, "-n", namespace)
	if err != nil {
		return "", fmt.Errorf("make a token: %w\n%s", err, token)
	}
	path := filepath.Join(b.dir, namespace+"-"+name+".kubeconfig")
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "lab",
		"clusters": []any{map[string]any{"name": "lab", "cluster": map[string]any{
			"server": b.plane.URL(), "certificate-authority-data": b.plane.AdminConfig().CAData,
		}}},
		"users":    []any{map[string]any{"name": "account", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "lab", "context": map[string]any{"cluster": "lab", "user": "account", "namespace": namespace}}},
	})
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, text, 0o600)
}

// sim is one process of troupe sim.
type sim struct {
	*lab.Process
	t              *testing.T
	stdout, stderr lab.Buffer
}

// sim starts troupe sim with the service account.
func (b *bed) sim(t *testing.T, args ...string) *sim {
	t.Helper()
	s := &sim{t: t}
	cmd := exec.Command(b.binary, append([]string{"sim", "--kubeconfig", b.account}, args...)...)
	cmd.Stdout, cmd.Stderr = &s.stdout, &s.stderr
	s.Process = check.Value(lab.StartProcess(cmd))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check.Error(t, s.End(ctx, syscall.SIGTERM, 30*time.Second))
		if t.Failed() {
			t.Logf("%v said:\n%s", args, s.stderr.String())
		}
	})
	return s
}

// end sends TERM and gives the summary.
func (s *sim) end() (summary map[string]any) {
	s.t.Helper()
	began := time.Now()
	check.Fatal(s.t, s.End(s.t.Context(), syscall.SIGTERM, 30*time.Second))
	if err := s.Err(); err != nil {
		s.t.Fatalf("it ended with %v:\n%s", err, s.stderr.String())
	}
	if took := time.Since(began); took > 10*time.Second {
		s.t.Errorf("it took %v to end", took)
	}
	if err := json.Unmarshal([]byte(s.stdout.String()), &summary); err != nil {
		s.t.Fatalf("its summary is no JSON: %v\n%s", err, s.stdout.String())
	}
	return summary
}

// removed deletes the nodes and leases of a simulation when the test is over.
func (b *bed) removed(t *testing.T, simulation string) {
	t.Helper()
	of := "sim.troupe.dev/simulation=" + simulation
	b.afterwards(t, "delete", "nodes", "-l", of)
	b.afterwards(t, "delete", "leases", "-n", "troupe-sim", "-l", of)
}

// holders counts the slots that each process holds, as the leases say.
func (b *bed) holders(t *testing.T, simulation string) map[string]int {
	t.Helper()
	var list coordinationv1.LeaseList
	out := b.kubectlDo(t, "get", "leases", "-n", "troupe-sim", "-l", "sim.troupe.dev/slot,sim.troupe.dev/simulation="+simulation, "-o", "json")
	check.Fatal(t, json.Unmarshal([]byte(out), &list))
	counts := map[string]int{}
	for i := range list.Items {
		if h := list.Items[i].Spec.HolderIdentity; h != nil {
			counts[*h]++
		}
	}
	return counts
}

// eventually fails the test if condition does not hold in time.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	check.Fatal(t, lab.Eventually(t.Context(), patience, what, condition))
}

// witness watches nodes, pods and leases, and notes what must not be.
type witness struct {
	mu    sync.Mutex
	wrong []string
	nodes map[string]bool // that were Ready
	pods  map[string]*v1.Pod
	// loops are the pods that were in CrashLoopBackOff.
	loops map[string]bool
	// renewed is when the lease of each node was, gap the longest time between two.
	renewed map[string]time.Time
	gap     map[string]time.Duration
}

// witness begins to watch; it ends with the test.
func (b *bed) witness(t *testing.T) *witness {
	w := &witness{
		nodes: map[string]bool{}, pods: map[string]*v1.Pod{}, loops: map[string]bool{},
		renewed: map[string]time.Time{}, gap: map[string]time.Duration{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for _, sel := range []port.Selection{
		{Kind: port.NodeKind}, {Kind: port.PodKind, Namespace: "default"}, {Kind: port.LeaseKind, Namespace: v1.NamespaceNodeLease},
	} {
		ended.Add(1)
		b.api.Watch(ctx, sel, w.told, func(error) { ended.Done() })
	}
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	return w
}

func (w *witness) told(c port.APIChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch c := c.(type) {
	case port.APIReplaced:
		for _, o := range c.Objects {
			w.saw(o)
		}
	case port.APISet:
		w.saw(c.Object)
	case port.APIDeleted:
		if p, is := c.Object.(*v1.Pod); is {
			delete(w.pods, p.Name)
		}
	case port.APIBroken:
		w.wrong = append(w.wrong, c.Err.Error())
	}
}

func (w *witness) saw(o port.APIObject) {
	switch o := o.(type) {
	case *v1.Node:
		ready := nodeReady(o)
		if w.nodes[o.Name] && !ready {
			w.wrong = append(w.wrong, fmt.Sprintf("node %s is not Ready any more: %+v", o.Name, o.Status.Conditions))
		}
		w.nodes[o.Name] = ready
	case *coordinationv1.Lease:
		at := o.Spec.RenewTime.Time
		if before, ok := w.renewed[o.Name]; ok {
			w.gap[o.Name] = max(w.gap[o.Name], at.Sub(before))
		}
		w.renewed[o.Name] = at
	case *v1.Pod:
		old := w.pods[o.Name]
		w.pods[o.Name] = o
		for i := range o.Status.ContainerStatuses {
			if waits := o.Status.ContainerStatuses[i].State.Waiting; waits != nil && waits.Reason == "CrashLoopBackOff" {
				w.loops[o.Name] = true
			}
		}
		if old == nil || old.UID != o.UID || o.DeletionTimestamp != nil || !strings.HasPrefix(o.Name, "web-") {
			return
		}
		if podReady(old) && !podReady(o) {
			w.wrong = append(w.wrong, "pod "+o.Name+" is not Ready any more")
		}
		for i := range o.Status.ContainerStatuses {
			now := &o.Status.ContainerStatuses[i]
			if now.RestartCount > 0 {
				w.wrong = append(w.wrong, "pod "+o.Name+" was restarted")
			}
			if len(old.Status.ContainerStatuses) > i {
				was := &old.Status.ContainerStatuses[i]
				if was.ContainerID != "" && (was.ContainerID != now.ContainerID || was.State.Running != nil && now.State.Running != nil && !was.State.Running.StartedAt.Equal(&now.State.Running.StartedAt)) {
					w.wrong = append(w.wrong, fmt.Sprintf("pod %s is another: %+v, was %+v", o.Name, now, was))
				}
			}
		}
		if old.Status.PodIP != "" && old.Status.PodIP != o.Status.PodIP {
			w.wrong = append(w.wrong, "pod "+o.Name+" has another address")
		}
	}
}

func nodeReady(n *v1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func podReady(p *v1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// ready is how many pods whose names begin so are Ready.
func (w *witness) ready(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, p := range w.pods {
		if strings.HasPrefix(name, prefix) && podReady(p) {
			n++
		}
	}
	return n
}

// restarts is the restart count of the pods whose names begin so.
func (w *witness) restarts(prefix string) (n int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, p := range w.pods {
		if strings.HasPrefix(name, prefix) && len(p.Status.ContainerStatuses) > 0 {
			n += p.Status.ContainerStatuses[0].RestartCount
		}
	}
	return n
}

// looped is how many pods whose names begin so were in CrashLoopBackOff.
func (w *witness) looped(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.loops {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// check fails the test for what must not have been.
func (w *witness) check(t *testing.T, gap time.Duration) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, what := range w.wrong {
		if i == 10 {
			t.Errorf("and %d more", len(w.wrong)-i)
			break
		}
		t.Error(what)
	}
	worst := time.Duration(0)
	for node, d := range w.gap {
		worst = max(worst, d)
		check.AtMost(t, d, gap, "the lease of node %s was renewed after", node)
	}
	t.Logf("the lease of a node was renewed after %v at most", worst)
}
