package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/fakelogind"
)

// doomedPods are how many pods of each priority a shutdown ends, groupPeriod is what it gives them.
const (
	doomedPods  = 20
	groupPeriod = 20 * time.Second
)

// shutdownPriorities are those of the pods, in the order of a shutdown.
var shutdownPriorities = []int32{0, 1000, 100_000}

// ended is when the programs of a group of pods ended, how many did, and how many hooks ran.
type ended struct {
	first, last  time.Time
	count, hooks int
}

// closing is what became of a node whose machine shut down.
type closing struct {
	begun, notReady, released time.Time
	groups                    []ended
	// shown are how many pods were shown to have ended when the lock was released, and last when the last one was.
	shown int
	last  time.Time
	// message is that of the node's condition, of what a pod shows.
	message, of string
}

// clusterShutdown compares what agents do when their machine shuts down.
func (b *bench) clusterShutdown(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	var details []string
	took := map[string]samples{}
	wrong := map[string]string{}
	for i := range b.rounds {
		for _, a := range c.agents {
			o := check.Must(c.shutdownOnce(ctx, a.Name))
			took[a.Name] = append(took[a.Name], o.released.Sub(o.begun))
			if text := o.wrong(); text != "" {
				wrong[a.Name] += fmt.Sprintf(", round %d: %s", i+1, text)
				if a.Name == troupeName {
					c.fault("shutdown: %s", text)
				}
			}
			details = append(details, fmt.Sprintf("%s, round %d: %s", a.Name, i+1, o))
			c.say("  %s", details[len(details)-1])
		}
	}
	k, t := took[kubeletName].median(), took[troupeName].median()
	return []result{{
		section: shutdowns,
		what:    fmt.Sprintf("%d pods of %d priorities, shutdown announced → lock released", doomedPods*len(shutdownPriorities), len(shutdownPriorities)),
		bar:     "not later than the kubelet; all pods end in order, with their hooks, and are shown so before",
		floor:   kubeletName + " " + ms(k) + wrong[kubeletName], measured: ms(t) + wrong[troupeName], ratio: times(t, k),
		verdict: verdict(t <= k && wrong[troupeName] == ""), details: details,
	}}, nil
}

// shutdownOnce shuts down the machine of a fresh node, once.
func (c *bed) shutdownOnce(ctx context.Context, agent string) (o *closing, err error) {
	defer check.Return(&err)
	logind, err := fakelogind.Run(fakelogind.Config{MaxDelay: time.Hour}, func(err error) { c.fault("logind: %v", err) })
	if err != nil {
		return nil, err
	}
	defer logind.Close()
	r := check.Must(c.prepare(c.agent(agent), "DBUS_SYSTEM_BUS_ADDRESS="+logind.Address()))
	defer r.leave(&err)
	settings := "shutdownGracePeriodByPodPriority:\n"
	for _, p := range shutdownPriorities {
		settings += fmt.Sprintf("- {priority: %d, shutdownGracePeriodSeconds: %.0f}\n", p, groupPeriod.Seconds())
	}
	check.OK(r.Configure(r.agent, settings))
	check.OK(r.Start())
	check.OK(r.awaitReady(ctx))
	for i, p := range shutdownPriorities {
		pods := doomedNames(i)
		check.OK(r.priorityClass(ctx, p))
		check.Must(r.start(ctx, doomed(p), pods...))
		r.stuck = append(r.stuck, pods...) // nobody removes them but leave
	}
	check.OK(lab.Eventually(ctx, podPatience, agent+" has a lock", func() error {
		return check.That(logind.Released() != nil, "it has none")
	}))
	check.OK(sleep(ctx, 2*settle))
	o = &closing{}
	return o, r.shutDown(ctx, logind, o)
}

// shutDown announces a shutdown and waits until the lock is released.
func (r *joined) shutDown(ctx context.Context, logind *fakelogind.Logind, o *closing) error {
	nodes, err := r.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Node()})
	if err != nil {
		return err
	}
	defer nodes.Stop()
	released := logind.Released()
	o.begun = time.Now()
	logind.PrepareForShutdown(true)
	limit := time.NewTimer(time.Duration(len(shutdownPriorities))*groupPeriod + podPatience)
	defer limit.Stop()
	for o.released.IsZero() {
		select {
		case e, open := <-nodes.ResultChan():
			if !open {
				return errors.New("the watch of the node ended")
			}
			o.hear(e)
		case <-released:
			o.released = time.Now()
		case <-limit.C:
			return errors.New("the lock was not released in time")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := r.countShown(ctx, o); err != nil {
		return err
	}
	if err := sleep(ctx, 2*settle); err != nil { // what is shown after that
		return err
	}
	for i := range shutdownPriorities {
		for _, name := range doomedNames(i) {
			if at, _ := r.seen.overAt(name); at.After(o.last) {
				o.last = at
			}
		}
		o.groups = append(o.groups, r.endedOf(doomedNames(i)))
	}
	p, _ := r.seen.last(doomedNames(0)[0])
	o.of = kubectlShows(p)
	return r.Running()
}

// hear takes in what a watch of the node told.
func (o *closing) hear(e watch.Event) {
	n, is := e.Object.(*v1.Node)
	if !is || nodeReady(n) || !o.notReady.IsZero() {
		return
	}
	o.notReady = time.Now()
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			o.message = c.Message
		}
	}
}

// podOver says whether a pod is shown to have ended.
func podOver(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded
}

// overAt is when a pod was first seen to have ended.
func (w *watcher) overAt(name string) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.pods[name]
	if h == nil {
		return time.Time{}, false
	}
	return h.first(func(v version) bool { return podOver(v.pod) })
}

// countShown asks the apiserver how many pods are shown to have ended.
func (r *joined) countShown(ctx context.Context, o *closing) error {
	list, err := r.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + r.Node()})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if podOver(&list.Items[i]) {
			o.shown++
		}
	}
	return nil
}

// endedOf reads the files that pods have left.
func (r *joined) endedOf(pods []string) (e ended) {
	for _, name := range pods {
		if _, err := os.Stat(filepath.Join(r.marks, name+".hook")); err == nil {
			e.hooks++
		}
		info, err := os.Stat(filepath.Join(r.marks, name+".end"))
		if err != nil {
			continue
		}
		e.count++
		if at := info.ModTime(); e.first.IsZero() || at.Before(e.first) {
			e.first = at
		}
		if at := info.ModTime(); at.After(e.last) {
			e.last = at
		}
	}
	return e
}

func doomedNames(group int) []string { return names(fmt.Sprintf("doomed-%d", group), doomedPods) }

func className(priority int32) string { return fmt.Sprintf("priority-%d", priority) }

// hooked says whether a pod has a hook.
func hooked(i int) bool { return i%4 == 0 }

// doomed makes a pod one that a shutdown ends.
func doomed(priority int32) func(*v1.Pod) {
	group := slices.Index(shutdownPriorities, priority)
	return func(p *v1.Pod) {
		p.Spec.PriorityClassName = className(priority)
		p.Spec.TerminationGracePeriodSeconds = new(int64(groupPeriod.Seconds()))
		p.Spec.Containers[0].Args = strings.Fields("trap 200ms then touch /marks/" + p.Name + ".end")
		if i := slices.Index(doomedNames(group), p.Name); i >= 0 && hooked(i) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
				Exec: &v1.ExecAction{Command: []string{"/work", "touch", "/marks/" + p.Name + ".hook"}},
			}}
		}
	}
}

// priorityClass makes the class of a priority, unless there is one, and waits until admission knows it.
func (r *joined) priorityClass(ctx context.Context, priority int32) error {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: className(priority)}, Value: priority}
	_, err := r.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return lab.Eventually(ctx, podPatience, "pods may have class "+class.Name, func() error {
		p := check.Must(r.pod("dry", r.Node(), r.marks))
		p.Spec.PriorityClassName = class.Name
		return check.Err(r.client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	})
}

// wrong says what a shutdown must not do, nothing if all is well.
func (o *closing) wrong() string {
	var all []string
	if o.notReady.IsZero() {
		all = append(all, "the node was never seen NotReady")
	}
	hooks := 0
	for i := range doomedPods {
		if hooked(i) {
			hooks++
		}
	}
	var before time.Time
	for i, g := range o.groups {
		if g.count < doomedPods || g.hooks < hooks {
			all = append(all, fmt.Sprintf("priority %d: %d of %d pods ended, %d of %d hooks ran", shutdownPriorities[i], g.count, doomedPods, g.hooks, hooks))
		}
		if g.first.Before(before) {
			all = append(all, fmt.Sprintf("a pod of priority %d ended %s before one of a lower priority", shutdownPriorities[i], ms(before.Sub(g.first))))
		}
		before = g.last
	}
	if n := doomedPods * len(shutdownPriorities); o.shown < n {
		all = append(all, fmt.Sprintf("%d of %d pods were not shown to have ended when the lock was released", n-o.shown, n))
	}
	return strings.Join(all, ", ")
}

// String says all of it.
func (o *closing) String() string {
	after := func(at time.Time) string {
		if at.IsZero() {
			return "never"
		}
		return ms(at.Sub(o.begun))
	}
	all := []string{fmt.Sprintf("node seen NotReady %s (%q)", after(o.notReady), o.message)}
	for i, g := range o.groups {
		all = append(all, fmt.Sprintf("priority %d: %d pods ended %s to %s, %d hooks ran", shutdownPriorities[i], g.count, after(g.first), after(g.last), g.hooks))
	}
	all = append(all, fmt.Sprintf("lock released %s", after(o.released)),
		fmt.Sprintf("%d of %d pods shown to have ended by then, the last one seen so %s", o.shown, doomedPods*len(shutdownPriorities), after(o.last)))
	if text := o.wrong(); text != "" {
		all = append(all, text)
	}
	return strings.Join(append(all, "a pod: "+o.of), "; ")
}
