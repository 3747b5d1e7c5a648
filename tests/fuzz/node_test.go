package fuzz

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/growth"
)

// FuzzPod: whatever is in a pod, and in the objects that it names, no actor crashes for it, a plain pod beside it runs, and
// it goes when it is deleted.
func FuzzPod(f *testing.F) {
	for i := range byte(8) {
		f.Add([]byte{i})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New(data)
		p := growth.Base("odd")
		s.Fill(&p.Labels)
		s.Fill(&p.Annotations)
		s.Fill(&p.Spec)
		node(t, nil).live(t, s, p, s.objects())
	})
}

// FuzzShapes is the same with pods that have long lists of several kinds.
func FuzzShapes(f *testing.F) {
	for i := range byte(4) {
		f.Add([]byte{i})
	}
	shapes := growth.Shapes()
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New(data)
		p := growth.Base("odd")
		var objects []port.APIObject
		for range 1 + s.IntN(3) {
			more, fits := grow(&shapes[s.IntN(len(shapes))], p, s.IntN(50))
			if !fits {
				t.Skip("these shapes are of the same field")
			}
			objects = append(objects, more...)
		}
		node(t, nil).live(t, s, p, objects)
	})
}

// grow gives a pod a shape. Some are for a pod that has none of its field yet.
func grow(shape *growth.Shape, p *v1.Pod, n int) (objects []port.APIObject, fits bool) {
	defer func() {
		if recover() != nil {
			fits = false
		}
	}()
	return shape.Make(p, n), true
}

// objects are those that pods name, of any content.
func (s *Source) objects() (out []port.APIObject) {
	for _, name := range names {
		for _, o := range []port.APIObject{
			&v1.ConfigMap{}, &v1.Secret{}, &v1.Service{}, &v1.PersistentVolumeClaim{}, &v1.PersistentVolume{}, &nodev1.RuntimeClass{},
		} {
			if s.IntN(2) == 0 {
				continue
			}
			s.Fill(o)
			m := o.(metav1.Object)
			reset(m, name)
			switch o.(type) {
			case *v1.PersistentVolume, *nodev1.RuntimeClass:
				m.SetNamespace("")
			}
			out = append(out, o)
		}
	}
	return out
}

// reset leaves of an object's metadata what people write.
func reset(m metav1.Object, name string) {
	labels, annotations := m.GetLabels(), m.GetAnnotations()
	for _, set := range []func(){
		func() { m.SetUID("") }, func() { m.SetResourceVersion("") }, func() { m.SetGeneration(0) }, func() { m.SetGenerateName("") },
		func() { m.SetDeletionTimestamp(nil) }, func() { m.SetDeletionGracePeriodSeconds(nil) }, func() { m.SetFinalizers(nil) },
		func() { m.SetOwnerReferences(nil) }, func() { m.SetManagedFields(nil) }, func() { m.SetCreationTimestamp(metav1.Time{}) },
	} {
		set()
	}
	m.SetNamespace("default")
	m.SetName(name)
	m.SetLabels(labels)
	m.SetAnnotations(annotations)
}

// settle makes of a pod one that an apiserver could have taken, as far as its names go.
func settle(p *v1.Pod) {
	p.Spec.NodeName = "n"
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(1))
	p.Spec.SchedulingGates, p.Finalizers = nil, nil // somebody else's
	seen := map[string]bool{}
	fresh := func(name string) string {
		for i := 0; name == "" || seen[name]; i++ {
			name = fmt.Sprint("x", i)
		}
		seen[name] = true
		return name
	}
	if len(p.Spec.Containers) == 0 {
		p.Spec.Containers = growth.Base("").Spec.Containers
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].Name = fresh(list[i].Name)
		}
	}
	for i := range p.Spec.EphemeralContainers {
		p.Spec.EphemeralContainers[i].Name = fresh(p.Spec.EphemeralContainers[i].Name)
	}
	clear(seen)
	for i := range p.Spec.Volumes {
		p.Spec.Volumes[i].Name = fresh(p.Spec.Volumes[i].Name)
	}
}

var roomy = v1.ResourceList{
	v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"),
	v1.ResourcePods: resource.MustParse("500"), v1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
}

// world is a node on which any crash of an actor fails the test.
type world struct {
	*sim.World
	node *sim.Node
	log  bytes.Buffer
	// honest ends all lies, so that the pod can go; nil if there are none.
	honest func()
}

// node makes one. change may be nil.
func node(t *testing.T, change func(*sim.NodeSpec)) *world {
	t.Helper()
	crashed := func(r *kernel.CrashReport) { t.Errorf("%s\n%s", r, r.Stack) }
	w := &world{}
	w.World = check.Value(sim.New(sim.Config{
		Seed: 1, Bare: true, Services: true, MailboxLimit: 1 << 20, Log: zerolog.New(&w.log),
		Hooks: sim.Hooks{
			Crashed: crashed, GaveUp: func(_ string, r *kernel.CrashReport) { crashed(r) },
			Violated: func(v *kernel.Violation) { t.Error(v) },
		},
	}))(t)
	spec := sim.NodeSpec{Name: "n", Allocatable: roomy, Cgroups: true, Files: true, PullRecords: true}
	if change != nil {
		change(&spec)
	}
	w.node = check.Value(w.AddNode(spec))(t)
	return w
}

// live runs a pod and a plain one on the node, changes what the first one is made of, and ends it.
func (w *world) live(t *testing.T, s *Source, p *v1.Pod, objects []port.APIObject) {
	t.Helper()
	w.Advance(5 * time.Second)
	for _, o := range objects {
		_, _ = w.API().Create(o) // what an apiserver does not take is not there
	}
	settle(p)
	plain := growth.Base("plain")
	plain.Spec.NodeName = "n"
	_, err := w.API().Create(p)
	taken := err == nil
	check.Value(w.API().Create(plain))(t)
	w.Advance(20 * time.Second)
	w.change(s, objects)
	if s.IntN(3) == 0 {
		w.node.RestartAgent()
	}
	// Images are pulled one after another, and the pod may have many.
	if !w.RunUntil(5*time.Minute, func() bool { return ready(w.pod(t, plain.Name)) }) {
		t.Errorf("the plain pod is %+v\n%s", w.pod(t, plain.Name).Status, &w.log)
	}
	w.Advance(20 * time.Second)
	if w.honest != nil {
		w.honest()
	}
	if taken {
		_ = w.API().Delete(port.APIDelete{Key: key(p.Name)}) // it may be gone
		gone := func() bool {
			_, err := w.API().Get(key(p.Name))
			return err != nil
		}
		if !w.RunUntil(30*time.Minute, gone) {
			t.Errorf("the pod is there half an hour after its deletion: %+v\n%s", w.pod(t, p.Name), &w.log)
		}
	}
	w.node.KillAgent()
}

// change changes the pod, its objects and the Node as clients may.
func (w *world) change(s *Source, objects []port.APIObject) {
	for _, o := range objects {
		if s.IntN(3) > 0 {
			continue
		}
		next := o.DeepCopyObject().(port.APIObject)
		s.Fill(next)
		reset(next, o.GetName())
		next.SetNamespace(o.GetNamespace())
		_, _ = w.API().Update(next) // or not, where an apiserver forbids it
	}
	if o, err := w.API().Get(key("odd")); err == nil {
		p := o.DeepCopyObject().(*v1.Pod)
		s.Fill(&p.Labels)
		s.Fill(&p.Annotations)
		for i := range p.Spec.Containers {
			s.Fill(&p.Spec.Containers[i].Image)
		}
		_, _ = w.API().Update(p)
		w.changeStatus(s)
	}
	if o, err := w.API().Get(port.APIKey{Kind: port.NodeKind, Name: "n"}); err == nil {
		n := o.DeepCopyObject().(*v1.Node)
		s.Fill(&n.Annotations)
		s.Fill(&n.Spec.Taints)
		s.Fill(&n.Spec.PodCIDRs)
		_, _ = w.API().Update(n)
	}
}

// changeStatus writes any status of the pod, as another agent of its node, or a client that may, could have done.
func (w *world) changeStatus(s *Source) {
	o, err := w.API().Get(key("odd"))
	if err != nil || s.IntN(2) > 0 {
		return
	}
	p := o.DeepCopyObject().(*v1.Pod)
	class := p.Status.QOSClass
	s.Fill(&p.Status)
	p.Status.QOSClass = class // no apiserver lets it change
	rename := func(list []v1.ContainerStatus, of []v1.Container) {
		for i := range min(len(list), len(of)) {
			list[i].Name = of[i].Name
		}
	}
	rename(p.Status.InitContainerStatuses, p.Spec.InitContainers)
	rename(p.Status.ContainerStatuses, p.Spec.Containers)
	_, _ = w.API().UpdateStatus(p)
}

func (w *world) pod(t *testing.T, name string) *v1.Pod {
	t.Helper()
	return check.Value(w.API().Get(key(name)))(t).(*v1.Pod)
}

func key(pod string) port.APIKey {
	return port.APIKey{Kind: port.PodKind, Namespace: "default", Name: pod}
}

func ready(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
