package growth

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/port"
)

// Shapes are all of them: at least one for each field that is not in Few.
func Shapes() []Shape {
	return slices.Concat(podShapes(), volumeShapes(), containerShapes(), longShapes())
}

func podShapes() []Shape {
	return []Shape{
		{"PodSpec.InitContainers", 3000, of(func(p *v1.Pod, i int) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{
				Name: name("i", i), Image: "registry.test/app:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways),
			})
		})},
		{"PodSpec.Containers", 3000, of(func(p *v1.Pod, i int) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name("c", i), Image: "registry.test/app:1"})
		})},
		{"PodSpec.Containers with images of their own", 3000, of(func(p *v1.Pod, i int) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name("c", i), Image: name("registry.test/app:", i)})
		})},
		{"PodSpec.Containers with probes", 2000, of(func(p *v1.Pod, i int) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{
				Name: name("c", i), Image: "registry.test/app:1", ReadinessProbe: &v1.Probe{
					PeriodSeconds: 5, ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}},
				},
			})
		})},
		{"PodSpec.EphemeralContainers", 3000, of(func(p *v1.Pod, i int) {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, ephemeral(i))
		})},
		{"PodSpec.NodeSelector", 20000, func(p *v1.Pod, n int) []port.APIObject {
			p.Spec.NodeSelector = texts("k", n)
			return nil
		}},
		{"PodSpec.ImagePullSecrets", 20000, of(func(p *v1.Pod, i int) {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, local(name("pull", i)))
		})},
		{"PodSpec.ImagePullSecrets with credentials", 20000, credentials},
		{"PodSpec.Tolerations", 20000, of(func(p *v1.Pod, i int) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: name("k", i), Operator: v1.TolerationOpExists})
		})},
		{"PodSpec.HostAliases", 20000, of(func(p *v1.Pod, i int) {
			p.Spec.HostAliases = append(p.Spec.HostAliases, v1.HostAlias{
				IP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Hostnames: []string{name("h", i)},
			})
		})},
		{"HostAlias.Hostnames", 50000, of(func(p *v1.Pod, i int) {
			if i == 0 {
				p.Spec.HostAliases = []v1.HostAlias{{IP: "10.0.0.1"}}
			}
			p.Spec.HostAliases[0].Hostnames = append(p.Spec.HostAliases[0].Hostnames, name("h", i))
		})},
		{"PodDNSConfig.Options", 20000, of(func(p *v1.Pod, i int) {
			if i == 0 {
				p.Spec.DNSConfig = &v1.PodDNSConfig{}
			}
			p.Spec.DNSConfig.Options = append(p.Spec.DNSConfig.Options, v1.PodDNSConfigOption{Name: name("o", i)})
		})},
		{"PodSpec.ReadinessGates", 20000, of(func(p *v1.Pod, i int) {
			p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, v1.PodReadinessGate{
				ConditionType: v1.PodConditionType(name("example.com/g", i)),
			})
		})},
		{"PodSpec.TopologySpreadConstraints", 10000, of(func(p *v1.Pod, i int) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: name("k", i), WhenUnsatisfiable: v1.DoNotSchedule,
			})
		})},
		{"PodSecurityContext.SupplementalGroups", 100000, of(func(p *v1.Pod, i int) {
			s := securityContext(p)
			s.SupplementalGroups = append(s.SupplementalGroups, int64(i+1))
		})},
		{"PodSecurityContext.Sysctls", 20000, of(func(p *v1.Pod, i int) {
			s := securityContext(p)
			s.Sysctls = append(s.Sysctls, v1.Sysctl{Name: name("net.ipv4.x", i), Value: "1"})
		})},
		{"NodeSelector.NodeSelectorTerms", 10000, of(func(p *v1.Pod, i int) {
			s := selector(p)
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, term(i))
		})},
		{"NodeSelectorTerm.MatchExpressions", 20000, of(func(p *v1.Pod, i int) {
			t := &selector(p).NodeSelectorTerms[0]
			t.MatchExpressions = append(t.MatchExpressions, term(i).MatchExpressions...)
		})},
		{"NodeSelectorTerm.MatchFields", 10000, of(func(p *v1.Pod, _ int) {
			t := &selector(p).NodeSelectorTerms[0]
			t.MatchFields = append(t.MatchFields, v1.NodeSelectorRequirement{
				Key: "metadata.name", Operator: v1.NodeSelectorOpNotIn, Values: []string{"other"},
			})
		})},
		{"NodeSelectorRequirement.Values", 50000, of(func(p *v1.Pod, i int) {
			t := &selector(p).NodeSelectorTerms[0]
			if i == 0 {
				t.MatchExpressions = []v1.NodeSelectorRequirement{{Key: "k", Operator: v1.NodeSelectorOpNotIn}}
			}
			t.MatchExpressions[0].Values = append(t.MatchExpressions[0].Values, name("v", i))
		})},
		{"NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution", 10000, of(func(p *v1.Pod, i int) {
			a := affinity(p)
			a.RequiredDuringSchedulingIgnoredDuringExecution = nil
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: 1, Preference: term(i)})
		})},
		{"PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution", 10000, of(func(p *v1.Pod, i int) {
			a := antiAffinity(p)
			a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution,
				v1.PodAffinityTerm{TopologyKey: name("k", i)})
		})},
		{"LabelSelector.MatchExpressions", 20000, of(func(p *v1.Pod, i int) {
			if i == 0 {
				p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: "k", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
				}}
			}
			s := p.Spec.TopologySpreadConstraints[0].LabelSelector
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: name("k", i), Operator: metav1.LabelSelectorOpExists,
			})
		})},
		{"ObjectMeta.Labels", 50000, func(p *v1.Pod, n int) []port.APIObject {
			p.Labels = texts("k", n)
			return nil
		}},
		{"ObjectMeta.Annotations", 10000, func(p *v1.Pod, n int) []port.APIObject {
			p.Annotations = texts("k", n)
			return nil
		}},
		{"ObjectMeta.OwnerReferences", 10000, of(func(p *v1.Pod, i int) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
				APIVersion: "v1", Kind: "ConfigMap", Name: name("o", i), UID: "u",
			})
		})},
		{"ObjectMeta.Finalizers", 50000, of(func(p *v1.Pod, i int) {
			p.Finalizers = append(p.Finalizers, name("example.com/f", i))
		})},
		{"ObjectMeta.ManagedFields", 10000, of(func(p *v1.Pod, i int) {
			p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: name("m", i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
			})
		})},
	}
}

func texts(prefix string, n int) map[string]string {
	out := make(map[string]string, n)
	for i := range n {
		out[name(prefix, i)] = "x"
	}
	return out
}

func securityContext(p *v1.Pod) *v1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		p.Spec.SecurityContext = &v1.PodSecurityContext{}
	}
	return p.Spec.SecurityContext
}

func volumeShapes() []Shape {
	return []Shape{
		{"PodSpec.Volumes", 10000, volumes(emptyDir)},
		{"PodSpec.Volumes in memory", 10000, volumes(func(int) v1.VolumeSource {
			return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}
		})},
		{"PodSpec.Volumes of ConfigMaps", 5000, volumes(func(i int) v1.VolumeSource {
			return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: local(name("m", i))}}
		}, configMaps)},
		{"PodSpec.Volumes of one Secret", 5000, volumes(func(int) v1.VolumeSource {
			return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}
		}, func(int) []port.APIObject { return theSecret() })},
		{"PodSpec.Volumes of missing claims", 5000, volumes(func(i int) v1.VolumeSource {
			return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name("p", i)}}
		})},
		{"PodSpec.Volumes of hosts", 5000, volumes(func(i int) v1.VolumeSource {
			return v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: name("/p", i)}}
		})},
		{"PodSpec.Volumes of images", 5000, volumes(func(i int) v1.VolumeSource {
			return v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: name("registry.test/v:", i)}}
		})},
		{"PodSpec.Volumes of a CSI driver", 5000, volumes(func(int) v1.VolumeSource { return inline(Driver) }, theDriver)},
		{"PodSpec.Volumes of a missing CSI driver", 5000, volumes(func(int) v1.VolumeSource {
			return inline("missing.example.com")
		})},
		{"PodSpec.Volumes of claims of a CSI driver", 5000, volumes(func(i int) v1.VolumeSource {
			return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name("p", i)}}
		}, theDriver, claims)},
		{"SecretVolumeSource.Items", 30000, one(func(n int) v1.VolumeSource {
			return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: items(n)}}
		}, theSecret)},
		{"ConfigMapVolumeSource.Items", 30000, one(func(n int) v1.VolumeSource {
			return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: local("m"), Items: items(n)}}
		}, theMap)},
		{"DownwardAPIVolumeSource.Items", 15000, one(func(n int) v1.VolumeSource {
			return v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: files(n)}}
		}, nil)},
		{"ProjectedVolumeSource.Sources", 10000, one(func(n int) v1.VolumeSource {
			s := &v1.ProjectedVolumeSource{}
			for i := range n {
				s.Sources = append(s.Sources, v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
					LocalObjectReference: local("m"), Items: []v1.KeyToPath{{Key: "a", Path: name("p", i)}},
				}})
			}
			return v1.VolumeSource{Projected: s}
		}, theMap)},
		{"SecretProjection.Items", 30000, one(projected(func(n int) v1.VolumeProjection {
			return v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: local("s"), Items: items(n)}}
		}), theSecret)},
		{"ConfigMapProjection.Items", 30000, one(projected(func(n int) v1.VolumeProjection {
			return v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: local("m"), Items: items(n)}}
		}), theMap)},
		{"DownwardAPIProjection.Items", 15000, one(projected(func(n int) v1.VolumeProjection {
			return v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: files(n)}}
		}), nil)},
		{"ISCSIVolumeSource.Portals", 50000, one(func(n int) v1.VolumeSource {
			s := &v1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.2001-04.com.example:storage.kube.sys1.xyz"}
			for i := range n {
				s.Portals = append(s.Portals, fmt.Sprintf("10.%d.%d.%d:3260", i>>16, i>>8&255, i&255))
			}
			return v1.VolumeSource{ISCSI: s}
		}, nil)},
		{"FCVolumeSource.TargetWWNs", 50000, one(func(n int) v1.VolumeSource {
			return v1.VolumeSource{FC: &v1.FCVolumeSource{TargetWWNs: list("500a098180", n), Lun: ptr.To(int32(1))}}
		}, nil)},
		{"FCVolumeSource.WWIDs", 50000, one(func(n int) v1.VolumeSource {
			return v1.VolumeSource{FC: &v1.FCVolumeSource{WWIDs: list("3600508b40010", n)}}
		}, nil)},
		{"CSIVolumeSource.VolumeAttributes", 50000, one(func(n int) v1.VolumeSource {
			return v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "example.com", VolumeAttributes: texts("k", n)}}
		}, nil)},
	}
}

func list(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, name(prefix, i))
	}
	return out
}

func containerShapes() []Shape {
	variable := func(i int) v1.EnvVar { return v1.EnvVar{Name: name("V", i), Value: "x"} }
	from := func(i int) v1.EnvFromSource {
		return v1.EnvFromSource{Prefix: name("P", i), ConfigMapRef: &v1.ConfigMapEnvSource{
			LocalObjectReference: local("m"), Optional: ptr.To(true),
		}}
	}
	port80 := func(i int) v1.ContainerPort {
		protocols := []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP}
		return v1.ContainerPort{ContainerPort: int32(i/3 + 1), Protocol: protocols[i%3]} //nolint:gosec // below 65,536
	}
	at := func(i int) v1.VolumeMount { return v1.VolumeMount{Name: "v", MountPath: name("/m", i)} }
	withVolume := func(s v1.VolumeSource, f func(c *v1.Container, i int)) func(*v1.Pod, int) []port.APIObject {
		return func(p *v1.Pod, n int) []port.APIObject {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: s}}
			return append(inContainer(f)(p, n), theMap()...)
		}
	}
	return []Shape{
		{"Container.Command", 100000, inContainer(func(c *v1.Container, i int) { c.Command = append(c.Command, "x") })},
		{"Container.Args", 100000, inContainer(func(c *v1.Container, i int) { c.Args = append(c.Args, "x") })},
		{"Container.Args with references", 20000, func(p *v1.Pod, n int) []port.APIObject {
			inContainer(func(c *v1.Container, i int) {
				c.Env = append(c.Env, variable(i))
				c.Args = append(c.Args, fmt.Sprintf("$(V%d)", i))
			})(p, n)
			return nil
		}},
		{"Container.Ports", 20000, inContainer(func(c *v1.Container, i int) { c.Ports = append(c.Ports, port80(i)) })},
		{"Container.Env", 20000, inContainer(func(c *v1.Container, i int) { c.Env = append(c.Env, variable(i)) })},
		{"Container.Env of keys", 10000, func(p *v1.Pod, n int) []port.APIObject {
			inContainer(func(c *v1.Container, i int) {
				c.Env = append(c.Env, v1.EnvVar{Name: name("V", i), ValueFrom: &v1.EnvVarSource{
					ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local(name("m", i)), Key: "a"},
				}})
			})(p, n)
			return configMaps(n)
		}},
		{"Container.Env of annotations", 10000, func(p *v1.Pod, n int) []port.APIObject {
			p.Annotations = texts("k", n)
			inContainer(func(c *v1.Container, i int) {
				c.Env = append(c.Env, v1.EnvVar{Name: name("V", i), ValueFrom: &v1.EnvVarSource{
					FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: fmt.Sprintf("metadata.annotations['k%d']", i)},
				}})
			})(p, n)
			return nil
		}},
		{"Container.EnvFrom", 10000, func(p *v1.Pod, n int) []port.APIObject {
			inContainer(func(c *v1.Container, i int) { c.EnvFrom = append(c.EnvFrom, from(i)) })(p, n)
			return []port.APIObject{&v1.ConfigMap{ObjectMeta: meta("m"), Data: map[string]string{"a": "x"}}}
		}},
		{"Container.VolumeMounts", 20000, withVolume(emptyDir(0), func(c *v1.Container, i int) {
			c.VolumeMounts = append(c.VolumeMounts, at(i))
		})},
		{"Container.VolumeMounts of a ConfigMap", 20000, withVolume(
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: local("m")}},
			func(c *v1.Container, i int) { c.VolumeMounts = append(c.VolumeMounts, at(i)) })},
		{"Container.VolumeMounts of parts", 10000, withVolume(emptyDir(0), func(c *v1.Container, i int) {
			m := at(i)
			m.SubPath = name("s", i)
			c.VolumeMounts = append(c.VolumeMounts, m)
		})},
		{"Container.VolumeDevices", 5000, of(func(p *v1.Pod, i int) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name("v", i), VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name("p", i)},
			}})
			c := &p.Spec.Containers[0]
			c.VolumeDevices = append(c.VolumeDevices, v1.VolumeDevice{Name: name("v", i), DevicePath: name("/d", i)})
		})},
		{"ResourceRequirements.Limits", 10000, inContainer(func(c *v1.Container, i int) {
			if i == 0 {
				c.Resources.Limits = v1.ResourceList{}
			}
			c.Resources.Limits[v1.ResourceName(name("example.com/r", i))] = more(i)
		})},
		{"ResourceRequirements.Requests", 10000, inContainer(func(c *v1.Container, i int) {
			if i == 0 {
				c.Resources.Requests, c.Resources.Limits = v1.ResourceList{}, v1.ResourceList{}
			}
			r := v1.ResourceName(name("example.com/r", i))
			c.Resources.Requests[r], c.Resources.Limits[r] = more(i), more(i)
		})},
		{"ExecAction.Command", 50000, inContainer(func(c *v1.Container, i int) {
			if i == 0 {
				c.ReadinessProbe = &v1.Probe{PeriodSeconds: 5, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{}}}
			}
			c.ReadinessProbe.Exec.Command = append(c.ReadinessProbe.Exec.Command, "$(V0)")
		})},
		{"HTTPGetAction.HTTPHeaders", 20000, inContainer(func(c *v1.Container, i int) {
			if i == 0 {
				c.ReadinessProbe = &v1.Probe{PeriodSeconds: 5, ProbeHandler: v1.ProbeHandler{
					HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)},
				}}
			}
			h := &c.ReadinessProbe.HTTPGet.HTTPHeaders
			*h = append(*h, v1.HTTPHeader{Name: name("H", i), Value: "x"})
		})},
		{"Capabilities.Add", 50000, inContainer(func(c *v1.Container, i int) {
			s := capabilities(c)
			s.Add = append(s.Add, v1.Capability(name("C", i)))
		})},
		{"Capabilities.Drop", 50000, inContainer(func(c *v1.Container, i int) {
			s := capabilities(c)
			s.Drop = append(s.Drop, v1.Capability(name("C", i)))
		})},
		{"EphemeralContainerCommon.Command", 100000, inEphemeral(func(c *v1.EphemeralContainer, _ int) {
			c.Command = append(c.Command, "x")
		})},
		{"EphemeralContainerCommon.Args", 100000, inEphemeral(func(c *v1.EphemeralContainer, _ int) {
			c.Args = append(c.Args, "x")
		})},
		{"EphemeralContainerCommon.Env", 20000, inEphemeral(func(c *v1.EphemeralContainer, i int) {
			c.Env = append(c.Env, variable(i))
		})},
		{"EphemeralContainerCommon.EnvFrom", 10000, inEphemeral(func(c *v1.EphemeralContainer, i int) {
			c.EnvFrom = append(c.EnvFrom, from(i))
		})},
		{"EphemeralContainerCommon.VolumeMounts", 20000, func(p *v1.Pod, n int) []port.APIObject {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: emptyDir(0)}}
			return inEphemeral(func(c *v1.EphemeralContainer, i int) { c.VolumeMounts = append(c.VolumeMounts, at(i)) })(p, n)
		}},
		{"EphemeralContainerCommon.VolumeDevices", 5000, func(p *v1.Pod, n int) []port.APIObject {
			return inEphemeral(func(c *v1.EphemeralContainer, i int) {
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name("v", i), VolumeSource: v1.VolumeSource{
					PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name("p", i)},
				}})
				c.VolumeDevices = append(c.VolumeDevices, v1.VolumeDevice{Name: name("v", i), DevicePath: name("/d", i)})
			})(p, n)
		}},
	}
}

func capabilities(c *v1.Container) *v1.Capabilities {
	if c.SecurityContext == nil {
		c.SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{}}
	}
	return c.SecurityContext.Capabilities
}
