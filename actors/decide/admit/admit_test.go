package admit

import (
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/tests/check"
)

func list(kv ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(kv); i += 2 {
		l[v1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return l
}

func baseNode() *Node {
	return &Node{
		Name: "n1", OS: "linux", Arch: "amd64",
		Labels:      map[string]string{"disk": "ssd", "rank": "5"},
		Allocatable: list("cpu", "2", "memory", "1Gi", "ephemeral-storage", "10Gi", "pods", "10"),
	}
}

func basePod(uid string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "a", Resources: v1.ResourceRequirements{Requests: list("cpu", "500m", "memory", "100Mi")},
		}}},
	}
}

type world struct {
	pod    *v1.Pod
	others []*v1.Pod
	node   *Node
}

func (w *world) other(uid string) *v1.Pod {
	p := basePod(uid)
	w.others = append(w.others, p)
	return p
}

func port(p *v1.Pod, ip string, n int32, proto v1.Protocol) {
	p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{HostIP: ip, HostPort: n, Protocol: proto})
}

func require(p *v1.Pod, terms ...v1.NodeSelectorTerm) {
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func expr(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func sysctl(p *v1.Pod, name string) {
	if p.Spec.SecurityContext == nil {
		p.Spec.SecurityContext = &v1.PodSecurityContext{}
	}
	p.Spec.SecurityContext.Sysctls = append(p.Spec.SecurityContext.Sysctls, v1.Sysctl{Name: name, Value: "1"})
}

func strict(p *v1.Pod) {
	policy := v1.SupplementalGroupsPolicyStrict
	p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: &policy}
}

func profile(p *v1.Pod, kind v1.AppArmorProfileType, name *string) {
	p.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: kind, LocalhostProfile: name}}
}

// gpu has the pod ask for a device of a plugin that a kubelet knew.
func gpu(w *world) {
	left, err := os.ReadFile("../devicestate/testdata/kubelet-1.36.json")
	if err == nil {
		w.node.Devices, err = devicestate.Parse(left)
	}
	if err != nil {
		panic(err)
	}
	w.pod.Spec.Containers[0].Resources.Limits = list("nvidia.com/gpu", "1")
}

// claim has the pod ask for the device of a claim.
func claim(w *world) {
	w.pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
}

func TestCheck(t *testing.T) {
	const (
		ports    = "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
		affinity = "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
		taint    = "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
	)
	always := v1.ContainerRestartPolicyAlways
	for _, c := range []struct {
		name   string
		mutate func(*world)
		want   string
	}{
		{"base", func(*world) {}, ""},
		{"host port, free", func(w *world) { port(w.pod, "", 80, ""); port(w.other("b"), "", 81, "") }, ""},
		{"host port, taken", func(w *world) { port(w.pod, "", 80, ""); port(w.other("b"), "", 80, v1.ProtocolTCP) }, ports},
		{"host port, other protocol", func(w *world) { port(w.pod, "", 80, v1.ProtocolUDP); port(w.other("b"), "", 80, "") }, ""},
		{"host port, other address", func(w *world) { port(w.pod, "127.0.0.1", 80, ""); port(w.other("b"), "10.0.0.1", 80, "") }, ""},
		{"host port, all addresses against one", func(w *world) { port(w.pod, "", 80, ""); port(w.other("b"), "10.0.0.1", 80, "") }, ports},
		{"host port, one address against all", func(w *world) { port(w.pod, "10.0.0.1", 80, ""); port(w.other("b"), "0.0.0.0", 80, "") }, ports},
		{"host port, taken by a finished pod", func(w *world) {
			port(w.pod, "", 80, "")
			o := w.other("b")
			port(o, "", 80, "")
			o.Status.Phase = v1.PodFailed
		}, ""},
		{"host port, taken by itself", func(w *world) { port(w.pod, "", 80, ""); w.others = append(w.others, w.pod) }, ""},
		{"host port, taken by a sidecar", func(w *world) {
			port(w.pod, "", 80, "")
			o := w.other("b")
			port(o, "", 80, "")
			o.Spec.InitContainers, o.Spec.Containers = o.Spec.Containers, nil
			o.Spec.InitContainers[0].RestartPolicy = &always
		}, ports},
		{"host port, of an init container only", func(w *world) {
			port(w.pod, "", 80, "")
			o := w.other("b")
			port(o, "", 80, "")
			o.Spec.InitContainers, o.Spec.Containers = o.Spec.Containers, nil
		}, ""},

		{"selector, matches", func(w *world) { w.pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, ""},
		{"selector, well-known labels", func(w *world) {
			w.pod.Spec.NodeSelector = map[string]string{v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64", v1.LabelHostname: "n1"}
		}, ""},
		{"selector, does not match", func(w *world) { w.pod.Spec.NodeSelector = map[string]string{"disk": "hdd"} }, affinity},
		{"affinity, any term", func(w *world) {
			require(w.pod, expr("disk", v1.NodeSelectorOpIn, "hdd"), expr("rank", v1.NodeSelectorOpGt, "4"))
		}, ""},
		{"affinity, none", func(w *world) { require(w.pod, expr("disk", v1.NodeSelectorOpNotIn, "ssd")) }, affinity},
		{"affinity, empty term", func(w *world) { require(w.pod, v1.NodeSelectorTerm{}) }, affinity},
		{"affinity, no term", func(w *world) { require(w.pod) }, affinity},
		{"affinity, not there", func(w *world) { require(w.pod, expr("gpu", v1.NodeSelectorOpDoesNotExist)) }, ""},
		{"affinity, there", func(w *world) { require(w.pod, expr("gpu", v1.NodeSelectorOpExists)) }, affinity},
		{"affinity, less than", func(w *world) { require(w.pod, expr("rank", v1.NodeSelectorOpLt, "5")) }, affinity},
		{"affinity, by name", func(w *world) {
			require(w.pod, v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}}})
		}, ""},
		{"another node", func(w *world) { w.pod.Spec.NodeName = "n2" }, "NodeName: Predicate NodeName failed: node(s) didn't match the requested node name"},

		{"cpu, exactly", func(w *world) {
			w.other("b").Spec.Containers[0].Resources.Requests = list("cpu", "1500m")
		}, ""},
		{"cpu, too much", func(w *world) {
			w.other("b").Spec.Containers[0].Resources.Requests = list("cpu", "1501m")
		}, "OutOfcpu: Node didn't have enough resource: cpu, requested: 500, used: 1501, capacity: 2000"},
		{"memory, too much", func(w *world) {
			w.pod.Spec.Containers[0].Resources.Requests = list("memory", "2Gi")
		}, "OutOfmemory: Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"},
		{"memory, of an init container", func(w *world) {
			w.pod.Spec.InitContainers = []v1.Container{{Name: "i", Resources: v1.ResourceRequirements{Requests: list("memory", "2Gi")}}}
		}, "OutOfmemory: Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"},
		{"cpu, sidecar beside main", func(w *world) {
			w.pod.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: &always, Resources: v1.ResourceRequirements{Requests: list("cpu", "1600m")}}}
		}, "OutOfcpu: Node didn't have enough resource: cpu, requested: 2100, used: 0, capacity: 2000"},
		{"cpu, init before main", func(w *world) {
			w.pod.Spec.InitContainers = []v1.Container{{Name: "i", Resources: v1.ResourceRequirements{Requests: list("cpu", "1600m")}}}
		}, ""},
		{"cpu, overhead", func(w *world) { w.pod.Spec.Overhead = list("cpu", "1600m") }, "OutOfcpu: Node didn't have enough resource: cpu, requested: 2100, used: 0, capacity: 2000"},
		{"cpu, of the pod as a whole", func(w *world) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "3")}
		}, "OutOfcpu: Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"},
		{"disk, too much", func(w *world) {
			w.pod.Spec.Containers[0].Resources.Requests = list("ephemeral-storage", "11Gi")
		}, "OutOfephemeral-storage: Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"},
		{"extended resource the node does not know", func(w *world) {
			w.pod.Spec.Containers[0].Resources.Requests = list("vendor.example/gpu", "1")
		}, ""},
		{"extended resource, too much", func(w *world) {
			w.node.Allocatable["vendor.example/gpu"] = resource.MustParse("1")
			w.pod.Spec.Containers[0].Resources.Requests = list("vendor.example/gpu", "2")
		}, "OutOfvendor.example/gpu: Node didn't have enough resource: vendor.example/gpu, requested: 2, used: 0, capacity: 1"},
		{"extended resource, which a claim stands for", func(w *world) {
			w.node.Allocatable["vendor.example/gpu"], w.node.Claims = resource.MustParse("0"), true
			w.pod.Spec.Containers[0].Resources.Requests = list("vendor.example/gpu", "1")
			w.pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
				RequestMappings: []v1.ContainerExtendedResourceRequest{{
					ContainerName: w.pod.Spec.Containers[0].Name, ResourceName: "vendor.example/gpu",
				}},
			}
		}, ""},
		{"device that no plugin serves", gpu,
			`UnexpectedAdmissionError: container "a": resources.limits[nvidia.com/gpu]: 1 requested, but no device plugin ` +
				`serves it on this node; run the pod on another node`},
		{"claim", claim, `UnexpectedAdmissionError: spec.resourceClaims[0]: claim "gpu" (ResourceClaim "shared"): resource ` +
			`claims can't be prepared on this node (it has no apiserver, or no drivers); run the pod on another node`},
		{"claim, with drivers", func(w *world) { claim(w); w.node.Claims = true }, ""},
		{"asks for nothing on a full node", func(w *world) {
			w.other("b").Spec.Containers[0].Resources.Requests = list("cpu", "4")
			w.pod.Spec.Containers[0].Resources.Requests = nil
		}, ""},
		{"pods, one too many", func(w *world) {
			w.node.Allocatable[v1.ResourcePods] = resource.MustParse("1")
			w.other("b")
		}, "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"},

		{"sysctl, safe", func(w *world) { sysctl(w.pod, "net.ipv4.tcp_syncookies") }, ""},
		{"sysctl, safe since 1.37", func(w *world) { sysctl(w.pod, "net.ipv4.tcp_slow_start_after_idle") }, ""},
		{"sysctl, safe since 1.37 too", func(w *world) { sysctl(w.pod, "net.ipv4.tcp_notsent_lowat") }, ""},
		{"sysctl, safe, with slashes", func(w *world) { sysctl(w.pod, "net/ipv4/tcp_syncookies") }, ""},
		{"sysctl, unsafe", func(w *world) { sysctl(w.pod, "kernel.msgmax") }, `SysctlForbidden: forbidden sysctl: "kernel.msgmax" not allowlisted`},
		{"sysctl, unsafe but allowed", func(w *world) {
			sysctl(w.pod, "kernel.msgmax")
			w.node.AllowedUnsafeSysctls = []string{"net.*", "kernel.msg*"}
		}, ""},
		{"sysctl, users of the node", func(w *world) {
			sysctl(w.pod, "user.max_user_namespaces")
			w.node.AllowedUnsafeSysctls = []string{"user.*"}
		}, `SysctlForbidden: forbidden sysctl: "user.max_user_namespaces" not allowed with host User enabled`},
		{"sysctl, users of its own", func(w *world) {
			sysctl(w.pod, "user.max_user_namespaces")
			w.pod.Spec.HostUsers = new(false)
			w.node.AllowedUnsafeSysctls = []string{"user.*"}
		}, ""},
		{"sysctl, namespace of the node", func(w *world) {
			sysctl(w.pod, "net.ipv4.tcp_syncookies")
			w.pod.Spec.HostNetwork = true
		}, `SysctlForbidden: forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`},

		{"os, ours", func(w *world) { w.pod.Spec.OS = &v1.PodOS{Name: v1.Linux} }, ""},
		{"os, other", func(w *world) { w.pod.Spec.OS = &v1.PodOS{Name: v1.Windows} }, "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS"},
		{"os, label", func(w *world) { w.pod.Labels = map[string]string{v1.LabelOSStable: "windows"} },
			"PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},

		{"groups of the image, kept from it", func(w *world) { strict(w.pod) },
			"SupplementalGroupsPolicyNotSupported: SupplementalGroupsPolicy=Strict is not supported in this node"},
		{"groups of the image, by a runtime that can", func(w *world) { strict(w.pod); w.node.StrictGroups = true }, ""},
		{"groups of the image, merged", func(w *world) {
			merge := v1.SupplementalGroupsPolicyMerge
			w.pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: &merge}
		}, ""},

		{"AppArmor, not here", func(w *world) { profile(w.pod, v1.AppArmorProfileTypeRuntimeDefault, nil) },
			"AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		{"AppArmor, here", func(w *world) {
			w.node.AppArmor = true
			profile(w.pod, v1.AppArmorProfileTypeRuntimeDefault, nil)
		}, ""},
		{"AppArmor, not wanted", func(w *world) { profile(w.pod, v1.AppArmorProfileTypeUnconfined, nil) }, ""},
		{"AppArmor, runs already", func(w *world) {
			profile(w.pod, v1.AppArmorProfileTypeRuntimeDefault, nil)
			w.pod.Status.Phase = v1.PodRunning
		}, ""},
		{"AppArmor, a profile without a name", func(w *world) {
			w.node.AppArmor = true
			blank := " "
			profile(w.pod, v1.AppArmorProfileTypeLocalhost, &blank)
		}, `AppArmor: Cannot enforce AppArmor: container "a": invalid empty AppArmor profile name`},

		{"taint", func(w *world) { w.node.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoExecute}} }, taint},
		{"taint, only for schedulers", func(w *world) { w.node.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}} }, ""},
		{"taint, static pod", func(w *world) {
			w.node.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}}
			w.pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		}, ""},
		{"taint, tolerated", func(w *world) {
			w.node.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoExecute}}
			w.pod.Spec.Tolerations = []v1.Toleration{{Key: "k", Value: "v"}}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world{pod: basePod("a"), node: baseNode()}
			c.mutate(&w)
			got := ""
			if r := Check(w.pod, w.others, w.node); r != nil {
				got = r.Reason + ": " + r.Message
			}
			check.Equal(t, got, c.want, "got")
		})
	}
}

func TestMoreRules(t *testing.T) {
	no := func(*Request) *Rejection { return &Rejection{Reason: "Mine"} }
	if r := Check(basePod("a"), nil, baseNode(), no); r == nil || r.Reason != "Mine" {
		t.Errorf("got %v, want the rejection of the rule that was added", r)
	}
}

// TestAdmittedPodsFit: whatever is admitted one after the other never asks for
// more than the node has, nor for a port twice.
func TestAdmittedPodsFit(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	rapid.Check(t, func(rt *rapid.T) {
		node := baseNode()
		amount := rapid.Int64Range(0, 1200)
		var in []*v1.Pod
		for i := range rapid.IntRange(0, 20).Draw(rt, "pods") {
			p := basePod(strings.Repeat("p", i+1))
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(amount.Draw(rt, "cpu"), resource.DecimalSI)}
			for range rapid.IntRange(0, 2).Draw(rt, "init") {
				c := v1.Container{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(amount.Draw(rt, "cpu"), resource.DecimalSI)}}}
				if rapid.Bool().Draw(rt, "sidecar") {
					c.RestartPolicy = &always
				}
				p.Spec.InitContainers = append(p.Spec.InitContainers, c)
			}
			port(p, "", int32(rapid.IntRange(0, 9).Draw(rt, "port")), "")
			if Check(p, in, node) == nil {
				in = append(in, p)
			}
		}
		var cpu int64
		taken := map[int32]bool{}
		for _, p := range in {
			for i := range p.Spec.Containers {
				cpu += p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
			}
			n := p.Spec.Containers[0].Ports[0].HostPort
			if n > 0 && taken[n] {
				rt.Fatalf("port %d is taken twice", n)
			}
			taken[n] = true
		}
		if cpu > 2000 || int64(len(in)) > node.Allocatable.Pods().Value() {
			rt.Fatalf("%d pods ask for %dm", len(in), cpu)
		}
	})
}
