package manifest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// eachContainer visits init containers, then main ones, in the pod's order.
func eachContainer(pod *v1.Pod, visit func(*v1.Container, *field.Path, podspec.Kind)) {
	spec := field.NewPath("spec")
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		visit(c, spec.Child("initContainers").Index(i), podspec.KindOfInit(c))
	}
	for i := range pod.Spec.Containers {
		visit(&pod.Spec.Containers[i], spec.Child("containers").Index(i), podspec.Main)
	}
}

func validateContainers(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	if len(pod.Spec.Containers) == 0 {
		errs = append(errs, field.Required(field.NewPath("spec", "containers"), "a pod has at least one container"))
	}
	names := map[string]bool{}
	eachContainer(pod, func(c *v1.Container, at *field.Path, kind podspec.Kind) {
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case names[c.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		default:
			errs = append(errs, invalid(at.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))...)
		}
		names[c.Name] = true
		errs = append(errs, validateContainer(pod, c, at, kind)...)
	})
	return append(errs, validateHostPorts(pod)...)
}

func validateContainer(pod *v1.Pod, c *v1.Container, at *field.Path, kind podspec.Kind) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, required(at.Child("image"), c.Image)...)
	if strings.TrimSpace(c.Image) != c.Image {
		errs = append(errs, field.Invalid(at.Child("image"), c.Image, "must not begin or end with white space"))
	}
	errs = append(errs,
		oneOf(at.Child("imagePullPolicy"), c.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	errs = append(errs, oneOf(at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, validateRestartPolicy(c, at)...)
	errs = append(errs, validatePorts(c.Ports, at.Child("ports"))...)
	errs = append(errs, validateEnv(pod, c, at)...)
	errs = append(errs, validateMounts(pod, c, at)...)
	errs = append(errs, validateResources(&c.Resources, at.Child("resources"))...)
	errs = append(errs, validateResizePolicy(c.ResizePolicy, at.Child("resizePolicy"))...)
	errs = append(errs, validateHandlers(pod, c, at, kind)...)
	errs = append(errs, validateSecurity(pod, c.SecurityContext, at.Child("securityContext"))...)
	return errs
}

const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// validateRestartPolicy: KEP-753 (sidecars) and KEP-5307 (restart policy and
// rules per container). Rules of a sidecar, which is restarted in any case, say
// when all containers are (KEP-5532).
func validateRestartPolicy(c *v1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := at.Child("restartPolicyRules")
	switch {
	case c.RestartPolicy != nil:
		errs = append(errs, oneOf(at.Child("restartPolicy"), *c.RestartPolicy, v1.ContainerRestartPolicyAlways,
			v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)...)
	case len(c.RestartPolicyRules) > 0:
		errs = append(errs, field.Required(at.Child("restartPolicy"), "restartPolicyRules require it"))
	}
	if len(c.RestartPolicyRules) > maxRestartRules {
		errs = append(errs, field.TooMany(rules, len(c.RestartPolicyRules), maxRestartRules))
	}
	for i, rule := range c.RestartPolicyRules {
		at := rules.Index(i)
		errs = append(errs, oneOf(at.Child("action"), rule.Action, v1.ContainerRestartRuleActionRestart,
			v1.ContainerRestartRuleActionRestartAllContainers)...)
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(at.Child("exitCodes"), ""))
			continue
		}
		errs = append(errs, oneOf(at.Child("exitCodes", "operator"), rule.ExitCodes.Operator,
			v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(rule.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(at.Child("exitCodes", "values"), n, maxExitCodes))
		}
	}
	return errs
}

func validateResizePolicy(policies []v1.ContainerResizePolicy, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[v1.ResourceName]bool{}
	for i, p := range policies {
		errs = append(errs, oneOf(at.Index(i).Child("resourceName"), p.ResourceName, v1.ResourceCPU, v1.ResourceMemory)...)
		errs = append(errs,
			oneOf(at.Index(i).Child("restartPolicy"), p.RestartPolicy, v1.NotRequired, v1.RestartContainer)...)
		if seen[p.ResourceName] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("resourceName"), p.ResourceName))
		}
		seen[p.ResourceName] = true
	}
	return errs
}

func validatePorts(ports []v1.ContainerPort, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, p := range ports {
		at := at.Index(i)
		if p.Name != "" {
			errs = append(errs, invalid(at.Child("name"), p.Name, validation.IsValidPortName(p.Name))...)
			if names[p.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names[p.Name] = true
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, validPort(at.Child("containerPort"), p.ContainerPort)...)
		}
		if p.HostPort != 0 {
			errs = append(errs, validPort(at.Child("hostPort"), p.HostPort)...)
		}
		errs = append(errs, oneOf(at.Child("protocol"), p.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)...)
	}
	return errs
}

func validPort(at *field.Path, port int32) field.ErrorList {
	const highest = 65535
	return within(at, port, 1, highest)
}

type hostPort struct {
	ip       string
	protocol v1.Protocol
	port     int32
}

// validateHostPorts finds ports of the host that a pod asks for twice. As with an apiserver, main
// containers are compared with each other, and each init container with itself: a sidecar may name the port of
// the main container whose traffic it takes.
func validateHostPorts(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	together := map[hostPort]bool{}
	eachContainer(pod, func(c *v1.Container, at *field.Path, kind podspec.Kind) {
		taken := together
		if kind != podspec.Main {
			taken = map[hostPort]bool{}
		}
		for i, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			key := hostPort{p.HostIP, p.Protocol, p.HostPort}
			if taken[key] {
				errs = append(errs, field.Duplicate(at.Child("ports").Index(i).Child("hostPort"),
					fmt.Sprintf("%d/%s", p.HostPort, p.Protocol)))
			}
			taken[key] = true
			if kind == podspec.Main && pod.Spec.HostNetwork && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(at.Child("ports").Index(i).Child("hostPort"), p.HostPort,
					"must be the containerPort, or left out, in a pod with hostNetwork"))
			}
		}
	})
	return errs
}
