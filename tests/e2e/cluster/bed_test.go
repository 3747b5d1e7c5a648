package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/served"
)

// patience is for what takes a moment, on a busy machine too. Nothing here is a measurement.
const patience = 4 * time.Minute

var shared = lab.Shared{Name: "cluster", Plane: planeIn(""), Begun: func(ctx context.Context, repository string) {
	// Tests that come late want these two, and would wait for minutes. The first tests mostly wait
	// themselves. Who wants them builds them again if this fails, and says why it does.
	go lab.BuildKubernetes(ctx, repository, "kubectl", os.Stderr) //nolint:errcheck // see above
	go lab.BuildRunc(ctx, repository, os.Stderr)                  //nolint:errcheck // see above
	// They take longer, and few of those who run a single test want them.
	if os.Getenv("CI") == "true" {
		go lab.BuildCSISidecars(ctx, repository, os.Stderr) //nolint:errcheck // see above
	}
}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

func planeIn(dir string) lab.ControlPlaneConfig {
	return lab.ControlPlaneConfig{Dir: dir, ControllerManager: true, Scheduler: true, Log: os.Stderr}
}

// stopPlane stops a control plane of a test's own, and logs what it said if the test has failed.
func stopPlane(t *testing.T, p *lab.ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Errorf("stop the control plane: %v", err)
	}
	if t.Failed() {
		t.Log(p.LogTails(2000))
	}
}

// plane is the control plane of most tests: nobody may stop it.
func plane(t *testing.T) *lab.ControlPlane {
	t.Helper()
	lab.Need(t, lab.GoToolchain)
	p := check.Value(shared.ControlPlane())(t)
	return p
}

// bed is a node of a cluster under test, with a namespace of its own.
type bed struct {
	*node.Agent
	// member is the agent if Agent is nil.
	member *member.Member
	// Daemon is the process of either, nil before there is one.
	*lab.Daemon
	plane *lab.ControlPlane
	// lab is containerd's, and served the other runtime: one of them is nil. runtime is either.
	lab     *lab.Lab
	served  *served.Runtime
	runtime machine
	// admin is the user.
	admin kubernetes.Interface
	// name is the node's and the namespace's.
	name string
}

// setup is what tests change of a bed.
type setup struct {
	plane  *lab.ControlPlane
	served bool // see onServed
	plain  bool // the served runtime's agent is without the race detector, as for measures
	// cgroups is a cgroup below which a served runtime's agent makes those of pods. It makes none if this is empty.
	cgroups string
	release lab.Release
	// families are those of pods, nil for IPv4. With some, pods can have host ports.
	families []v1.IPFamily
	// cgroup is a directory of a cgroup that the agent starts in; empty for that of the test.
	cgroup string
	runc   string // the directory of one that is not the distribution's
	agent  node.Config
	// identity is the agent's, complete but for the user. through, if not nil, makes of its kubeconfig the
	// one that the agent gets.
	identity lab.Identity
	through  func(kubeconfig string) (string, error)
}

// newBed starts containerd, makes a namespace, and prepares an agent. What is left in the end fails
// the test. name must be the test's own.
func newBed(t *testing.T, name string, change ...func(*setup)) *bed {
	t.Helper()
	s := setup{release: lab.Containerd2}
	for _, c := range change {
		c(&s)
	}
	needs, binaryOf := append(s.release.Needs(), lab.GoToolchain), shared.Troupe
	if s.served {
		needs, binaryOf = []lab.Requirement{lab.Root, lab.GoToolchain, lab.Gcc}, shared.Raced
		if s.plain {
			binaryOf = shared.Troupe
		}
		s.agent.Env = append(s.agent.Env, "GORACE=atexit_sleep_ms=0")
	}
	lab.Need(t, needs...)
	binary := check.Value(binaryOf())(t)
	b, dir := newBase(t, name, &s)
	s.identity.User, s.identity.Groups = "system:node:"+name, []string{"system:nodes"}
	kubeconfig := check.Value(b.plane.KubeconfigOf(s.identity))(t)
	if s.through != nil {
		kubeconfig = check.Value(s.through(kubeconfig))(t)
	}
	if s.cgroup != "" {
		binary = inCgroup(t, binary, s.cgroup)
	}
	s.agent.Binary, s.agent.Dir, s.agent.Endpoint = binary, dir, b.runtime.Endpoint()
	s.agent.CgroupRoot = cmp.Or(b.runtime.CgroupRoot(), s.cgroups)
	s.agent.Flags = append([]string{
		"--hostname-override", name, "--kubeconfig", kubeconfig, "--node-ip", "127.0.0.1", "--node-labels", "test=" + name,
	}, s.agent.Flags...)
	b.Agent = check.Value(node.New(s.agent))(t)
	b.Daemon = b.Agent.Daemon
	return b
}

// newBase is a bed without an agent: a runtime, a namespace, and a directory for an agent.
func newBase(t *testing.T, name string, s *setup) (b *bed, dir string) {
	t.Helper()
	if s.plane == nil {
		s.plane = plane(t)
	}
	// t.TempDir has too long a path for sockets.
	dir, err := os.MkdirTemp(shared.Dir, "")
	if err == nil {
		// As the directories of a node are: root in a pod with users of its own is nobody here, and
		// has to get to its files.
		err = errors.Join(os.Chmod(shared.Dir, 0o711), os.Chmod(dir, 0o711))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lab.BuildTime)
	defer cancel()
	admin := check.Value(kubernetes.NewForConfig(s.plane.AdminConfig()))(t)
	b = &bed{plane: s.plane, name: name, admin: admin}
	if s.served {
		b.serve(t, filepath.Join(dir, "c"))
	} else {
		b.contain(ctx, t, s, filepath.Join(dir, "c"))
	}
	check.Value(admin.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	return b, filepath.Join(dir, "n")
}

// contain starts containerd.
func (b *bed) contain(ctx context.Context, t *testing.T, s *setup, dir string) {
	t.Helper()
	registry := check.Value(shared.Registry())(t)
	b.lab = check.Value(lab.New(ctx, lab.Config{
		Dir: dir, Release: s.release, RuncDir: s.runc, Registry: registry, Log: t.Output(),
		Families: s.families, NodeNetwork: s.families != nil,
	}))(t)
	b.runtime = b.lab
	t.Cleanup(func() { b.clean(t) })
	check.Fatal(t, b.lab.Start(ctx))
}

// clean takes all away, as a user does, and looks for what stays.
func (b *bed) clean(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if t.Failed() && b.Daemon != nil {
		if b.Agent != nil {
			if view, err := b.Pods(ctx); err == nil {
				t.Logf("pods at the end: %+v", view)
			}
		}
		t.Logf("the end of the agent's log:\n%s", b.LogTail(12000))
	}
	b.collect(t)
	none := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	if b.Agent != nil && b.PID() != 0 {
		err := errors.Join(
			b.admin.CoreV1().Namespaces().Delete(ctx, b.name, none),
			// Its end takes the controller a while; that of its pods is ours.
			lab.Eventually(ctx, patience, "the namespace has no pods", func() error {
				list, err := b.admin.CoreV1().Pods(b.name).List(ctx, metav1.ListOptions{})
				if err == nil && len(list.Items) > 0 {
					err = fmt.Errorf("%d of them", len(list.Items))
				}
				return err
			}),
			lab.Eventually(ctx, patience, "nothing is left of any pod", func() error {
				world, err := node.Look(ctx, b.runtime)
				if err == nil {
					err = world.Empty()
				}
				if err == nil {
					if left := node.Leftovers(b.Daemon, b.runtime); len(left) > 0 {
						err = errors.New(strings.Join(left, ", "))
					}
				}
				return err
			}),
		)
		if err != nil && !t.Failed() {
			t.Errorf("%v; the end of the agent's log:\n%s", err, b.LogTail(6000))
			b.collect(t)
		}
	}
	if b.member != nil {
		check.Error(t, errors.Join(
			b.member.Stop(ctx),
			b.admin.CoreV1().Namespaces().Delete(ctx, b.name, none),
			b.admin.CoreV1().Pods(b.name).DeleteCollection(ctx, none, metav1.ListOptions{}),
			b.admin.CoreV1().Nodes().Delete(ctx, b.name, none),
		))
	}
	if b.Agent != nil {
		check.Error(t, b.Stop(ctx))
		check.Equal(t, b.Races(), "", "the agent has a data race")
		if err := b.admin.CoreV1().Nodes().Delete(ctx, b.name, none); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	if err := b.runtime.Cleanup(ctx); err != nil {
		t.Errorf("clean up the runtime: %v", err)
	}
	if b.Daemon != nil {
		check.Error(t, b.Discard())
	}
}

// started is newBed with the agent started and its node ready for pods.
func started(t *testing.T, name string, change ...func(*setup)) *bed {
	t.Helper()
	b := newBed(t, name, change...)
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	return b
}

func (b *bed) start(t *testing.T) {
	t.Helper()
	check.Fatal(t, b.Start(t.Context()))
}

func (b *bed) kill(t *testing.T) {
	t.Helper()
	check.Fatal(t, b.Kill(t.Context()))
}

// await polls until condition holds.
func (b *bed) await(t *testing.T, what string, condition func() error) {
	t.Helper()
	check.Fatal(t, lab.Eventually(t.Context(), patience, what, condition))
}

// node is the node's object.
func (b *bed) node(t *testing.T) *v1.Node {
	t.Helper()
	n := check.Value(b.admin.CoreV1().Nodes().Get(t.Context(), b.name, metav1.GetOptions{}))(t)
	return n
}

// awaitNode waits until condition holds of the node's object, and returns it.
func (b *bed) awaitNode(t *testing.T, what string, condition func(*v1.Node) error) *v1.Node {
	t.Helper()
	var n *v1.Node
	b.awaitObjects(t, "node "+b.name+" "+what, b.admin.CoreV1().Nodes(), only(b.name), func() (err error) {
		n = check.Must(b.admin.CoreV1().Nodes().Get(t.Context(), b.name, metav1.GetOptions{}))
		return condition(n)
	})
	return n
}

// usable is nil if a node is ready and the scheduler may use it.
func usable(n *v1.Node) error {
	if c := condition(n, v1.NodeReady); c.Status != v1.ConditionTrue {
		return fmt.Errorf("it is %s: %s", c.Status, c.Message)
	}
	for _, t := range n.Spec.Taints {
		if t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable {
			return fmt.Errorf("it has the taint %s", t.Key)
		}
	}
	return nil
}

func condition(n *v1.Node, kind v1.NodeConditionType) v1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.NodeCondition{Status: "not there"}
}

// pod is a pod of this node's namespace that only this node may run.
func (b *bed) pod(name string, change func(*v1.PodSpec)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name}, Spec: b.spec(change)}
	return p
}

// spec is the web server, changed.
func (b *bed) spec(change func(*v1.PodSpec)) v1.PodSpec {
	s := v1.PodSpec{
		NodeSelector:                  map[string]string{"test": b.name},
		TerminationGracePeriodSeconds: new(int64(5)),
		Containers:                    []v1.Container{{Name: "app", Image: lab.WebImage}},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// work makes the first container run the steps of tests/images/work.
func work(args string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		s.Containers[0].Image, s.Containers[0].Args = lab.WorkImage, strings.Fields(args)
	}
}

// create makes a pod.
func (b *bed) create(t *testing.T, p *v1.Pod) *v1.Pod {
	t.Helper()
	p = check.Value(b.admin.CoreV1().Pods(b.name).Create(t.Context(), p, metav1.CreateOptions{}))(t)
	return p
}

// get is a pod as the apiserver has it.
func (b *bed) get(t *testing.T, name string) *v1.Pod {
	t.Helper()
	p := check.Value(b.admin.CoreV1().Pods(b.name).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return p
}

// awaitPod waits until condition holds of a pod, and returns it.
func (b *bed) awaitPod(t *testing.T, name, what string, condition func(*v1.Pod) error) *v1.Pod {
	t.Helper()
	var p *v1.Pod
	b.awaitObjects(t, "pod "+name+" "+what, b.admin.CoreV1().Pods(b.name), only(name), func() (err error) {
		p = check.Must(b.admin.CoreV1().Pods(b.name).Get(t.Context(), name, metav1.GetOptions{}))
		if err := condition(p); err != nil {
			return fmt.Errorf("%w: %s %s, %s", err, p.Status.Phase, p.Status.Reason, shown(p))
		}
		return nil
	})
	return p
}

// ready is nil if a pod is.
func ready(p *v1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	return errors.New("not ready")
}

// phase is nil if a pod is in it.
func phase(want v1.PodPhase) func(*v1.Pod) error {
	return func(p *v1.Pod) error { return check.That(p.Status.Phase == want, "want %s", want) }
}

// world is what the runtime has, past the agent.
func (b *bed) world(t *testing.T) node.World {
	t.Helper()
	w := check.Value(node.Look(t.Context(), b.runtime))(t)
	return w
}

// remove deletes a pod, as kubectl does.
func (b *bed) remove(t *testing.T, name string) {
	t.Helper()
	check.Fatal(t, b.admin.CoreV1().Pods(b.name).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// awaitGone waits until the apiserver has the pod no more.
func (b *bed) awaitGone(t *testing.T, name string) {
	t.Helper()
	b.awaitObjects(t, "pod "+name+" is gone", b.admin.CoreV1().Pods(b.name), only(name), func() error {
		p, err := b.admin.CoreV1().Pods(b.name).Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("there: %s", shown(p))
		}
		return err
	})
}
