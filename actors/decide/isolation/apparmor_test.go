package isolation

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestProfile(t *testing.T) {
	runtime := &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	unconfined := &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	annotate := func(text string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/app": text}
		}
	}
	ofPod := func(a *v1.AppArmorProfile) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: a} }
	}
	own := func(a *v1.AppArmorProfile) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: a} }
	}
	for _, c := range []struct {
		name     string
		changes  []func(*v1.Pod)
		want     string
		required bool
	}{
		{"none", nil, "", false},
		{"the pod's", []func(*v1.Pod){ofPod(runtime)}, "RuntimeDefault", true},
		{"the container's before the pod's", []func(*v1.Pod){ofPod(runtime), own(unconfined)}, "Unconfined", true},
		{"the pod is not confined", []func(*v1.Pod){ofPod(unconfined)}, "Unconfined", false},
		{"an annotation", []func(*v1.Pod){annotate("localhost/mine")}, "Localhost mine", true},
		{"an annotation, unconfined", []func(*v1.Pod){annotate("unconfined")}, "Unconfined", false},
		{"an annotation before the pod's", []func(*v1.Pod){annotate("runtime/default"), ofPod(unconfined)}, "RuntimeDefault", true},
		{"the container's before an annotation", []func(*v1.Pod){annotate("runtime/default"), own(unconfined)}, "Unconfined", false},
		{"an annotation that says nothing", []func(*v1.Pod){annotate("what")}, "", false},
		{"of an init container", []func(*v1.Pod){func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{AppArmorProfile: runtime}}}
		}}, "", true},
		{"of an ephemeral container", []func(*v1.Pod){func(p *v1.Pod) {
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Name: "e", SecurityContext: &v1.SecurityContext{AppArmorProfile: runtime},
			}}}
		}}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
			for _, change := range c.changes {
				change(p)
			}
			got := ""
			if a := AppArmorProfile(p, &p.Spec.Containers[0]); a != nil {
				got = string(a.Type)
				if a.LocalhostProfile != nil {
					got += " " + *a.LocalhostProfile
				}
			}
			if got != c.want || AppArmorRequired(p) != c.required {
				t.Errorf("got %q, required %v; want %q, %v", got, AppArmorRequired(p), c.want, c.required)
			}
		})
	}
}
