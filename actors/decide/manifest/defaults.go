package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// SetDefaults fills in what an apiserver fills in: the "Defaults
// to" of every field in the v1 Pod reference (Kubernetes API v1.36). It runs
// before validation, and twice is the same as once.
func SetDefaults(pod *v1.Pod) {
	spec := &pod.Spec
	setIfEmpty(&spec.RestartPolicy, v1.RestartPolicyAlways)
	setIfEmpty(&spec.DNSPolicy, v1.DNSClusterFirst)
	setIfEmpty(&spec.SchedulerName, v1.DefaultSchedulerName)
	setIfNil(&spec.TerminationGracePeriodSeconds, podspec.DefaultGraceSeconds)
	if *spec.TerminationGracePeriodSeconds < 0 {
		spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	}
	setIfNil(&spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &v1.PodSecurityContext{}
	}
	defaultPriority(spec)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for c := range podspec.Lasting(spec) {
		defaultContainer(c, spec.HostNetwork)
	}
	roundUp(spec.Overhead)
	defaultPodResources(spec)
}

// The two priority classes that every cluster has; the Priority admission
// plugin would have put in their value.
var builtinPriority = map[string]int32{
	"system-node-critical":    podspec.SystemNodeCritical,
	"system-cluster-critical": podspec.SystemCritical,
}

func defaultPriority(spec *v1.PodSpec) {
	if value, known := builtinPriority[spec.PriorityClassName]; known && spec.Priority == nil {
		spec.Priority = &value
	}
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	setIfEmpty(&c.ImagePullPolicy, imagepull.DefaultPolicy(c.Image))
	setIfEmpty(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setIfEmpty(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		p := &c.Ports[i]
		setIfEmpty(&p.Protocol, v1.ProtocolTCP)
		if hostNetwork && p.HostPort == 0 {
			p.HostPort = p.ContainerPort
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			if from.FieldRef != nil {
				setIfEmpty(&from.FieldRef.APIVersion, "v1")
			}
			if from.FileKeyRef != nil {
				setIfNil(&from.FileKeyRef.Optional, false)
			}
		}
	}
	for _, probe := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, hook := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				defaultHTTPGet(hook.HTTPGet)
			}
		}
	}
	if c.SecurityContext != nil {
		setIfNil(&c.SecurityContext.ProcMount, v1.DefaultProcMount)
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	requestWhatIsLimited(&c.Resources)
}

func defaultProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	setIfEmpty(&p.TimeoutSeconds, 1)
	setIfEmpty(&p.PeriodSeconds, 10)
	setIfEmpty(&p.SuccessThreshold, 1)
	setIfEmpty(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *v1.HTTPGetAction) {
	if get == nil {
		return
	}
	setIfEmpty(&get.Path, "/")
	setIfEmpty(&get.Scheme, v1.URISchemeHTTP)
}

// requestWhatIsLimited: a resource with a limit and no request asks for the
// limit.
func requestWhatIsLimited(r *v1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = v1.ResourceList{}
	}
	for name, limit := range r.Limits {
		if _, asked := r.Requests[name]; !asked {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// roundUp brings quantities to the milli scale, the finest the API keeps.
func roundUp(list v1.ResourceList) {
	for _, name := range sortedKeys(list) {
		quantity := list[name]
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

func setIfEmpty[T comparable](field *T, value T) {
	var empty T
	if *field == empty {
		*field = value
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
