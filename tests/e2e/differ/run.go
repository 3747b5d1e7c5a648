package differ

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// rig is both nodes, or one of them beside what the other has shown.
type rig struct {
	sides []*side // kubelet first
	made  atomic.Int32
}

// Observed is what was seen of a case on each node.
type Observed struct {
	Case
	Keys []keys
	// Refused is why the apiserver did not take the pod.
	Refused error
}

const (
	tick     = 300 * time.Millisecond
	unmoved  = 1500 * time.Millisecond // how long a pod shows the same before it is compared
	given    = 8 * time.Second         // how long pods that show different things have to become the same
	waiting  = 20 * time.Second        // how long a pod that waits shows the same before it is taken to wait for ever
	longest  = 50 * time.Second        // of all that
	goneSoon = 90 * time.Second
	silence  = 2 * time.Second // how long no event comes of a pod that is gone before it has all
)

// width is how many pods are run at a time. They mostly wait, but where each one takes its processors from others, agents
// take longer than pods are waited for.
var width = min(12, 4*runtime.NumCPU())

// each does something for each case, for some at a time.
func each(cases []Case, do func(i int, c Case) error) error {
	errs := make([]error, len(cases))
	slots := make(chan struct{}, width)
	var wait sync.WaitGroup
	for i, c := range cases {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i, c)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// run runs cases.
func (r *rig) run(ctx context.Context, cases []Case) ([]Observed, error) {
	out := make([]Observed, len(cases))
	return out, each(cases, func(i int, c Case) (err error) {
		out[i], err = r.one(ctx, c, 1)
		return err
	})
}

// verdict is what came of a case that was run, and once more if it had differences that are not known.
type verdict struct{ runs []Observed }

// differ are the differences that came again.
func (v verdict) differ() []Difference {
	if len(v.runs) < 2 || v.runs[0].Refused != nil || v.runs[1].Refused != nil {
		return nil
	}
	return both(v.runs[0].unknown(), v.runs[1].unknown())
}

func (o Observed) unknown() []Difference { return unknown(o.Keys[0], o.Keys[1]) }

func (r *rig) examine(ctx context.Context, c Case) (v verdict, err error) {
	for _, times := range []time.Duration{1, secondTime} {
		o, err := r.one(ctx, c, times)
		if err != nil {
			return v, fmt.Errorf("%s: %w", c, err)
		}
		if v.runs = append(v.runs, o); o.Refused != nil || len(o.unknown()) == 0 {
			break
		}
	}
	return v, nil
}

// secondTime is how many times as long a pod is waited for that has shown differences: an agent may have been slow.
const secondTime = 3

// one runs a case, as a pod of a name that no other has, from its creation until it is gone. It waits so many times as long as
// is usual for pods that are not alike.
func (r *rig) one(ctx context.Context, c Case, times time.Duration) (o Observed, err error) {
	defer check.Return(&err)
	o.Case = c
	made, name := c.Make(), fmt.Sprintf("p%d-%d", c.Seed, r.made.Add(1))
	pods := make([]*v1.Pod, len(r.sides))
	err = r.beside(func(i int, s *side) (err error) {
		pods[i], err = s.create(ctx, made, name)
		return err
	})
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		o.Refused = err
		return o, r.remove(ctx, name)
	}
	check.OK(err)
	check.OK(r.settle(ctx, made, name, times))
	o.Keys = make([]keys, len(r.sides))
	check.OK(r.beside(func(i int, s *side) (err error) {
		o.Keys[i], err = s.capture(name)
		return err
	}))
	check.OK(r.remove(ctx, name))
	return o, r.beside(func(i int, s *side) error { return s.captureEnd(ctx, pods[i], name, o.Keys[i]) })
}

// beside does something on all nodes at once.
func (r *rig) beside(do func(i int, s *side) error) error {
	errs := make([]error, len(r.sides))
	var wait sync.WaitGroup
	for i, s := range r.sides {
		wait.Go(func() {
			if err := do(i, s); err != nil {
				errs[i] = fmt.Errorf("%s: %w", s.Node(), err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// captureEnd adds what there is to see of a pod when it is gone.
func (s *side) captureEnd(ctx context.Context, made *v1.Pod, name string, k keys) error {
	l, _ := s.lives.get(name)
	n := s.normal(l.pod)
	told := s.told.about(ctx, made, n)
	s.calls.await(ctx, l.pod)
	end := keys{}
	if err := s.calls.keys(l.pod, end); err != nil {
		return err
	}
	l.keys(end)
	for _, from := range []keys{n.in(end), ended(l, n)} {
		for path, value := range from {
			k.set(path, value)
		}
	}
	maps.Copy(k, told)
	return nil
}

// ended is the last status before a pod was gone.
func ended(l life, n normal) keys {
	k := keys{}
	for path, value := range statusKeys(l.pod, n) {
		k.set(strings.Replace(path, "status", "end", 1), value)
	}
	k["gone"] = fmt.Sprint(l.gone)
	return k
}

func (s *side) create(ctx context.Context, of Pod, name string) (*v1.Pod, error) {
	p := of.Pod.DeepCopy()
	p.Name, p.Namespace, p.Spec.NodeName = name, s.namespace, s.Node()
	for i := range p.Spec.Volumes {
		if h := p.Spec.Volumes[i].HostPath; h != nil {
			h.Path = s.place(h.Path, name)
		}
	}
	if err := s.makePlace(name); err != nil {
		return nil, err
	}
	pods := s.admin.CoreV1().Pods(s.namespace)
	p, err := pods.Create(ctx, p, metav1.CreateOptions{})
	if err != nil || len(of.Ephemeral) == 0 {
		return p, err
	}
	// A kubelet tries to make one at once, and tells of each try.
	const enough = 20 * time.Second
	_ = lab.Eventually(ctx, enough, "the containers run", func() error { // some never do
		l, there := s.lives.get(name)
		return check.That(there && !slices.ContainsFunc(l.pod.Status.ContainerStatuses, func(c v1.ContainerStatus) bool {
			return c.State.Waiting != nil
		}) && len(l.pod.Status.ContainerStatuses) > 0, "not yet")
	})
	err = lab.Eventually(ctx, patience, "ephemeral containers are added", func() error {
		fresh := check.Must(pods.Get(ctx, name, metav1.GetOptions{}))
		fresh.Spec.EphemeralContainers = of.Ephemeral
		_, err := pods.UpdateEphemeralContainers(ctx, name, fresh, metav1.UpdateOptions{})
		return err
	})
	return p, err
}

// settle waits until both pods show the same and stay so, or long enough to say that they do not.
func (r *rig) settle(ctx context.Context, of Pod, name string, times time.Duration) error {
	every := time.NewTicker(tick)
	defer every.Stop()
	for begin := time.Now(); time.Since(begin) < times*longest; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
		if time.Since(begin) >= of.Watch && r.settled(name, times) {
			return nil
		}
	}
	return nil
}

func (r *rig) settled(name string, times time.Duration) bool {
	calm, still := true, time.Hour
	all := make([]life, len(r.sides))
	for i, s := range r.sides {
		l, there := s.lives.get(name)
		if !there {
			return false
		}
		all[i] = l
		calm = calm && !moving(l.pod) && s.spoke(l.pod) && restarted(l.shown) == restarted(all[0].shown)
		still = min(still, time.Since(l.changed))
	}
	if !calm || still >= times*given {
		return calm || still >= times*waiting
	}
	return still >= unmoved && !slices.ContainsFunc(all[1:], func(l life) bool { return len(unknown(all[0].shown, l.shown)) > 0 })
}

// restarted are the containers that were made again: what is restarted on one node will be on the other.
func restarted(status keys) string {
	var all []string
	for key, value := range status {
		if strings.HasSuffix(key, "/restartCount") && value == "some" {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// spoke says whether all containers that run have looked around.
func (s *side) spoke(p *v1.Pod) bool {
	for _, c := range statuses(p) {
		if c.State.Running == nil || c.RestartCount > 0 {
			continue
		}
		if log, err := logOf(s.Logs(), p, c.Name); err != nil || saw(log) == "" {
			return false
		}
	}
	return true
}

// capture is what there is to see of a pod while it is there.
func (s *side) capture(name string) (_ keys, err error) {
	defer check.Return(&err)
	l, _ := s.lives.get(name)
	k := keys{}
	for _, c := range statuses(l.pod) {
		log, err := logOf(s.Logs(), l.pod, c.Name)
		if err != nil || saw(log) == "" {
			continue
		}
		k["seen/"+c.Name] = "it has looked around"
		check.OK(seenKeys(c.Name, saw(log), k))
	}
	if !over(l.pod) { // else they are being removed
		directoryKeys(s.Root(), l.pod, k)
		check.OK(cgroupKeys(s.lab.CgroupRoot(), l.pod, k))
	}
	n := s.normal(l.pod)
	k = n.in(k)
	for path, value := range statusKeys(l.pod, n) {
		k[path] = value
	}
	return k, nil
}

// remove deletes a pod of both nodes, and waits until it is gone.
func (r *rig) remove(ctx context.Context, name string) (err error) {
	defer check.Return(&err)
	for _, s := range r.sides {
		check.OK(s.delete(ctx, name, metav1.DeleteOptions{}))
	}
	for _, s := range r.sides {
		gone := lab.Eventually(ctx, goneSoon, name+" is gone", func() error {
			l, there := s.lives.get(name)
			return check.That(!there || l.gone, "it is there")
		})
		if gone != nil { // which is a difference, if it is not so on both
			check.OK(s.delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		}
	}
	return nil
}

func (s *side) delete(ctx context.Context, name string, how metav1.DeleteOptions) error {
	err := s.admin.CoreV1().Pods(s.namespace).Delete(ctx, name, how)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
