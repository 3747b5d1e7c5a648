package growth

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/port"
)

// text is one of n KiB.
func text(n int) string { return strings.Repeat("0123456789abcde ", n<<10/16) }

// readers are how many name the same long text.
const readers = 8

// longShapes have one text that is long.
func longShapes() []Shape {
	inFirst := func(f func(c *v1.Container, s string)) func(*v1.Pod, int) []port.APIObject {
		return func(p *v1.Pod, n int) []port.APIObject {
			f(&p.Spec.Containers[0], text(n))
			return nil
		}
	}
	keyed := func(f func(p *v1.Pod)) func(*v1.Pod, int) []port.APIObject {
		return func(p *v1.Pod, n int) []port.APIObject {
			f(p)
			return []port.APIObject{
				&v1.ConfigMap{ObjectMeta: meta("m"), Data: map[string]string{"a": text(n)}},
				&v1.Secret{ObjectMeta: meta("s"), Data: map[string][]byte{"a": []byte(text(n))}},
			}
		}
	}
	return []Shape{
		{"ObjectMeta.Annotations with a long text", 255, func(p *v1.Pod, n int) []port.APIObject {
			p.Annotations = map[string]string{"k": text(n)}
			mounts(p, "v", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: files(readers)}})
			for i := range readers {
				c := &p.Spec.Containers[0]
				c.Env = append(c.Env, v1.EnvVar{Name: name("V", i), ValueFrom: &v1.EnvVarSource{
					FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['k']"},
				}})
			}
			return nil
		}},
		{"Container.Env with a long text", 1400, inFirst(func(c *v1.Container, s string) {
			c.Env = []v1.EnvVar{{Name: "V", Value: s}}
		})},
		{"Container.Env with references to a long text", 1400, inFirst(func(c *v1.Container, s string) {
			c.Env = []v1.EnvVar{{Name: "V", Value: s}}
			for i := range readers {
				c.Env = append(c.Env, v1.EnvVar{Name: name("V", i), Value: "$(V)"})
			}
		})},
		{"Container.Env with a text of references", 1400, inFirst(func(c *v1.Container, s string) {
			c.Env = []v1.EnvVar{{Name: "A", Value: "x"}, {Name: "V", Value: strings.Repeat("$(A)$(B)", len(s)/8)}}
		})},
		{"Container.Env with a long key", 1000, keyed(func(p *v1.Pod) {
			c := &p.Spec.Containers[0]
			for i := range readers {
				c.Env = append(c.Env, v1.EnvVar{Name: name("V", i), ValueFrom: &v1.EnvVarSource{
					ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("m"), Key: "a"},
				}})
			}
		})},
		{"Container.EnvFrom with a long key", 1000, keyed(func(p *v1.Pod) {
			for i := range readers {
				p.Spec.Containers[0].EnvFrom = append(p.Spec.Containers[0].EnvFrom, v1.EnvFromSource{
					Prefix: name("P", i), SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("s")},
				})
			}
		})},
		{"PodSpec.Volumes with a long key", 1000, keyed(func(p *v1.Pod) {
			mounts(p, "m", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: local("m")}})
			mounts(p, "s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}})
		})},
		{"Container.Command with a long text", 1400, inFirst(func(c *v1.Container, s string) { c.Command = []string{s} })},
		{"Container.Args with a long text", 1400, inFirst(func(c *v1.Container, s string) { c.Args = []string{s} })},
		{"Container.Args with a text of references", 1400, inFirst(func(c *v1.Container, s string) {
			c.Args = []string{strings.Repeat("$(A)$$(B)", len(s)/9)}
		})},
		{"ExecAction.Command with a long text", 1400, inFirst(func(c *v1.Container, s string) {
			c.ReadinessProbe = &v1.Probe{PeriodSeconds: 5, ProbeHandler: v1.ProbeHandler{
				Exec: &v1.ExecAction{Command: []string{s}},
			}}
		})},
		{"HTTPGetAction.HTTPHeaders with a long text", 1400, inFirst(func(c *v1.Container, s string) {
			c.ReadinessProbe = &v1.Probe{PeriodSeconds: 5, ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
				Path: "/", Port: intstr.FromInt32(80), HTTPHeaders: []v1.HTTPHeader{{Name: "H", Value: s}},
			}}}
		})},
		{"PodSpec.ImagePullSecrets with a long text", 1000, func(p *v1.Pod, n int) []port.APIObject {
			out := credentials(p, 1)
			data := out[0].(*v1.Secret).Data
			data[v1.DockerConfigJsonKey] = fmt.Appendf(nil, `{"x":%q,%s`, text(n), data[v1.DockerConfigJsonKey][1:])
			return out
		}},
	}
}
