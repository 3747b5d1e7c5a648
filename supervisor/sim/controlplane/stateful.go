package controlplane

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stateful makes a workload what a StatefulSet is: its pods have the names NAME-0, NAME-1, …, at most one pod of a name
// at a time, and each has claims of its own that stay when it is replaced.
type Stateful struct {
	// Claims are templates: each pod gets a claim TEMPLATE-POD as the volume TEMPLATE (volumeClaimTemplates).
	Claims []v1.PersistentVolumeClaim
	// Parallel makes and deletes all pods at once (podManagementPolicy). An update goes pod by pod all the same.
	Parallel bool
}

// ordinal is the number of a pod of a stateful workload, -1 if its name has none.
func ordinal(workload, pod string) int {
	text, is := strings.CutPrefix(pod, workload+"-")
	n, err := strconv.Atoi(text)
	if !is || err != nil || n < 0 || strconv.Itoa(n) != text {
		return -1
	}
	return n
}

// ordered is what has to be done about the pods of a stateful workload now: the ordinals to make, and the pods to
// delete. It never makes a pod whose name another one has, even if that is being deleted or its node is lost.
//
//	0 ─made─► ready ─► 1 ─made─► ready ─► …           (in order; all at once if Parallel)
//	the highest beyond Replicas ─deleted─► gone ─► the next one below
//	all ready ─► the highest of an old revision ─deleted─► made again ─► ready ─► the next one below
func (w *Workload) ordered(pods []*v1.Pod, isNew func(*v1.Pod) bool) (create []int, remove []*v1.Pod) {
	at, highest := map[int]*v1.Pod{}, -1
	for _, p := range pods {
		if i := ordinal(w.Name, p.Name); i >= 0 {
			at[i] = p
			highest = max(highest, i)
		}
	}
	healthy := func(p *v1.Pod) bool { return p != nil && p.DeletionTimestamp == nil && !finished(p) && podReady(p) }
	inOrder := !w.Stateful.Parallel
	for i := range w.Replicas {
		p := at[i]
		switch {
		case p == nil:
			create = append(create, i)
		case p.DeletionTimestamp == nil && finished(p):
			remove = append(remove, p)
		case healthy(p):
			continue
		}
		if inOrder {
			return create, remove
		}
	}
	condemned := false
	for i := highest; i >= w.Replicas; i-- {
		p := at[i]
		if p == nil {
			continue
		}
		condemned = true
		if p.DeletionTimestamp == nil {
			remove = append(remove, p)
		}
		if inOrder {
			break
		}
	}
	if condemned && inOrder {
		return create, remove
	}
	for i := w.Replicas - 1; i >= 0; i-- {
		p := at[i]
		switch {
		case p == nil || p.DeletionTimestamp != nil || finished(p):
			return create, remove
		case !isNew(p):
			return create, append(remove, p)
		case !podReady(p):
			return create, remove
		}
	}
	return create, remove
}

func (cp *ControlPlane) reconcileStateful(s *workload, pods []*v1.Pod) {
	create, remove := s.ordered(pods, s.newest)
	for _, p := range remove {
		cp.remove(p)
	}
	for _, i := range create {
		p := s.pod(i)
		for _, t := range s.Stateful.Claims {
			_, err := cp.api.Create(claimFor(p, s.Name, &t))
			if err != nil && !apierrors.IsAlreadyExists(err) {
				panic(fmt.Sprintf("controlplane: create PVC %s of %s: %v", claimName(t.Name, p.Name), s.key, err))
			}
		}
		// One of an earlier workload of this name may be there yet: its end has this looked at again.
		if _, err := cp.api.Create(p); err != nil && !apierrors.IsAlreadyExists(err) {
			panic(fmt.Sprintf("controlplane: create pod %s of %s: %v", p.Name, s.key, err))
		}
	}
}

// pod is the one with that ordinal.
func (s *workload) pod(i int) *v1.Pod {
	name := s.Name + "-" + strconv.Itoa(i)
	spec := s.Template.Spec
	spec.Hostname = name
	// The template's own volumes stay as they are.
	spec.Volumes = append([]v1.Volume(nil), spec.Volumes...)
	for _, t := range s.Stateful.Claims {
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: t.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(t.Name, name)},
		}})
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name, Labels: s.labels(), Annotations: s.Template.Annotations,
		},
		Spec: spec,
	}
}

func claimName(template, pod string) string { return template + "-" + pod }

// claimFor is the claim of a pod.
func claimFor(p *v1.Pod, workload string, template *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: claimName(template.Name, p.Name), Labels: map[string]string{workloadLabel: workload},
			Finalizers: []string{protection},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}
