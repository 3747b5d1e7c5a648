package translate

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestGroupsOfVolumes: the sandbox has them, also when it is described again for a container.
func TestGroupsOfVolumes(t *testing.T) {
	w := newWorld()
	w.pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{6}}
	w.r.Groups = []int64{7}
	run := check.Value(Sandbox(w.node, &port.RunPodSandbox{Pod: w.pod, Groups: w.r.Groups}))(t)
	create := check.Value(Container(w.node, w.r))(t)
	for _, c := range []*runtimeapi.PodSandboxConfig{run.Config, create.SandboxConfig} {
		if got := c.Linux.SecurityContext.SupplementalGroups; !slices.Equal(got, []int64{6, 7}) {
			t.Errorf("groups %v", got)
		}
	}
}

// TestSandbox changes the base and looks at the one thing that follows.
func TestSandbox(t *testing.T) {
	type config = runtimeapi.PodSandboxConfig
	security := func(c *config) *runtimeapi.LinuxSandboxSecurityContext { return c.Linux.SecurityContext }
	for _, tt := range []struct {
		name   string
		mutate func(*world)
		look   func(*config) any
		want   any
	}{
		{"metadata", func(*world) {}, func(c *config) any { return []any{c.Metadata.Name, c.Metadata.Namespace, c.Metadata.Uid} }, []any{"web", "default", "u1"}},
		{"labels", func(*world) {}, func(c *config) any { return c.Labels }, map[string]string{
			"app": "web", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1"}},
		{"a pod can't take another's name by a label", func(w *world) { w.pod.Labels["io.kubernetes.pod.uid"] = "u2" },
			func(c *config) any { return c.Labels["io.kubernetes.pod.uid"] }, "u1"},
		{"annotations", func(w *world) { w.pod.Annotations["kubernetes.io/config.source"] = "file" }, func(c *config) any { return c.Annotations },
			map[string]string{"note": "n", "kubernetes.io/config.source": "file"}},
		{"logs", func(*world) {}, func(c *config) any { return c.LogDirectory }, "/var/log/pods/default_web_u1"},
		{"logs elsewhere", func(w *world) { w.node.PodLogs = "/logs" }, func(c *config) any { return c.LogDirectory }, "/logs/default_web_u1"},

		{"host name", func(*world) {}, func(c *config) any { return c.Hostname }, "web"},
		{"host name given", func(w *world) { w.pod.Spec.Hostname = "h" }, func(c *config) any { return c.Hostname }, "h"},
		{"host name of a long pod name", func(w *world) { w.pod.Name = strings.Repeat("a", 62) + "-b" }, func(c *config) any { return c.Hostname }, strings.Repeat("a", 62)},
		{"host name on the host's network", func(w *world) { w.pod.Spec.HostNetwork = true }, func(c *config) any { return c.Hostname }, ""},
		{"subdomain", func(w *world) { w.pod.Spec.Subdomain = "s" }, func(c *config) any { return c.Hostname }, "web"},
		{"FQDN", func(w *world) { w.pod.Spec.Subdomain = "s"; w.pod.Spec.SetHostnameAsFQDN = ptr(true) }, func(c *config) any { return c.Hostname }, "web.s.default.svc.cluster.local"},
		{"FQDN without a domain", func(w *world) { w.pod.Spec.SetHostnameAsFQDN = ptr(true) }, func(c *config) any { return c.Hostname }, "web"},
		{"host name override", func(w *world) { w.pod.Spec.HostnameOverride = ptr("my.name"); w.pod.Spec.Subdomain = "s" }, func(c *config) any { return c.Hostname }, "my.name"},

		{"ports", func(w *world) {
			w.app.Ports = []v1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 8081, HostIP: "1.2.3.4"}, {ContainerPort: 53, HostPort: 53, Protocol: v1.ProtocolUDP}, {ContainerPort: 53, HostPort: 53, Protocol: v1.ProtocolUDP}}
			w.pod.Spec.InitContainers = []v1.Container{
				{Name: "once", Ports: []v1.ContainerPort{{ContainerPort: 1, HostPort: 1}}},
				{Name: "side", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Ports: []v1.ContainerPort{{ContainerPort: 2, HostPort: 2}}},
			}
		}, func(c *config) any {
			var got []string
			for _, p := range c.PortMappings {
				got = append(got, fmt.Sprintf("%s:%d>%d/%s", p.HostIp, p.HostPort, p.ContainerPort, p.Protocol))
			}
			slices.Sort(got)
			return got
		}, []string{"1.2.3.4:8081>81/TCP", ":0>80/TCP", ":2>2/TCP", ":53>53/UDP"}},
		{"ports on the host's network", func(w *world) {
			w.pod.Spec.HostNetwork = true
			w.app.Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}, func(c *config) any { return []any{len(c.PortMappings), c.Hostname} }, []any{1, ""}},

		{"cgroup parent", func(w *world) {
			w.node.CgroupParent = func(p *v1.Pod) string { return "/kubepods/" + string(p.UID) }
		}, func(c *config) any { return c.Linux.CgroupParent }, "/kubepods/u1"},
		{"sysctls", func(w *world) {
			w.pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}, {Name: "net/ipv4/conf/eth0.1/x", Value: "2"}}}
		}, func(c *config) any { return c.Linux.Sysctls }, map[string]string{"kernel.shm_rmid_forced": "1", "net.ipv4.conf.eth0/1.x": "2"}},
		{"namespaces", func(*world) {}, func(c *config) any {
			o := security(c).NamespaceOptions
			return []any{o.Network, o.Pid, o.Ipc, o.UsernsOptions.Mode}
		},
			[]any{runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_CONTAINER, runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_NODE}},
		{"namespaces of the host", func(w *world) {
			s := &w.pod.Spec
			s.HostNetwork, s.HostPID, s.HostIPC, s.ShareProcessNamespace = true, true, true, ptr(true)
		}, func(c *config) any { o := security(c).NamespaceOptions; return []any{o.Network, o.Pid, o.Ipc} },
			[]any{runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE}},
		{"shared processes", func(w *world) { w.pod.Spec.ShareProcessNamespace = ptr(true) }, func(c *config) any { return security(c).NamespaceOptions.Pid }, runtimeapi.NamespaceMode_POD},
		{"user namespace", func(w *world) {
			w.capable()
			w.pod.Spec.HostUsers = ptr(false)
		}, func(c *config) any {
			u := security(c).NamespaceOptions.UsernsOptions
			return []any{u.Mode, u.Uids[0].HostId, u.Uids[0].ContainerId, u.Gids[0].Length}
		}, []any{runtimeapi.NamespaceMode_POD, uint32(131072), uint32(0), uint32(65536)}},
		{"the node's users, said outright", func(w *world) { w.pod.Spec.HostUsers = ptr(true) },
			func(c *config) any { return security(c).NamespaceOptions.UsernsOptions.Mode }, runtimeapi.NamespaceMode_NODE},
		{"privileged", func(w *world) { w.app.SecurityContext = &v1.SecurityContext{Privileged: ptr(true)} }, func(c *config) any { return security(c).Privileged }, true},
		{"not privileged", func(*world) {}, func(c *config) any { return security(c).Privileged }, false},
		{"user, group, groups", func(w *world) {
			w.pod.Spec.SecurityContext = &v1.PodSecurityContext{
				RunAsUser: ptr[int64](1), RunAsGroup: ptr[int64](2), FSGroup: ptr[int64](3), SupplementalGroups: []int64{4, 5},
				SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict),
			}
		}, func(c *config) any {
			s := security(c)
			return []any{s.RunAsUser.Value, s.RunAsGroup.Value, s.SupplementalGroups, s.SupplementalGroupsPolicy}
		}, []any{int64(1), int64(2), []int64{3, 4, 5}, runtimeapi.SupplementalGroupsPolicy_Strict}},
		{"a group without a user", func(w *world) { w.pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: ptr[int64](2)} },
			func(c *config) any { return security(c).RunAsGroup == nil }, true},
		{"seccomp", func(*world) {}, func(c *config) any { return security(c).Seccomp.ProfileType }, runtimeapi.SecurityProfile_RuntimeDefault},
		{"SELinux", func(w *world) {
			w.pod.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: "s0:c1"}}
		},
			func(c *config) any { return security(c).SelinuxOptions.Level }, "s0:c1"},
		{"resources", func(w *world) {
			w.app.Resources = v1.ResourceRequirements{Requests: list("cpu", "500m"), Limits: list("memory", "100", "cpu", "1")}
			w.pod.Spec.InitContainers = []v1.Container{
				{Name: "side", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Resources: v1.ResourceRequirements{Requests: list("cpu", "250m"), Limits: list("memory", "10")}},
				{Name: "once", Resources: v1.ResourceRequirements{Limits: list("memory", "300")}},
			}
			w.pod.Spec.Overhead = list("cpu", "100m", "memory", "7")
		}, func(c *config) any {
			r, o := c.Linux.Resources, c.Linux.Overhead
			return []int64{r.CpuShares, r.CpuQuota, r.MemoryLimitInBytes, o.CpuShares, o.MemoryLimitInBytes}
		}, []int64{768, 100000, 310, 102, 7}},
		{"resources of the pod as a whole", func(w *world) {
			w.app.Resources = v1.ResourceRequirements{Requests: list("cpu", "500m")}
			w.pod.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "2"), Limits: list("memory", "400")}
		}, func(c *config) any { return []int64{c.Linux.Resources.CpuShares, c.Linux.Resources.MemoryLimitInBytes} }, []int64{2048, 400}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.mutate(w)
			if got := tt.look(w.sandbox(t)); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSandboxThatCannotBe(t *testing.T) {
	for want, mutate := range map[string]func(*world){
		"can't set `spec.hostUsers: false`, runtime does not support user namespaces": func(w *world) { w.pod.Spec.HostUsers = ptr(false) },
		"can't set `spec.hostUsers: false`, RuntimeClass handler \"kata\" does not support user namespaces": func(w *world) {
			w.capable()
			w.pod.Spec.HostUsers, w.r.RuntimeHandler = ptr(false), "kata"
		},
		"this node has no user IDs for pods": func(w *world) {
			w.capable()
			w.pod.Spec.HostUsers = ptr(false)
			w.node.UserNamespace = nil
		},
		"user namespace: none left": func(w *world) {
			w.capable()
			w.pod.Spec.HostUsers = ptr(false)
			w.node.UserNamespace = func(*v1.Pod) (isolation.IDMapping, error) { return isolation.IDMapping{}, errors.New("none left") }
		},
		`spec.hostname "A.b" is not a valid DNS label`:           func(w *world) { w.pod.Spec.Hostname = "A.b" },
		`spec.subdomain "a.b" is not a valid DNS label`:          func(w *world) { w.pod.Spec.Subdomain = "a.b" },
		`spec.hostnameOverride "-" is not a valid DNS subdomain`: func(w *world) { w.pod.Spec.HostnameOverride = ptr("-") },
		"is too long (64 characters is the max, 90 characters requested)": func(w *world) {
			w.pod.Spec.Subdomain, w.pod.Name = "s", strings.Repeat("a", 62)
			w.pod.Spec.SetHostnameAsFQDN = ptr(true)
		},
		`supplementalGroupsPolicy "Odd" is unknown`: func(w *world) {
			w.pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicy("Odd"))}
		},
	} {
		w := newWorld()
		mutate(w)
		_, err := Sandbox(w.node, &port.RunPodSandbox{Pod: w.pod, RuntimeHandler: w.r.RuntimeHandler})
		wantInvalid(t, err, want)
		wantInvalid(t, err, "RunPodSandbox default/"+w.pod.Name)
	}
}

// TestSandboxWithoutResolvConf: pods that need the node's resolver file wait for it, and others do not.
func TestSandboxWithoutResolvConf(t *testing.T) {
	for policy, starts := range map[v1.DNSPolicy]bool{ // order-free: each on its own
		v1.DNSNone: true, v1.DNSDefault: false, v1.DNSClusterFirst: false, "": false,
	} {
		w := newWorld()
		w.node.NoResolvConf, w.pod.Spec.DNSPolicy = errors.New("no such file"), policy
		_, err := Sandbox(w.node, &port.RunPodSandbox{Pod: w.pod})
		if starts != (err == nil) || err != nil && (port.KindOf(err) != port.Other ||
			!strings.Contains(err.Error(), "the resolver file of the node (resolvConf) can't be read: no such file")) {
			t.Errorf("%q: %v", policy, err)
		}
	}
}

func TestRuntimeHandler(t *testing.T) {
	w := newWorld()
	got, err := Sandbox(w.node, &port.RunPodSandbox{Pod: w.pod, Attempt: 4, RuntimeHandler: "kata-qemu"})
	if err != nil || got.RuntimeHandler != "kata-qemu" || got.Config.Metadata.Attempt != 4 {
		t.Errorf("%v, %v", got, err)
	}
}

// scoped is a node without a cluster's DNS whose first server is an address of one of its interfaces.
func scoped(policy v1.DNSPolicy, hostNetwork bool, others ...string) func(*world) {
	return func(w *world) {
		w.pod.Spec.DNSPolicy, w.pod.Spec.HostNetwork, w.node.ClusterDNS = policy, hostNetwork, nil
		w.node.ResolvConf = "nameserver " + strings.Join(append([]string{"fe80::1%eth0"}, others...), "\nnameserver ")
	}
}

func TestDNS(t *testing.T) {
	cluster := []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"}
	for _, tt := range []struct {
		name                       string
		mutate                     func(*world)
		servers, searches, options []string
	}{
		{"by default", func(*world) {}, []string{"10.96.0.10"}, cluster, []string{"ndots:5"}},
		{"ClusterFirst", func(w *world) { w.pod.Spec.DNSPolicy = v1.DNSClusterFirst }, []string{"10.96.0.10"}, cluster, []string{"ndots:5"}},
		{"ClusterFirst on the host's network", func(w *world) { w.pod.Spec.DNSPolicy = v1.DNSClusterFirst; w.pod.Spec.HostNetwork = true },
			[]string{"10.1.1.1"}, []string{"corp.example"}, []string{"ndots:2", "rotate"}},
		{"ClusterFirstWithHostNet", func(w *world) {
			w.pod.Spec.DNSPolicy = v1.DNSClusterFirstWithHostNet
			w.pod.Spec.HostNetwork = true
		}, []string{"10.96.0.10"}, cluster, []string{"ndots:5"}},
		{"ClusterFirst without a cluster's DNS", func(w *world) { w.node.ClusterDNS = nil }, []string{"10.1.1.1"}, []string{"corp.example"}, []string{"ndots:2", "rotate"}},
		{"Default", func(w *world) { w.pod.Spec.DNSPolicy = v1.DNSDefault }, []string{"10.1.1.1"}, []string{"corp.example"}, []string{"ndots:2", "rotate"}},
		{"Default on a node without a resolver file", func(w *world) { w.pod.Spec.DNSPolicy = v1.DNSDefault; w.node.LocalResolver = true },
			[]string{"127.0.0.1"}, []string{"."}, nil},
		{"None", func(w *world) {
			w.pod.Spec.DNSPolicy = v1.DNSNone
			w.pod.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"9.9.9.9"}, Searches: []string{"a"}, Options: []v1.PodDNSConfigOption{{Name: "edns0"}}}
		}, []string{"9.9.9.9"}, []string{"a"}, []string{"edns0"}},
		{"merged", func(w *world) {
			w.pod.Spec.DNSPolicy = v1.DNSDefault
			w.pod.Spec.DNSConfig = &v1.PodDNSConfig{
				Nameservers: []string{"10.1.1.1", "9.9.9.9"}, Searches: []string{"corp.example", "b"},
				Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr("1")}, {Name: "edns0"}},
			}
		}, []string{"10.1.1.1", "9.9.9.9"}, []string{"corp.example", "b"}, []string{"ndots:1", "rotate", "edns0"}},
		{"limits", func(w *world) {
			w.pod.Spec.DNSPolicy = v1.DNSDefault
			w.node.ResolvConf = "nameserver 1\nnameserver 2\n; c\n# c\nnameserver\nnameserver 3\nnameserver 4\nsearch old\nsearch " + strings.Repeat("y", 254) + " a. ."
		}, []string{"1", "2", "3"}, []string{"a"}, nil},
		{"Default on a node without a resolver file, of both families", func(w *world) {
			w.pod.Spec.DNSPolicy, w.node.LocalResolver = v1.DNSDefault, true
			w.node.NodeIPs = []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("192.0.2.1")}
		}, []string{"::1", "127.0.0.1"}, []string{"."}, nil},
		{"the same where only a family is asked for", func(w *world) {
			w.pod.Spec.DNSPolicy, w.node.LocalResolver, w.node.NodeIPs = v1.DNSDefault, true, []netip.Addr{netip.IPv6Unspecified()}
		}, []string{"::1"}, []string{"."}, nil},
		{"an empty search line", func(w *world) {
			w.pod.Spec.DNSPolicy, w.node.ResolvConf = v1.DNSDefault, "nameserver fd00::53\nsearch old\nsearch\noptions"
		}, []string{"fd00::53"}, nil, nil},
		{"servers of an interface", scoped(v1.DNSDefault, false, "10.1.1.1", "fe80::2%3", "fd00::53", "10.1.1.2"),
			[]string{"10.1.1.1", "fd00::53", "10.1.1.2"}, nil, nil},
		{"servers of an interface, without a cluster's DNS", scoped(v1.DNSClusterFirst, false, "fd00::53"), []string{"fd00::53"}, nil, nil},
		{"servers of an interface on the host's network", scoped(v1.DNSDefault, true, "fd00::53"), []string{"fe80::1%eth0", "fd00::53"}, nil, nil},
		{"servers of an interface alone", scoped(v1.DNSDefault, false), []string{"fe80::1%eth0"}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.mutate(w)
			got := w.sandbox(t).DnsConfig
			if !slices.Equal(got.Servers, tt.servers) || !slices.Equal(got.Searches, tt.searches) || !slices.Equal(got.Options, tt.options) {
				t.Errorf("got %v\nwant %q %q %q", got, tt.servers, tt.searches, tt.options)
			}
		})
	}
	var many []string
	for range 40 {
		many = append(many, strings.Repeat("z", 100))
	}
	if got := fitSearches(many); len(strings.Join(got, " ")) > maxSearchLine || len(got) != 20 {
		t.Errorf("%d domains fit", len(got))
	}
}

func TestDNSNotices(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mutate func(*world)
		want   []string
	}{
		{"nothing to say", func(*world) {}, nil},
		{"no cluster DNS", func(w *world) { w.node.ClusterDNS = nil }, []string{`MissingClusterDNS: pod: "web_default(u1)". kubelet does not have ClusterDNS IP ` +
			`configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy. (node: kubelet does not have ` +
			`ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.)`}},
		{"no cluster DNS, and none wanted", func(w *world) { w.node.ClusterDNS, w.pod.Spec.DNSPolicy = nil, v1.DNSDefault }, nil},
		{"no cluster DNS, on the host's network", func(w *world) { w.node.ClusterDNS, w.pod.Spec.HostNetwork = nil, true }, nil},
		{"too many servers", func(w *world) {
			w.pod.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}}
		}, []string{"DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 10.96.0.10 10.0.0.1 10.0.0.2"}},
		{"servers of an interface", scoped(v1.DNSDefault, false, "fd00::53", "fe80::2%3"), []string{"DNSConfigForming: Nameservers of an interface of the node " +
			"cannot be reached from the network of a pod and have been omitted: fe80::1%eth0 fe80::2%3"}},
		{"servers of an interface on the host's network", scoped(v1.DNSDefault, true, "fd00::53"), nil},
		{"servers of an interface alone", scoped(v1.DNSDefault, false), nil},
		{"a domain that is too long", func(w *world) {
			w.pod.Spec.DNSPolicy = v1.DNSNone
			w.pod.Spec.DNSConfig = &v1.PodDNSConfig{Searches: []string{"a", strings.Repeat("y", 254), "b"}}
		}, []string{"DNSConfigForming: Search Line limits were exceeded, some search paths have been omitted, the applied search line is: a b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.mutate(w)
			var got []string
			for _, n := range DNSNotices(w.node, w.pod) {
				text := n.Reason + ": " + n.Message
				if n.OfNode != "" {
					text += " (node: " + n.OfNode + ")"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestResolvConfTrouble(t *testing.T) {
	for _, tt := range []struct{ name, searches, domain, want string }{
		{"fits", "a b", "cluster.local", ""},
		{"as many as there is room for", strings.Repeat("a ", 29), "cluster.local", ""},
		{"too many beside the cluster's", strings.Repeat("a ", 30), "cluster.local", "Resolv.conf file '/r' contains search line consisting of more than 29 domains!"},
		{"without a cluster's", strings.Repeat("a ", 30), "", ""},
		{"a long one", strings.Repeat("y", 254), "", `Resolv.conf file "/r" contains a search path which length is more than allowed 253 chars!`},
		{"a long line", strings.Repeat(strings.Repeat("y", 200)+" ", 12), "", "Resolv.conf file '/r' contains search line which length is more than allowed 2048 chars!"},
	} {
		if got := ResolvConfTrouble(&Node{ResolvConf: "search " + tt.searches, ClusterDomain: tt.domain}, "/r"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	missing := &Node{NoResolvConf: errors.New("open /r: no such file")}
	check.Equal(t, ResolvConfTrouble(missing, "/r"), "open /r: no such file", "no file")
}
