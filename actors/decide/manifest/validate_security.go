package manifest

import (
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

func validateID(id *int64, at *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return within(at, *id, 0, math.MaxInt32)
}

func validateSecurity(pod *v1.Pod, sc *v1.SecurityContext, at *field.Path) field.ErrorList {
	if sc == nil {
		return nil
	}
	errs := validateID(sc.RunAsUser, at.Child("runAsUser"))
	errs = append(errs, validateID(sc.RunAsGroup, at.Child("runAsGroup"))...)
	errs = append(errs, validateSeccomp(sc.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))...)
	errs = append(errs, notForLinux(pod, sc.WindowsOptions, at.Child("windowsOptions"))...)
	errs = append(errs, oneOf(at.Child("procMount"), *sc.ProcMount, v1.DefaultProcMount, v1.UnmaskedProcMount)...)
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		if sc.Privileged != nil && *sc.Privileged {
			errs = append(errs,
				field.Invalid(at.Child("allowPrivilegeEscalation"), false, "cannot be false with privileged: true"))
		}
		// An apiserver knows it only by this name: SYS_ADMIN, as most people write it, is allowed.
		if sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN") {
			errs = append(errs,
				field.Invalid(at.Child("allowPrivilegeEscalation"), false, "cannot be false with capability CAP_SYS_ADMIN"))
		}
	}
	return errs
}

func validateSeccomp(p *v1.SeccompProfile, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(at.Child("type"), p.Type, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined,
		v1.SeccompProfileTypeLocalhost)
	profile := at.Child("localhostProfile")
	if p.Type == v1.SeccompProfileTypeLocalhost {
		if p.LocalhostProfile == nil {
			return append(errs, field.Required(profile, "type Localhost requires it"))
		}
		return append(errs, inside(profile, *p.LocalhostProfile)...)
	}
	if p.LocalhostProfile != nil {
		errs = append(errs, field.Forbidden(profile, "only allowed with type Localhost"))
	}
	return errs
}

func validateAppArmor(p *v1.AppArmorProfile, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(at.Child("type"), p.Type, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined,
		v1.AppArmorProfileTypeLocalhost)
	profile := at.Child("localhostProfile")
	if p.Type == v1.AppArmorProfileTypeLocalhost {
		const longest = 4095 // PATH_MAX without its NUL
		if p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == "" {
			return append(errs, field.Required(profile, "type Localhost requires it"))
		}
		if len(*p.LocalhostProfile) > longest {
			errs = append(errs, field.TooLong(profile, *p.LocalhostProfile, longest))
		}
		return errs
	}
	if p.LocalhostProfile != nil {
		errs = append(errs, field.Forbidden(profile, "only allowed with type Localhost"))
	}
	return errs
}

// notForLinux refuses what a pod that says that it is for Linux can't have. In one that does not say so it has no
// effect.
func notForLinux(pod *v1.Pod, o *v1.WindowsSecurityContextOptions, at *field.Path) field.ErrorList {
	if o == nil || pod.Spec.OS == nil || pod.Spec.OS.Name != v1.Linux {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, "the pod has spec.os.name linux")}
}

func validatePodSecurity(pod *v1.Pod) field.ErrorList {
	spec, at := &pod.Spec, field.NewPath("spec", "securityContext")
	sc := spec.SecurityContext
	errs := validateID(sc.RunAsUser, at.Child("runAsUser"))
	errs = append(errs, validateID(sc.RunAsGroup, at.Child("runAsGroup"))...)
	errs = append(errs, validateID(sc.FSGroup, at.Child("fsGroup"))...)
	for i := range sc.SupplementalGroups {
		errs = append(errs, validateID(&sc.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))...)
	}
	errs = append(errs, validateSeccomp(sc.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))...)
	errs = append(errs, notForLinux(pod, sc.WindowsOptions, at.Child("windowsOptions"))...)
	if p := sc.FSGroupChangePolicy; p != nil {
		errs = append(errs,
			oneOf(at.Child("fsGroupChangePolicy"), *p, v1.FSGroupChangeAlways, v1.FSGroupChangeOnRootMismatch)...)
	}
	if p := sc.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, oneOf(at.Child("supplementalGroupsPolicy"), *p, v1.SupplementalGroupsPolicyMerge,
			v1.SupplementalGroupsPolicyStrict)...)
	}
	errs = append(errs, validateSysctls(spec, at.Child("sysctls"))...)
	if spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace && spec.HostPID {
		errs = append(errs,
			field.Forbidden(field.NewPath("spec", "shareProcessNamespace"), "cannot be combined with hostPID"))
	}
	return append(errs, validateUserNamespace(pod)...)
}

// validateUserNamespace: with hostUsers false the pod has users of its own, so
// it cannot have namespaces of the host (KEP-127).
func validateUserNamespace(pod *v1.Pod) field.ErrorList {
	spec := &pod.Spec
	own := podspec.OwnUsers(spec)
	var errs field.ErrorList
	for _, host := range []struct {
		name string
		on   bool
	}{{"hostNetwork", spec.HostNetwork}, {"hostPID", spec.HostPID}, {"hostIPC", spec.HostIPC}} {
		if own && host.on {
			errs = append(errs, field.Forbidden(field.NewPath("spec", host.name), "cannot be combined with hostUsers: false"))
		}
	}
	eachContainer(pod, func(c *v1.Container, at *field.Path, _ podspec.Kind) {
		if sc := c.SecurityContext; !own && sc != nil && *sc.ProcMount == v1.UnmaskedProcMount {
			errs = append(errs, field.Invalid(at.Child("securityContext", "procMount"), *sc.ProcMount, "needs hostUsers: false"))
		}
	})
	return errs
}

// sysctlName: segments of lower case letters, digits, '-' and '_', separated
// by dots or slashes.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

const maxSysctlName = 253

func validateSysctls(spec *v1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, s := range spec.SecurityContext.Sysctls {
		at := at.Index(i).Child("name")
		name := strings.ReplaceAll(s.Name, "/", ".")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(at, ""))
		case len(s.Name) > maxSysctlName || !sysctlName.MatchString(s.Name) || path.Clean(s.Name) != s.Name:
			errs = append(errs, field.Invalid(at, s.Name, "must be a sysctl's name, like net.core.somaxconn"))
		case seen[s.Name]:
			errs = append(errs, field.Duplicate(at, s.Name))
		case spec.HostNetwork && strings.HasPrefix(name, "net."):
			errs = append(errs, field.Invalid(at, s.Name, "would change the host: not allowed in a pod with hostNetwork"))
		case spec.HostIPC && (strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") ||
			name == "kernel.sem" || strings.HasPrefix(name, "fs.mqueue.")):
			errs = append(errs, field.Invalid(at, s.Name, "would change the host: not allowed in a pod with hostIPC"))
		}
		seen[s.Name] = true
	}
	return errs
}
