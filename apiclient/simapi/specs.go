package simapi

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// specCache shares the defaulted lists between pods of one template. The addresses of its lists
// identify a template: objects are never changed, and while an entry refers to a list, nothing
// else can have its address.
type specCache struct {
	filled map[template]lists
	// limit is the number of entries at which those without pods are dropped.
	limit int
}

// template has the parts of a spec whose defaults are expensive.
type template struct {
	containers, init *v1.Container
	volumes          *v1.Volume
	lengths          [3]int
	resources        *v1.ResourceRequirements
	hostNetwork      bool
}

// lists are a template's lists with defaults.
type lists struct {
	containers, init []v1.Container
	volumes          []v1.Volume
	resources        *v1.ResourceRequirements
}

// fewSpecs templates are kept even without pods, and never more than maxSpecs.
const (
	fewSpecs = 16
	maxSpecs = 1024
)

// Default values that pods share by pointer.
var (
	defaultGrace    = podspec.DefaultGraceSeconds
	defaultLinks    = v1.DefaultEnableServiceLinks
	defaultSecurity = v1.PodSecurityContext{}
	defaultPriority = int32(0)
	defaultPreempt  = v1.PreemptLowerPriority
)

const defaultAccount = "default"

// fill sets a new pod's defaults, including those of the admission plugins that every cluster
// has: service account, priority. pods are the entries of all pods.
func (c *specCache) fill(p *v1.Pod, pods map[name]*entry) {
	spec := &p.Spec
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = defaultAccount
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	orShared(&spec.TerminationGracePeriodSeconds, &defaultGrace)
	orShared(&spec.EnableServiceLinks, &defaultLinks)
	orShared(&spec.SecurityContext, &defaultSecurity)
	if spec.PriorityClassName == "" {
		orShared(&spec.Priority, &defaultPriority)
	}
	orShared(&spec.PreemptionPolicy, &defaultPreempt)

	key := template{
		containers: first(spec.Containers), init: first(spec.InitContainers), volumes: first(spec.Volumes),
		lengths:   [3]int{len(spec.Containers), len(spec.InitContainers), len(spec.Volumes)},
		resources: spec.Resources, hostNetwork: spec.HostNetwork,
	}
	filled, known := c.filled[key]
	if !known {
		filled = fillLists(p)
		c.remember(key, filled, pods)
	}
	spec.Containers, spec.InitContainers, spec.Volumes = filled.containers, filled.init, filled.volumes
	spec.Resources = filled.resources
	// The rest is a handful of strings and numbers.
	bare := v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: spec.RestartPolicy, DNSPolicy: spec.DNSPolicy, SchedulerName: spec.SchedulerName,
		PriorityClassName: spec.PriorityClassName, Priority: spec.Priority,
		TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds, EnableServiceLinks: spec.EnableServiceLinks,
		SecurityContext: spec.SecurityContext,
	}}
	manifest.SetDefaults(&bare)
	spec.RestartPolicy, spec.DNSPolicy, spec.SchedulerName = bare.Spec.RestartPolicy, bare.Spec.DNSPolicy,
		bare.Spec.SchedulerName
	spec.Priority = bare.Spec.Priority
}

func (c *specCache) remember(key template, filled lists, pods map[name]*entry) {
	if c.filled == nil {
		c.filled, c.limit = map[template]lists{}, fewSpecs
	}
	if len(c.filled) >= c.limit {
		used := map[*v1.Container]bool{}
		for _, e := range pods {
			used[first(e.object.(*v1.Pod).Spec.Containers)] = true
		}
		maps.DeleteFunc(c.filled, func(_ template, l lists) bool { return !used[first(l.containers)] })
		if len(c.filled) >= maxSpecs {
			clear(c.filled)
		}
		c.limit = max(fewSpecs, 2*len(c.filled))
	}
	c.filled[key] = filled
}

// fillLists sets the defaults in a pod's lists. A list that has them already is returned as it
// is.
func fillLists(p *v1.Pod) lists {
	with := p.DeepCopy()
	manifest.SetDefaults(with)
	return lists{
		containers: same(p.Spec.Containers, with.Spec.Containers),
		init:       same(p.Spec.InitContainers, with.Spec.InitContainers),
		volumes:    same(p.Spec.Volumes, with.Spec.Volumes),
		resources:  same(p.Spec.Resources, with.Spec.Resources),
	}
}

// same returns old if next is equal, so that it is shared.
func same[T any](old, next T) T {
	if apiequality.Semantic.DeepEqual(old, next) {
		return old
	}
	return next
}

func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

func orShared[T any](field **T, shared *T) {
	if *field == nil {
		*field = shared
	}
}
