package manifest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

func validateEnv(pod *v1.Pod, c *v1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range c.Env {
		env, at := &c.Env[i], at.Child("env").Index(i)
		if env.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			errs = append(errs, invalid(at.Child("name"), env.Name, validation.IsRelaxedEnvVarName(env.Name))...)
		}
		if env.ValueFrom != nil {
			if env.Value != "" {
				errs = append(errs, field.Invalid(at.Child("valueFrom"), "", "cannot be given together with value"))
			}
			errs = append(errs, validateEnvSource(pod, env.ValueFrom, at.Child("valueFrom"))...)
		}
	}
	for i, from := range c.EnvFrom {
		at := at.Child("envFrom").Index(i)
		if from.Prefix != "" {
			errs = append(errs, invalid(at.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName(from.Prefix))...)
		}
		if (from.ConfigMapRef == nil) == (from.SecretRef == nil) {
			errs = append(errs, field.Invalid(at, "", "must have exactly one of configMapRef and secretRef"))
		}
	}
	return errs
}

func validateEnvSource(pod *v1.Pod, from *v1.EnvVarSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	given := count(from.FieldRef != nil, from.ResourceFieldRef != nil, from.ConfigMapKeyRef != nil,
		from.SecretKeyRef != nil, from.FileKeyRef != nil)
	if given != 1 {
		errs = append(errs, field.Invalid(at, given, "sources given: must have exactly one"))
	}
	if from.FieldRef != nil {
		errs = append(errs, validateFieldRef(from.FieldRef, at.Child("fieldRef"), envFields)...)
	}
	if from.ResourceFieldRef != nil {
		errs = append(errs, validateResourceRef(from.ResourceFieldRef, at.Child("resourceFieldRef"), false)...)
	}
	if file := from.FileKeyRef; file != nil {
		at := at.Child("fileKeyRef")
		if podspec.Volume(&pod.Spec, file.VolumeName) == nil {
			errs = append(errs, field.NotFound(at.Child("volumeName"), file.VolumeName))
		}
		errs = append(errs, required(at.Child("path"), file.Path)...)
		errs = append(errs, noWayUp(at.Child("path"), file.Path)...)
		errs = append(errs, required(at.Child("key"), file.Key)...)
	}
	return errs
}

// Fields of its own pod that a container may see (documentation, "Downward
// API"): everything in the environment but whole maps, which only a volume
// can hold. spec.host is the name of spec.nodeName before v1.
var (
	bothFields = []string{"metadata.name", "metadata.namespace", "metadata.uid"}
	envFields  = append([]string{"spec.nodeName", "spec.host", "spec.serviceAccountName", "status.hostIP",
		"status.hostIPs", "status.podIP", "status.podIPs"}, bothFields...)
	volumeFields = append([]string{"metadata.labels", "metadata.annotations"}, bothFields...)
)

func validateFieldRef(ref *v1.ObjectFieldSelector, at *field.Path, allowed []string) field.ErrorList {
	if ref.APIVersion != "v1" {
		return field.ErrorList{field.NotSupported(at.Child("apiVersion"), ref.APIVersion, []string{"v1"})}
	}
	at = at.Child("fieldPath")
	if ref.FieldPath == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	for _, m := range []string{"metadata.labels", "metadata.annotations"} {
		key, ok := strings.CutPrefix(ref.FieldPath, m+"['")
		if !ok {
			continue
		}
		key, ok = strings.CutSuffix(key, "']")
		if !ok {
			return field.ErrorList{field.Invalid(at, ref.FieldPath, "must end with ']")}
		}
		return invalid(at, ref.FieldPath, validation.IsQualifiedName(strings.ToLower(key)))
	}
	return oneOf(at, ref.FieldPath, allowed...)
}

// validateResourceRef checks a reference to a container's requests or limits.
// In a volume it has to name a container. Whether the pod has that one is known when its value is made.
func validateResourceRef(ref *v1.ResourceFieldSelector, at *field.Path, inVolume bool) field.ErrorList {
	var errs field.ErrorList
	if inVolume {
		errs = append(errs, required(at.Child("containerName"), ref.ContainerName)...)
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	known := name == "cpu" || name == "memory" || name == "ephemeral-storage" ||
		strings.HasPrefix(name, v1.ResourceHugePagesPrefix)
	if kind != "limits" && kind != "requests" || !known {
		return append(errs, field.Invalid(at.Child("resource"), ref.Resource,
			"must be limits or requests of cpu, memory, ephemeral-storage or hugepages-SIZE, like limits.memory"))
	}
	divisors := []string{"0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	if name == "cpu" {
		divisors = []string{"0", "1", "1m"}
	}
	return append(errs, oneOf(at.Child("divisor"), ref.Divisor.String(), divisors...)...)
}

func count(given ...bool) int {
	n := 0
	for _, g := range given {
		if g {
			n++
		}
	}
	return n
}

// exactlyOne checks a field that is one of several handlers or sources.
func exactlyOne(at *field.Path, n int, of string) field.ErrorList {
	switch n {
	case 1:
		return nil
	case 0:
		return field.ErrorList{field.Required(at, "one of "+of)}
	default:
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("must have exactly one of %s, has %d", of, n))}
	}
}
