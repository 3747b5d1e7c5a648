package isolation

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// AppArmorProfile is the profile of a container: its own, or from an annotation older than v1.30, or its
// pod's. nil leaves it to the runtime. (core/v1 SecurityContext and PodSecurityContext
// appArmorProfile, KEP-24)
func AppArmorProfile(pod *v1.Pod, c *v1.Container) *v1.AppArmorProfile {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return c.SecurityContext.AppArmorProfile
	}
	if p := annotated(pod.Annotations[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]); p != nil {
		return p
	}
	if pod.Spec.SecurityContext != nil {
		return pod.Spec.SecurityContext.AppArmorProfile
	}
	return nil
}

// AppArmorRequired says whether any container of a pod needs a profile. Then a host without AppArmor must
// not run the pod.
func AppArmorRequired(pod *v1.Pod) bool {
	if s := pod.Spec.SecurityContext; s != nil && confines(s.AppArmorProfile) {
		return true
	}
	for c := range podspec.All(&pod.Spec) {
		if confines(AppArmorProfile(pod, c)) {
			return true
		}
	}
	return false
}

func confines(p *v1.AppArmorProfile) bool {
	return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined
}

func annotated(text string) *v1.AppArmorProfile {
	switch text {
	case "":
		return nil
	case v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	case v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	}
	if name, ok := strings.CutPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix); ok {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}
