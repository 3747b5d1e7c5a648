package differ

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	runs  int
}

// Observed is what was seen of a case on each node.
type Observed struct {
	Case
	Keys []keys
	// Refused is why the apiserver did not take the pod.
	Refused error
}

const (
	batch    = 10
	tick     = 300 * time.Millisecond
	unmoved  = 1500 * time.Millisecond // how long a pod shows the same before it is compared
	given    = 8 * time.Second         // how long pods that show different things have to become the same
	waiting  = 20 * time.Second        // how long a pod that waits shows the same before it is taken to wait for ever
	longest  = 50 * time.Second        // of all that
	goneSoon = 90 * time.Second
)

// run runs cases, some at a time.
func (r *rig) run(ctx context.Context, cases []Case) (out []Observed, err error) {
	out = make([]Observed, len(cases))
	errs := make([]error, len(cases))
	for from := 0; from < len(cases); from += batch {
		r.runs++
		pods := make([][]*v1.Pod, len(cases))
		var wait sync.WaitGroup
		for i := from; i < min(from+batch, len(cases)); i++ {
			wait.Go(func() {
				out[i], pods[i], errs[i] = r.one(ctx, cases[i], fmt.Sprintf("p%d-%d-%d", cases[i].Seed, r.runs, i-from))
			})
		}
		wait.Wait()
		if err := r.events(ctx, out[from:min(from+batch, len(cases))], pods[from:min(from+batch, len(cases))]); err != nil {
			return out, err
		}
	}
	return out, errors.Join(errs...)
}

// one runs a case, as a pod of a name that no other has, from its creation until it is gone.
func (r *rig) one(ctx context.Context, c Case, name string) (o Observed, pods []*v1.Pod, err error) {
	defer check.Return(&err)
	o.Case = c
	made := c.Make()
	for _, s := range r.sides {
		p, err := s.create(ctx, made, name)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			o.Refused = err
		} else if err != nil {
			return o, nil, err
		}
		pods = append(pods, p)
	}
	if o.Refused != nil {
		return o, nil, r.remove(ctx, name)
	}
	if err := r.settle(ctx, made, name); err != nil {
		return o, pods, err
	}
	for _, s := range r.sides {
		k, err := s.capture(name)
		if err != nil {
			return o, pods, fmt.Errorf("%s: %w", s.Node(), err)
		}
		o.Keys = append(o.Keys, k)
	}
	check.OK(r.remove(ctx, name))
	for i, s := range r.sides {
		l, _ := s.lives.get(name)
		end := keys{}
		check.OK(s.calls.keys(l.pod, end))
		l.keys(end)
		n := s.normal(l.pod)
		for _, from := range []keys{n.in(end), ended(l, n)} {
			for path, value := range from {
				o.Keys[i].set(path, value)
			}
		}
		s.mu.Lock()
		s.cases[string(pods[i].UID)] = c
		s.mu.Unlock()
	}
	return o, pods, nil
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
func (r *rig) settle(ctx context.Context, of Pod, name string) error {
	every := time.NewTicker(tick)
	defer every.Stop()
	for begin := time.Now(); time.Since(begin) < longest; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
		if time.Since(begin) >= of.Watch && r.settled(name) {
			return nil
		}
	}
	return nil
}

func (r *rig) settled(name string) bool {
	same, calm, still := true, true, time.Hour
	var first life
	for i, s := range r.sides {
		l, there := s.lives.get(name)
		if !there {
			return false
		}
		if i == 0 {
			first = l
		}
		same = same && l.shown == first.shown
		calm = calm && !moving(l.pod) && s.spoke(l.pod)
		still = min(still, time.Since(l.changed))
	}
	return calm && (same && still >= unmoved || still >= given) || still >= waiting
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
		if err := s.admin.CoreV1().Pods(s.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, s := range r.sides {
		gone := lab.Eventually(ctx, goneSoon, name+" is gone", func() error {
			l, there := s.lives.get(name)
			return check.That(!there || l.gone, "it is there")
		})
		if gone != nil { // which is a difference, if it is not so on both
			check.OK(s.admin.CoreV1().Pods(s.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		}
	}
	return nil
}

// events adds those of pods that are gone, when no more come.
func (r *rig) events(ctx context.Context, of []Observed, pods [][]*v1.Pod) (err error) {
	defer check.Return(&err)
	for i, s := range r.sides {
		var list *v1.EventList
		last := -1
		check.OK(lab.Eventually(ctx, patience, "no more events come", func() error {
			list = check.Must(s.admin.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{}))
			before := last
			last = len(list.Items)
			if before == last {
				return nil
			}
			<-time.After(time.Second) // between two looks
			return errors.New("some came")
		}))
		for at := range of {
			if of[at].Refused != nil || len(of[at].Keys) <= i {
				continue
			}
			p := pods[at][i]
			for _, e := range list.Items {
				if e.InvolvedObject.UID != p.UID {
					continue
				}
				l, _ := s.lives.get(p.Name)
				path := strings.Join([]string{"event", e.Type, e.Reason, e.InvolvedObject.FieldPath, e.Message}, "/")
				of[at].Keys[i][s.normal(l.pod).text(path)] = e.Source.Component
			}
		}
	}
	return nil
}
