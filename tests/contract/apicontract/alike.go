package apicontract

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// Alike makes the same calls to two implementations, drawn from a seed, and
// fails where they differ in an answer, in what is there after it, or in whether
// there is a new version. It knows no rule: what one does is right for the other.
func Alike(t *testing.T, one, other Subject, seed uint64, steps int) {
	name := fmt.Sprintf("alike-%x-%x", seed, time.Now().UnixNano()&0xffffff)
	a := &alike{T: t, rng: rand.New(rand.NewPCG(seed, 0)), name: name, versions: map[port.APIKey][][2]port.APIObject{}}
	for i, subject := range []Subject{one, other} {
		a.sides[i] = &suite{T: t, Subject: subject, name: name}
	}
	pods := port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + name + "-node"}
	views := [2]*view{a.sides[0].started(pods), a.sides[1].started(pods)}
	for a.step = range steps {
		a.draw()
		if t.Failed() {
			return
		}
	}
	for i, s := range a.sides {
		want := map[port.APIKey]string{}
		for _, k := range a.keys {
			if o, err := s.get(k).result(); err == nil && k.Kind == port.PodKind && o.(*v1.Pod).Spec.NodeName != "" {
				want[k] = o.GetResourceVersion()
			}
		}
		s.eventually(fmt.Sprint("the watch of ", i, " shows what is there"), func() bool {
			for k, version := range want {
				if views[i].objects[k] == nil || views[i].objects[k].GetResourceVersion() != version {
					return false
				}
			}
			return len(views[i].objects) == len(want)
		})
	}
}

// alike is two implementations side by side.
type alike struct {
	*testing.T
	rng   *rand.Rand
	name  string
	step  int
	sides [2]*suite
	// keys are the objects that there may be, in order of their first creation.
	keys []port.APIKey
	// versions are the versions of each that a writer may have, on both sides.
	versions map[port.APIKey][][2]port.APIObject
}

// at is the time that is written into statuses.
var at = metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))

func (a *alike) draw() {
	kind := []port.APIKind{port.PodKind, port.PodKind, port.PodKind, port.ConfigMapKind, port.NodeKind, port.LeaseKind}[a.rng.IntN(6)]
	k := port.APIKey{Kind: kind, Namespace: a.sides[0].Namespace, Name: fmt.Sprintf("%s-%d", a.name, a.rng.IntN(2))}
	if kind == port.NodeKind {
		k.Namespace = ""
	}
	known := a.versions[k]
	action := a.rng.IntN(10)
	switch {
	case len(known) == 0 || action == 0:
		a.create(k)
	case action == 1:
		a.delete(k)
	default:
		from := known[len(known)-1]
		if a.rng.IntN(4) == 0 {
			from = known[a.rng.IntN(len(known))]
		}
		a.write(k, from, action)
	}
}

// both makes one call to each side, and compares what came of it.
func (a *alike) both(k port.APIKey, what string, call func(i int, s *suite) (port.APIObject, error)) {
	a.Helper()
	var said, there [2]string
	var objects [2]port.APIObject
	for i, s := range a.sides {
		before, _ := s.get(k).result()
		o, err := call(i, s)
		after, gone := s.get(k).result()
		if err != nil {
			said[i] = "failed: " + port.KindOf(err).String()
		} else if objects[i] = o; o != nil {
			said[i] = "gave " + essence(o)
		}
		if gone != nil {
			there[i] = port.KindOf(gone).String()
			continue
		}
		there[i] = essence(after)
		if before != nil && before.GetUID() == after.GetUID() {
			there[i] += fmt.Sprintf(" (new version: %v)", newVersion(before, after))
		}
	}
	if said[0] != said[1] {
		a.Errorf("step %d: %s of %s\none   %s\nother %s", a.step, what, k, said[0], said[1])
	}
	if there[0] != there[1] {
		a.Errorf("step %d: after %s of %s there is\none   %s\nother %s", a.step, what, k, there[0], there[1])
	}
	if objects[0] != nil && objects[1] != nil {
		a.versions[k] = append(a.versions[k], objects)
	}
}

// newVersion says whether a write made a new version, other than to note who
// manages which field: that is bookkeeping which not everybody does.
func newVersion(before, after port.APIObject) bool {
	if before.GetResourceVersion() == after.GetResourceVersion() {
		return false
	}
	if len(before.GetManagedFields())+len(after.GetManagedFields()) == 0 {
		return true
	}
	plain := func(o port.APIObject) { o.SetManagedFields(nil); o.SetResourceVersion("") }
	return !apiequality.Semantic.DeepEqual(with(before, plain), with(after, plain))
}

func (a *alike) create(k port.APIKey) {
	finalizer, node, policy := a.rng.IntN(3) == 0, a.rng.IntN(4) > 0, a.rng.IntN(3)
	var o port.APIObject
	switch m := (metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, Labels: map[string]string{"a": "0"}}); k.Kind {
	case port.PodKind:
		p := a.sides[0].pod("", "")
		p.ObjectMeta = m
		if node {
			p.Spec.NodeName = a.name + "-node"
		}
		p.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[policy]
		o = p
	case port.ConfigMapKind:
		o = &v1.ConfigMap{ObjectMeta: m, Data: map[string]string{"a": "0"}}
	case port.NodeKind:
		n := a.sides[0].node("")
		n.ObjectMeta, n.Status.Conditions = m, nil
		o = n
	default:
		o = &coordinationv1.Lease{ObjectMeta: m, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a"), LeaseDurationSeconds: new(int32(40))}}
	}
	if finalizer {
		o.SetFinalizers([]string{"contract.test/f"})
	}
	if len(a.versions[k]) == 0 {
		a.keys = append(a.keys, k)
		for _, s := range a.sides {
			s.removeLater(o)
		}
	}
	a.both(k, "Create", func(_ int, s *suite) (port.APIObject, error) { return s.create(o).result() })
}

func (a *alike) delete(k port.APIKey) {
	d := port.APIDelete{Key: k}
	if a.rng.IntN(3) > 0 {
		d.Grace = new([]int64{0, 0, 600, 900, 3600}[a.rng.IntN(5)])
	}
	if a.rng.IntN(6) == 0 {
		d.UID = "another"
	}
	a.both(k, fmt.Sprintf("Delete %+v", d), func(_ int, s *suite) (port.APIObject, error) {
		_, err := s.delete(d).result()
		return nil, err
	})
}

// write changes an object from a version.
func (a *alike) write(k port.APIKey, from [2]port.APIObject, action int) {
	status := action >= 6 && (k.Kind == port.PodKind || k.Kind == port.NodeKind)
	seed := a.rng.Uint64()
	var to [2]port.APIObject
	var what string
	for i := range to {
		// The same draws for both.
		to[i], what = changed(from[i], status, rand.New(rand.NewPCG(seed, 1)))
	}
	unconditional := a.rng.IntN(5) == 0
	switch {
	case status || action%2 == 0:
		a.both(k, "Patch "+what, func(i int, s *suite) (port.APIObject, error) {
			return s.patchAs(port.APIPatch{Key: k, From: from[i], To: to[i], Status: status}).result()
		})
	default:
		a.both(k, "Update "+what, func(i int, s *suite) (port.APIObject, error) {
			o := to[i]
			if unconditional {
				o = with(o, func(o port.APIObject) { o.SetResourceVersion("") })
			}
			return s.update(o).result()
		})
	}
}

// changed is a copy of an object with a few changes, and what they are.
func changed(from port.APIObject, status bool, rng *rand.Rand) (port.APIObject, string) {
	to := clone(from)
	to.SetManagedFields(nil) // who manages a field is no business of the port's
	what := ""
	for range 1 + rng.IntN(3) {
		value := fmt.Sprint(rng.IntN(3))
		if !status && rng.IntN(2) == 0 {
			what += " " + changeMeta(to, rng.IntN(4), value)
			continue
		}
		switch o := to.(type) {
		case *v1.Pod:
			if status {
				what += " " + changePodStatus(&o.Status, rng.IntN(8), value)
			} else {
				what += " " + changePodSpec(&o.Spec, rng.IntN(9), value)
			}
		case *v1.Node:
			what += " " + changeNode(o, status, rng.IntN(4), value)
		case *v1.ConfigMap:
			what += " " + changeMap(o, rng.IntN(4), value)
		case *coordinationv1.Lease:
			o.Spec.HolderIdentity, o.Spec.RenewTime = &value, new(metav1.NewMicroTime(at.Add(time.Duration(rng.IntN(3))*time.Microsecond)))
			what += " holder " + value
		}
	}
	return to, what
}

func changeMeta(o port.APIObject, which int, value string) string {
	switch which {
	case 0:
		o.SetAnnotations(map[string]string{"x" + value: value})
		return "annotations x" + value
	case 1:
		o.SetFinalizers(nil)
		return "no finalizers"
	default:
		label("l"+value, value)(o)
		if which == 3 {
			label("a", "")(o)
		}
		return fmt.Sprint("labels l", value, " ", which)
	}
}

func changePodSpec(s *v1.PodSpec, which int, value string) string {
	switch which {
	case 0, 1:
		s.Containers[which].Image = "contract.test/x:" + value
	case 2:
		s.ActiveDeadlineSeconds = new(int64(value[0]))
	case 3:
		s.ActiveDeadlineSeconds = nil
	case 4:
		s.Tolerations = append(s.Tolerations, v1.Toleration{Key: "k" + value, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	case 5:
		s.NodeName += "-" + value
	case 6:
		s.Containers[0].Env = append(s.Containers[0].Env, v1.EnvVar{Name: "A", Value: value})
	case 7:
		s.Containers = s.Containers[:1]
	case 8:
		s.TerminationGracePeriodSeconds = new(int64(value[0]))
	}
	return fmt.Sprint("spec ", which, " ", value)
}

func changePodStatus(s *v1.PodStatus, which int, value string) string {
	state := map[string]v1.ContainerState{
		"0": {Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		"1": {Running: &v1.ContainerStateRunning{StartedAt: at}},
		"2": {Terminated: &v1.ContainerStateTerminated{ExitCode: 1, StartedAt: at, FinishedAt: at, Reason: "Error"}},
	}[value]
	switch which {
	case 0:
		s.Phase = map[string]v1.PodPhase{"0": v1.PodPending, "1": v1.PodRunning, "2": v1.PodFailed}[value]
	case 1, 2:
		for len(s.ContainerStatuses) < which {
			s.ContainerStatuses = append(s.ContainerStatuses, v1.ContainerStatus{Name: string(rune('a' + len(s.ContainerStatuses)))})
		}
		s.ContainerStatuses[which-1].State, s.ContainerStatuses[which-1].RestartCount = state, int32(value[0]-'0')
	case 3:
		s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.PodConditionType("contract.test/" + value), Status: v1.ConditionTrue, LastTransitionTime: at})
	case 4:
		if len(s.Conditions) > 0 {
			s.Conditions[0].Status, s.Conditions[0].Message = v1.ConditionFalse, value
		}
	case 5:
		if len(s.Conditions) > 1 {
			s.Conditions = s.Conditions[1:]
		}
	case 6:
		s.Message, s.StartTime = value, &at
		s.PodIP, s.PodIPs = "10.0.0.1"+value, []v1.PodIP{{IP: "10.0.0.1" + value}}
	case 7:
		s.ObservedGeneration = int64(value[0] - '0')
	}
	return fmt.Sprint("status ", which, " ", value)
}

func changeNode(n *v1.Node, status bool, which int, value string) string {
	switch {
	case !status && which%2 == 0:
		n.Spec.Unschedulable = value == "0"
	case !status:
		n.Spec.Taints = []v1.Taint{{Key: "k" + value, Effect: v1.TaintEffectNoSchedule}}
	case which == 0:
		n.Status.Capacity = v1.ResourceList{v1.ResourceName("contract.test/" + value): resource.MustParse(value)}
	case which == 1:
		n.Status.Conditions = append(n.Status.Conditions, nodeCondition(v1.NodeConditionType("contract.test/"+value), v1.ConditionTrue, at.Time))
	case which == 2:
		n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2." + value}, {Type: v1.NodeHostName, Address: "h"}}
	default:
		n.Status.Images = []v1.ContainerImage{{Names: []string{"x:" + value}, SizeBytes: 1}}
	}
	return fmt.Sprint("node ", status, " ", which, " ", value)
}

func changeMap(c *v1.ConfigMap, which int, value string) string {
	if c.Data == nil {
		c.Data = map[string]string{}
	}
	switch which {
	case 0:
		delete(c.Data, "a")
	case 1:
		c.Immutable = new(true)
	default:
		c.Data[fmt.Sprint("k", which)] = value
	}
	return fmt.Sprint("data ", which, " ", value)
}

// essence is what two implementations must have alike of an object: not what is
// drawn (UIDs, versions, times), nor what only admission plugins of a real
// cluster add (tolerations of the taints of its nodes).
func essence(o port.APIObject) string {
	e := map[string]any{
		// Nothing and none are the same to the API.
		"labels": fmt.Sprint(o.GetLabels()), "annotations": fmt.Sprint(o.GetAnnotations()), "finalizers": fmt.Sprint(o.GetFinalizers()), "generation": o.GetGeneration(),
		"deleted": o.GetDeletionTimestamp() != nil, "grace": o.GetDeletionGracePeriodSeconds(),
	}
	switch o := o.(type) {
	case *v1.Pod:
		var images []string
		for _, c := range o.Spec.Containers {
			images = append(images, c.Image)
		}
		var tolerations []string
		for _, t := range o.Spec.Tolerations {
			if t.Key[0] == 'k' {
				tolerations = append(tolerations, t.Key)
			}
		}
		e["spec"] = []any{o.Spec.NodeName, images, o.Spec.ActiveDeadlineSeconds, tolerations, o.Spec.TerminationGracePeriodSeconds, o.Spec.RestartPolicy}
		e["status"] = o.Status
	case *v1.Node:
		var taints []string
		for _, t := range o.Spec.Taints {
			if t.Key[0] == 'k' {
				taints = append(taints, t.Key)
			}
		}
		e["spec"] = []any{o.Spec.Unschedulable, taints}
		status := *o.Status.DeepCopy()
		status.DaemonEndpoints, status.NodeInfo = v1.NodeDaemonEndpoints{}, v1.NodeSystemInfo{}
		e["status"] = status
	case *v1.ConfigMap:
		e["data"], e["immutable"] = fmt.Sprint(o.Data), o.Immutable
	case *coordinationv1.Lease:
		e["spec"] = o.Spec
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(text)
}
