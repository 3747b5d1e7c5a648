package translate

import (
	"errors"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
)

// seccomp is the profile of a container: its own, its pod's, or the node's default (core/v1
// SeccompProfile).
func seccomp(n *Node, pod *v1.Pod, c *v1.Container) (*runtimeapi.SecurityProfile, error) {
	var p *v1.SeccompProfile
	if pod.Spec.SecurityContext != nil {
		p = pod.Spec.SecurityContext.SeccompProfile
	}
	if c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
		p = c.SecurityContext.SeccompProfile
	}
	switch {
	case p == nil && n.SeccompDefault:
		return profile(runtimeapi.SecurityProfile_RuntimeDefault, ""), nil
	case p == nil || p.Type == v1.SeccompProfileTypeUnconfined:
		return profile(runtimeapi.SecurityProfile_Unconfined, ""), nil
	case p.Type == v1.SeccompProfileTypeRuntimeDefault:
		return profile(runtimeapi.SecurityProfile_RuntimeDefault, ""), nil
	case p.Type != v1.SeccompProfileTypeLocalhost:
		return nil, fmt.Errorf("seccompProfile.type %q is unknown", p.Type)
	case p.LocalhostProfile == nil || *p.LocalhostProfile == "":
		return nil, errors.New("seccompProfile.localhostProfile must be set if the type is Localhost")
	}
	if !filepath.IsLocal(*p.LocalhostProfile) {
		return nil, fmt.Errorf("seccompProfile.localhostProfile %q leads out of the profiles' directory", *p.LocalhostProfile)
	}
	return profile(runtimeapi.SecurityProfile_Localhost, filepath.Join(n.RootDir, "seccomp", *p.LocalhostProfile)), nil
}

// appArmor is the profile of a container: its own, that of an annotation from before v1.30, or
// its pod's; nil is the runtime's default. The second result is the same as text, for older
// runtimes.
func appArmor(pod *v1.Pod, c *v1.Container) (*runtimeapi.SecurityProfile, string, error) {
	p := isolation.AppArmorProfile(pod, c)
	if p == nil {
		return nil, "", nil
	}
	switch p.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return profile(runtimeapi.SecurityProfile_RuntimeDefault, ""), v1.DeprecatedAppArmorBetaProfileRuntimeDefault, nil
	case v1.AppArmorProfileTypeUnconfined:
		return profile(runtimeapi.SecurityProfile_Unconfined, ""), v1.DeprecatedAppArmorBetaProfileNameUnconfined, nil
	case v1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return nil, "", errors.New("appArmorProfile.localhostProfile must be set if the type is Localhost")
		}
		return profile(runtimeapi.SecurityProfile_Localhost, *p.LocalhostProfile),
			v1.DeprecatedAppArmorBetaProfileNamePrefix + *p.LocalhostProfile, nil
	}
	return nil, "", fmt.Errorf("appArmorProfile.type %q is unknown", p.Type)
}

func profile(kind runtimeapi.SecurityProfile_ProfileType, ref string) *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: kind, LocalhostRef: ref}
}
