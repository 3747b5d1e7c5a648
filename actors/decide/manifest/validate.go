package manifest

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// validateAsWritten checks what must be right before a pod can be identified
// and defaulted: its metadata, and fields a manifest may not have at all.
func validateAsWritten(pod *v1.Pod) field.ErrorList {
	meta := field.NewPath("metadata")
	var errs field.ErrorList
	switch {
	case pod.Name == "" && pod.GenerateName != "":
		errs = append(errs, field.Required(meta.Child("name"), "generateName needs the API; give the pod a name"))
	case pod.Name == "":
		errs = append(errs, field.Required(meta.Child("name"), ""))
	}
	if pod.Namespace != "" {
		errs = append(errs, invalid(meta.Child("namespace"), pod.Namespace, validation.IsDNS1123Label(pod.Namespace))...)
	}
	if pod.UID != "" && !safeUID.MatchString(string(pod.UID)) {
		errs = append(errs, field.Invalid(meta.Child("uid"), string(pod.UID),
			"must have at most 63 letters, digits and '-' (it names a directory); without it, it is generated"))
	}
	if pod.DeletionTimestamp != nil {
		errs = append(errs, field.Forbidden(meta.Child("deletionTimestamp"), "remove the manifest to delete its pod"))
	}
	if _, has := pod.Annotations[podspec.AnnotationMirror]; has {
		errs = append(errs, field.Forbidden(meta.Child("annotations").Key(podspec.AnnotationMirror),
			"this is a copy of a mirror pod from the API: use the original manifest"))
	}
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs,
			field.Forbidden(field.NewPath("spec", "ephemeralContainers"), "can only be added to running pods"))
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "schedulingGates"), "a static pod is not scheduled"))
	}
	return errs
}

var safeUID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// validate checks a pod that has its defaults, by the rules of the v1 Pod
// reference (Kubernetes API v1.36) that matter to a node. It refuses nothing that a kubelet runs: the rules
// are those of an apiserver, and what it lets pass fails, if at all, where people see it of the pod.
func validate(pod *v1.Pod) field.ErrorList {
	errs := validateMetadata(pod)
	errs = append(errs, validateSpec(&pod.Spec)...)
	errs = append(errs, validateContainers(pod)...)
	errs = append(errs, validateVolumes(pod)...)
	errs = append(errs, validatePodResources(pod)...)
	errs = append(errs, validatePodSecurity(pod)...)
	return errs
}

const maxAnnotationsSize = 256 << 10 // bytes, names and values together

func validateMetadata(pod *v1.Pod) field.ErrorList {
	meta := field.NewPath("metadata")
	var errs field.ErrorList
	if reasons := validation.IsDNS1123Subdomain(pod.Name); reasons != nil {
		errs = append(errs,
			field.Invalid(meta.Child("name"), pod.Name, "with the appended node name: "+strings.Join(reasons, "; ")))
	}
	errs = append(errs, validateLabels(pod.Labels, meta.Child("labels"))...)
	size := 0
	for _, k := range sortedKeys(pod.Annotations) {
		size += len(k) + len(pod.Annotations[k])
		errs = append(errs, invalid(meta.Child("annotations").Key(k), k, validation.IsQualifiedName(strings.ToLower(k)))...)
	}
	if size > maxAnnotationsSize {
		errs = append(errs,
			field.Invalid(meta.Child("annotations"), size,
				fmt.Sprintf("total size in bytes: must be at most %d", maxAnnotationsSize)))
	}
	return errs
}

func validateLabels(labels map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, k := range sortedKeys(labels) {
		errs = append(errs, invalid(at.Key(k), k, validation.IsQualifiedName(k))...)
		errs = append(errs, invalid(at.Key(k), labels[k], validation.IsValidLabelValue(labels[k]))...)
	}
	return errs
}

func validateSpec(spec *v1.PodSpec) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	errs = append(errs, oneOf(at.Child("restartPolicy"), spec.RestartPolicy,
		v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)...)
	errs = append(errs, oneOf(at.Child("dnsPolicy"), spec.DNSPolicy,
		v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone)...)
	if d := spec.ActiveDeadlineSeconds; d != nil {
		errs = append(errs, within(at.Child("activeDeadlineSeconds"), *d, 1, math.MaxInt32)...)
	}
	if spec.Hostname != "" {
		errs = append(errs, invalid(at.Child("hostname"), spec.Hostname, validation.IsDNS1123Label(spec.Hostname))...)
	}
	if spec.Subdomain != "" {
		errs = append(errs, invalid(at.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label(spec.Subdomain))...)
	}
	errs = append(errs, validateHostnameOverride(spec, at)...)
	errs = append(errs, validateLabels(spec.NodeSelector, at.Child("nodeSelector"))...)
	if spec.RuntimeClassName != nil {
		errs = append(errs,
			invalid(at.Child("runtimeClassName"), *spec.RuntimeClassName,
				validation.IsDNS1123Subdomain(*spec.RuntimeClassName))...)
	}
	if spec.PriorityClassName != "" {
		errs = append(errs,
			invalid(at.Child("priorityClassName"), spec.PriorityClassName,
				validation.IsDNS1123Subdomain(spec.PriorityClassName))...)
	}
	if spec.PreemptionPolicy != nil {
		errs = append(errs,
			oneOf(at.Child("preemptionPolicy"), *spec.PreemptionPolicy, v1.PreemptLowerPriority, v1.PreemptNever)...)
	}
	if spec.OS != nil { // one for another system is refused when it is admitted, and people see why
		errs = append(errs, oneOf(at.Child("os", "name"), spec.OS.Name, v1.Linux, v1.Windows)...)
	}
	for i, gate := range spec.ReadinessGates {
		errs = append(errs, invalid(at.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType),
			validation.IsQualifiedName(string(gate.ConditionType)))...)
	}
	errs = append(errs, validateTolerations(spec.Tolerations, at.Child("tolerations"))...)
	errs = append(errs, validateHostAliases(spec.HostAliases, at.Child("hostAliases"))...)
	errs = append(errs, validateDNSConfig(spec, at.Child("dnsConfig"))...)
	return errs
}

func validateHostnameOverride(spec *v1.PodSpec, at *field.Path) field.ErrorList {
	override := spec.HostnameOverride
	if override == nil {
		return nil
	}
	var errs field.ErrorList
	at = at.Child("hostnameOverride")
	const kernelLimit = 64 // utsname.nodename without its NUL
	if len(*override) > kernelLimit {
		errs = append(errs, field.Invalid(at, *override, fmt.Sprintf("at most %d characters", kernelLimit)))
	}
	errs = append(errs, invalid(at, *override, validation.IsDNS1123Subdomain(*override))...)
	if spec.HostNetwork {
		errs = append(errs, field.Forbidden(at, "a pod with hostNetwork uses the host name of its node"))
	}
	if spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN {
		errs = append(errs, field.Forbidden(at, "cannot be combined with setHostnameAsFQDN"))
	}
	return errs
}

func validateTolerations(tolerations []v1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		at := at.Index(i)
		if t.Key != "" {
			errs = append(errs, invalid(at.Child("key"), t.Key, validation.IsQualifiedName(t.Key))...)
		} else if t.Operator != v1.TolerationOpExists {
			errs = append(errs, field.Required(at.Child("key"), "unless operator is Exists"))
		}
		switch t.Operator {
		case "", v1.TolerationOpEqual:
			errs = append(errs, invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
		case v1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be empty when operator is Exists"))
			}
		default:
			errs = append(errs,
				field.NotSupported(at.Child("operator"), t.Operator,
					[]v1.TolerationOperator{v1.TolerationOpEqual, v1.TolerationOpExists}))
		}
		if t.Effect != "" {
			errs = append(errs, oneOf(at.Child("effect"), t.Effect, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule,
				v1.TaintEffectNoExecute)...)
		}
		if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "must be NoExecute when tolerationSeconds is given"))
		}
	}
	return errs
}
