package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// bed is a control plane, a containerd, a client that watches, and the agents to compare.
type bed struct {
	*bench
	lab    *lab.Lab
	plane  *lab.ControlPlane
	client *kubernetes.Clientset
	seen   *watcher
	// kubelet first: ours comes last in each turn.
	agents []member.Agent
}

// clusterBed starts the control plane the first time it is asked for.
func (b *bench) clusterBed(ctx context.Context) (_ *bed, err error) {
	defer check.Return(&err)
	if b.bed != nil {
		return b.bed, nil
	}
	l := check.Must(b.lab(ctx, b.release))
	check.OK(pull(ctx, l, lab.WebImage))
	kubelet := check.Must(member.Kubelet(ctx, b.repository, os.Stdout))
	dir := check.Must(os.MkdirTemp(b.dir, "plane-"))
	bed := &bed{bench: b, lab: l, agents: []member.Agent{kubelet, member.Troupe(b.binary)}}
	bed.plane, err = lab.StartControlPlane(ctx, lab.ControlPlaneConfig{Dir: dir, Repository: b.repository, Log: os.Stdout})
	if err != nil {
		return nil, err
	}
	b.bed = bed
	bed.client = check.Must(kubernetes.NewForConfig(bed.plane.AdminConfig()))
	bed.seen, err = watchPods(ctx, bed.client)
	return bed, err
}

func (c *bed) close() error {
	if c.seen != nil {
		c.seen.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.plane.Stop(ctx)
}

// joined is an agent at work in a cluster, with its marks.
type joined struct {
	*bed
	*member.Member
	agent member.Agent
	marks string
	// stuck are pods that the agent has not removed in time. leave ends them.
	stuck []string
}

// join starts an agent as a fresh node and waits until the node is Ready. leave comes last.
func (c *bed) join(ctx context.Context, agent member.Agent) (_ *joined, err error) {
	r, err := c.prepare(agent)
	if err != nil {
		return nil, err
	}
	if err = r.Start(); err == nil {
		err = r.awaitReady(ctx)
	}
	if err != nil {
		r.leave(&err)
		return nil, err
	}
	return r, nil
}

// prepare makes all that a fresh node needs; env is more of the agent's environment. leave comes last.
func (c *bed) prepare(agent member.Agent, env ...string) (_ *joined, err error) {
	defer check.Return(&err)
	dir := check.Must(os.MkdirTemp(c.dir, "m-"))
	m := check.Must(member.New(member.Config{
		Agent: agent, Node: agent.Name + "-" + filepath.Base(dir)[len("m-"):], Dir: dir, Endpoint: c.lab.Endpoint(), CgroupRoot: c.lab.CgroupRoot(), Plane: c.plane, Env: env,
	}))
	r := &joined{bed: c, Member: m, agent: agent, marks: filepath.Join(dir, "marks")}
	return r, os.MkdirAll(r.marks, 0o755)
}

func (r *joined) awaitReady(ctx context.Context) error {
	return lab.Eventually(ctx, podPatience, "node "+r.Node()+" is Ready", func() error {
		check.OK(r.Running())
		n := check.Must(r.client.CoreV1().Nodes().Get(ctx, r.Node(), metav1.GetOptions{}))
		if !nodeReady(n) {
			return fmt.Errorf("conditions %v", n.Status.Conditions)
		}
		return nil
	})
}

func nodeReady(n *v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// leave stops the agent and removes all that is left of it: pods, node, files.
func (r *joined) leave(err *error) {
	check.Ended(recover(), err)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if *err != nil {
		*err = fmt.Errorf("%s: %w; the end of its log:\n%s", r.agent.Name, *err, r.LogTail(1500))
	}
	if r.keep {
		text, e := os.ReadFile(r.LogFile())
		*err = errors.Join(*err, e, os.WriteFile(filepath.Join(r.dir, r.Node()+".log"), text, 0o644))
	}
	*err = errors.Join(*err, r.Stop(ctx), r.forget(ctx), r.wipe(ctx, r.lab), r.Discard())
}

// forget removes the node and its pods from the apiserver, with no agent to ask.
func (r *joined) forget(ctx context.Context) error {
	now := int64(0)
	err := r.client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + r.Node()})
	if e := r.client.CoreV1().Nodes().Delete(ctx, r.Node(), metav1.DeleteOptions{}); !apierrors.IsNotFound(e) {
		err = errors.Join(err, e)
	}
	if len(r.stuck) > 0 && err == nil { // others of their names may come
		_, err = r.seen.await(ctx, "is gone", (*history).goneAt, r.stuck...)
		r.seen.drop(r.stuck...)
	}
	return err
}

// pod is one that leaves a mark, on this node.
func (c *bed) pod(name, node_, marks string) (*v1.Pod, error) {
	p := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(node.MarkPod(name, marks)), p); err != nil {
		return nil, err
	}
	p.Spec.NodeName = node_
	p.Spec.EnableServiceLinks = new(false)
	return p, nil
}

// create makes pods at the apiserver, as fast as that goes, and tells when it began.
func (r *joined) create(ctx context.Context, change func(*v1.Pod), names ...string) (time.Time, error) {
	pods := make([]*v1.Pod, len(names))
	for i, name := range names {
		p, err := r.pod(name, r.Node(), r.marks)
		if err != nil {
			return time.Time{}, err
		}
		if change != nil {
			change(p)
		}
		pods[i] = p
	}
	begin := time.Now()
	return begin, each(pods, func(p *v1.Pod) error {
		_, err := r.client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// start creates pods and tells how long each took to be seen Ready, counted from the begin.
func (r *joined) start(ctx context.Context, change func(*v1.Pod), names ...string) (samples, error) {
	begin, err := r.create(ctx, change, names...)
	if err != nil {
		return nil, err
	}
	at, err := r.seen.await(ctx, "is Ready", (*history).readyAt, names...)
	return since(begin, at), err
}

// remove deletes pods as kubectl does, and tells how long each took to be seen gone.
func (r *joined) remove(ctx context.Context, names ...string) (samples, error) {
	begin := time.Now()
	if err := r.delete(ctx, names...); err != nil {
		return nil, err
	}
	at, err := r.seen.await(ctx, "is gone", (*history).goneAt, names...)
	r.seen.drop(names...)
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.marks, name)))
	}
	return since(begin, at), err
}

// delete deletes pods as kubectl does, and waits for nothing.
func (r *joined) delete(ctx context.Context, names ...string) error {
	return each(names, func(name string) error {
		return r.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// cleared waits until the runtime has nothing left, so that the next sample is not disturbed.
func (r *joined) cleared(ctx context.Context) error {
	return lab.Eventually(ctx, allPatience, "nothing is left in the runtime", func() error {
		world := check.Must(node.Look(ctx, r.lab))
		n := len(world.Ready()) + len(world.Running())
		return check.That(n <= 0, "%d sandboxes and containers live", n)
	})
}

// each does something for all at once, but for no more than a client may have under way.
func each[T any](list []T, do func(T) error) error {
	const atOnce = 16
	slots := make(chan struct{}, atOnce)
	errs := make([]error, len(list))
	var group sync.WaitGroup
	for i, one := range list {
		group.Go(func() {
			slots <- struct{}{}
			errs[i] = do(one)
			<-slots
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// usage is the CPU time that an agent and the apiserver have used.
type usage struct{ agent, apiserver time.Duration }

// usage is what they have used so far.
func (r *joined) usage() (u usage, err error) {
	if pid := r.PID(); pid != 0 {
		if u.agent, err = cpu(pid); err != nil {
			return usage{}, err
		}
	}
	u.apiserver, err = cpu(r.plane.APIServerPID())
	return u, err
}

func (u usage) since(before usage) usage {
	return usage{u.agent - before.agent, u.apiserver - before.apiserver}
}

// agent is the one of that name.
func (c *bed) agent(name string) member.Agent {
	for _, a := range c.agents {
		if a.Name == name {
			return a
		}
	}
	panic("no agent " + name)
}

// firstReady starts an agent as a fresh node and tells how long after the start of its process the
// node was seen Ready.
func (c *bed) firstReady(ctx context.Context, name string) (took time.Duration, err error) {
	defer check.Return(&err)
	r := check.Must(c.prepare(c.agent(name)))
	defer r.leave(&err)
	nodes, err := c.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Node()})
	if err != nil {
		return 0, err
	}
	defer nodes.Stop()
	begin := time.Now()
	check.OK(r.Start())
	limit := time.NewTimer(podPatience)
	defer limit.Stop()
	for {
		select {
		case e, open := <-nodes.ResultChan():
			if n, is := e.Object.(*v1.Node); is && nodeReady(n) {
				return time.Since(begin), nil
			}
			if !open {
				return 0, errors.New("the watch of the node ended")
			}
		case <-limit.C:
			return 0, fmt.Errorf("node %s is not Ready after %s", r.Node(), podPatience)
		}
	}
}
