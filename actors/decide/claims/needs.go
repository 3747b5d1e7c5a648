package claims

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// State is how far the claims of a pod are.
type State uint8

const (
	Unasked State = iota
	// Pending: some are not prepared. Message says what is waited for, if it takes long.
	Pending
	// Known: the pod ran before this agent began, with devices that the checkpoint has.
	Known
	// Ready: all are prepared.
	Ready
	// Going: the pod has ended, and some are not unprepared.
	Going
	// Released: nothing is prepared for the pod any more.
	Released
)

var states = [...]string{"unasked", "pending", "known", "ready", "going", "released"}

// String implements fmt.Stringer.
func (s State) String() string { return states[s] }

// Pod is what is known of the claims of a pod. It is never mutated.
type Pod struct {
	State State
	// Message is why they are not ready, or not released.
	Message string
	// CDI are the names of devices (Container Device Interface) by the names of the containers that get them.
	CDI map[string][]string
	// Health is how the devices of containers are.
	Health devicestate.Health
}

// Is reports the state; a pod of which nothing is known is Unasked.
func (p *Pod) Is(s State) bool { return p == nil && s == Unasked || p != nil && p.State == s }

// Has reports whether containers can be created: it is known which devices they get.
func (p *Pod) Has() bool { return p.Is(Known) || p.Is(Ready) }

// Of are the CDI names of a container's devices.
func (p *Pod) Of(container string) []string {
	if p == nil {
		return nil
	}
	return p.CDI[container]
}

// HealthOf is how the devices of a container are, as far as that is known.
func (p *Pod) HealthOf(container string) []v1.ResourceStatus {
	if p == nil {
		return nil
	}
	return p.Health[container]
}

// Trouble is why a pod waits, empty if it does not or if there is nothing to say.
func (p *Pod) Trouble() string {
	if p == nil {
		return ""
	}
	return p.Message
}

// Uses reports whether a pod needs claims.
func Uses(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// Need is a ResourceClaim that a pod needs, in the namespace of the pod.
type Need struct {
	Name string
	// Entry is its name in spec.resourceClaims, of which the first counts. Empty: the claim stands for extended
	// resources (KEP-5004).
	Entry string
	// Owned: it was made for this pod, and has to be its own.
	Owned bool
}

// Needs are the claims that a pod needs, in the order of its spec, each once. It fails if one was not made yet.
func Needs(pod *v1.Pod) ([]Need, error) {
	var out []Need
	made, has := statuses(pod), map[string]bool{}
	for i := range pod.Spec.ResourceClaims {
		n, ok, err := need(&pod.Spec.ResourceClaims[i], made)
		if err != nil {
			return nil, err
		}
		if ok && !has[n.Name] {
			has[n.Name] = true
			out = append(out, n)
		}
	}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		out = append(out, Need{Name: e.ResourceClaimName, Owned: true})
	}
	return out, nil
}

// statuses are what was made for the entries of spec.resourceClaims, by their names: a pod may have thousands.
func statuses(pod *v1.Pod) map[string]*v1.PodResourceClaimStatus {
	out := map[string]*v1.PodResourceClaimStatus{}
	for i := range pod.Status.ResourceClaimStatuses {
		if s := &pod.Status.ResourceClaimStatuses[i]; out[s.Name] == nil {
			out[s.Name] = s
		}
	}
	return out
}

// need is the claim of one entry; none if the entry needs nothing.
func need(c *v1.PodResourceClaim, made map[string]*v1.PodResourceClaimStatus) (n Need, is bool, err error) {
	if c.ResourceClaimName != nil {
		return Need{Name: *c.ResourceClaimName, Entry: c.Name}, true, nil
	}
	if s := made[c.Name]; s != nil {
		if s.ResourceClaimName == nil {
			return Need{}, false, nil
		}
		return Need{Name: *s.ResourceClaimName, Entry: c.Name, Owned: true}, true, nil
	}
	template := ""
	if c.ResourceClaimTemplateName != nil {
		template = fmt.Sprintf(" from ResourceClaimTemplate %q", *c.ResourceClaimTemplateName)
	}
	return Need{}, false, fmt.Errorf("spec.resourceClaims: claim %q: its ResourceClaim was not made%s yet: "+
		"kube-controller-manager makes it", c.Name, template)
}

// Check says why a pod can't use a claim (now).
func Check(pod *v1.Pod, n Need, c *resourcev1.ResourceClaim) error {
	switch {
	case n.Owned && !metav1.IsControlledBy(c, pod):
		return fmt.Errorf("ResourceClaim %q was not made for this pod: delete the pod", n.Name)
	case c.Status.Allocation == nil:
		return fmt.Errorf("ResourceClaim %q is not allocated: the scheduler has to allocate it", n.Name)
	case !slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == pod.UID
	}):
		return fmt.Errorf("ResourceClaim %q is not reserved for this pod: the scheduler has to reserve it", n.Name)
	default:
		return nil
	}
}

// Drivers are the DRA drivers that have devices of a claim, sorted. It must be allocated.
func Drivers(c *resourcev1.ResourceClaim) []string {
	var out []string
	for i := range c.Status.Allocation.Devices.Results {
		out = append(out, c.Status.Allocation.Devices.Results[i].Driver)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Same reports whether two versions of a pod need the same claims, as far as they are made.
func Same(a, b *v1.Pod) bool {
	needs, errA := Needs(a)
	others, errB := Needs(b)
	return slices.Equal(needs, others) && (errA == nil) == (errB == nil)
}

// WithoutBacked is a pod without the extended resources that a claim stands for: no device plugin gives them.
func WithoutBacked(pod *v1.Pod) *v1.Pod {
	e := pod.Status.ExtendedResourceClaimStatus
	if e == nil {
		return pod
	}
	out := pod.DeepCopy()
	for c := range podspec.All(&out.Spec) {
		for _, m := range e.RequestMappings {
			if m.ContainerName == c.Name {
				delete(c.Resources.Limits, v1.ResourceName(m.ResourceName))
				delete(c.Resources.Requests, v1.ResourceName(m.ResourceName))
			}
		}
	}
	return out
}
