package differ

import (
	v1 "k8s.io/api/core/v1"
)

// podFeatures are of the pod as a whole, and of its network.
var podFeatures = []feature{
	{"labels", 15, func(d *draft) {
		d.Pod.Pod.Labels = map[string]string{"app": "web", "example.com/tier": "front", "long": "a.b_c-d"}
	}},
	{"annotations", 15, func(d *draft) {
		d.Pod.Pod.Annotations = map[string]string{"note": "two\nlines \"quoted\" \\ \t.", "example.com/empty": "", "io.kubernetes.cri/mine": "x"}
	}},
	{"hostname", 12, func(d *draft) { d.spec.Hostname = "chosen-name" }},
	{"subdomain", 10, func(d *draft) { d.spec.Subdomain = "sub" }},
	{"fqdn", 6, func(d *draft) { d.spec.SetHostnameAsFQDN = new(true) }},
	{"hostname-override", 4, func(d *draft) { d.spec.HostnameOverride = new("other.example.com") }},
	{"host-aliases", 12, func(d *draft) {
		d.spec.HostAliases = []v1.HostAlias{{IP: "10.1.2.3", Hostnames: []string{"one", "one.example.com"}}, {IP: "10.1.2.4", Hostnames: []string{"two"}}}
	}},
	{"host-network", 10, func(d *draft) { d.spec.HostNetwork = true }},
	{"host-pid", 6, func(d *draft) { d.spec.HostPID = true }},
	{"host-ipc", 6, func(d *draft) { d.spec.HostIPC = true }},
	{"share-pid", 8, func(d *draft) { d.spec.ShareProcessNamespace = new(d.IntN(3) > 0) }},
	{"own-users", 6, func(d *draft) { d.spec.HostUsers = new(false) }},
	{"dns-policy", 30, func(d *draft) {
		d.spec.DNSPolicy = one(d, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSClusterFirstWithHostNet, v1.DNSNone)
		if d.spec.DNSPolicy == v1.DNSNone {
			d.spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"10.9.9.9"}}
		}
	}},
	{"dns-config", 15, func(d *draft) {
		if d.spec.DNSConfig == nil {
			d.spec.DNSConfig = &v1.PodDNSConfig{}
		}
		c := d.spec.DNSConfig
		c.Searches = one(d, nil, []string{"example.com", "svc.cluster.local"}, []string{"."})
		c.Options = []v1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "edns0"}}[d.IntN(2):]
		if d.flip() {
			c.Nameservers = append(c.Nameservers, "10.8.8.8", "10.96.0.10")
		}
	}},
	{"no-links", 15, func(d *draft) { d.spec.EnableServiceLinks = new(false) }},
	{"no-token", 25, func(d *draft) { d.spec.AutomountServiceAccountToken = new(false) }},
	{"account", 8, func(d *draft) { d.spec.ServiceAccountName = "other" }},
	{"os", 4, func(d *draft) { d.spec.OS = &v1.PodOS{Name: v1.Linux} }},
	{"pull-secrets", 5, func(d *draft) { d.spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: one(d, "pull", "missing")}} }},
	{"sysctls", 8, func(d *draft) {
		d.podSecurity().Sysctls = one(d,
			[]v1.Sysctl{{Name: "net.ipv4.ip_local_port_range", Value: "2000 3000"}, {Name: "kernel.shm_rmid_forced", Value: "1"}},
			[]v1.Sysctl{{Name: "net.ipv4.ping_group_range", Value: "0 100"}, {Name: "net/ipv4/ip_unprivileged_port_start", Value: "80"}},
			[]v1.Sysctl{{Name: "kernel.msgmax", Value: "1"}})
	}},
	{"node-selector", 2, func(d *draft) { d.spec.NodeSelector = map[string]string{"disk": "none"} }},
	{"tolerations", 6, func(d *draft) { d.spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }},
}

// mend takes back what an apiserver refuses together.
func (d *draft) mend() {
	s := d.spec
	if s.HostNetwork {
		// The servers of both nodes' pods would have the same ports.
		d.every(func(c *v1.Container) {
			c.Ports = nil
			if act := d.acts[c.Name]; len(act) > 5 && act[:5] == "serve" {
				d.acts[c.Name] = "sleep"
			}
			for _, p := range []**v1.Probe{&c.StartupProbe, &c.ReadinessProbe, &c.LivenessProbe} {
				if *p != nil && (*p).Exec == nil {
					*p = nil
				}
			}
		})
		s.HostnameOverride = nil
	}
	if s.HostnameOverride != nil {
		s.SetHostnameAsFQDN = nil
	}
	if s.HostPID || s.ShareProcessNamespace != nil && !*s.ShareProcessNamespace {
		s.ShareProcessNamespace = nil
	}
	if s.HostUsers != nil && !*s.HostUsers {
		s.HostPID, s.HostIPC, s.HostNetwork = false, false, false
	}
	if sc := s.SecurityContext; sc != nil && (s.HostNetwork || s.HostIPC) {
		sc.Sysctls = nil
	}
	if sc := s.SecurityContext; sc != nil && sc.RunAsGroup != nil && sc.RunAsUser == nil {
		sc.RunAsUser = new(int64(0)) // a kubelet's sandbox is refused by the runtime (docs/differences.md)
	}
	if s.NodeSelector != nil {
		s.ActiveDeadlineSeconds = nil // docs/parity/differ.md: a pod that was refused
	}
	if s.ServiceAccountName != "" && s.AutomountServiceAccountToken != nil {
		s.AutomountServiceAccountToken = nil
	}
	if g := s.TerminationGracePeriodSeconds; g != nil && *g == 0 {
		d.every(func(c *v1.Container) {
			if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
				c.Lifecycle.PreStop = nil // it must end within the grace period
			}
		})
	}
	first := true
	d.every(func(c *v1.Container) {
		if s.Resources != nil && !first {
			c.Resources = v1.ResourceRequirements{} // together they may not want more than the pod
		}
		first = false
		if s.RestartPolicy == v1.RestartPolicyNever {
			c.ResizePolicy = nil
		}
		if d.isPlainInit(c) {
			c.StartupProbe, c.ReadinessProbe, c.LivenessProbe, c.Lifecycle, c.ResizePolicy = nil, nil, nil, nil, nil
		}
		if sc := c.SecurityContext; sc != nil {
			mendSecurity(s, sc)
		}
		if c.Image == missingImage {
			c.Command = nil
		}
	})
}

func mendSecurity(s *v1.PodSpec, sc *v1.SecurityContext) {
	more := sc.Privileged != nil && *sc.Privileged
	if sc.Capabilities != nil {
		for _, c := range sc.Capabilities.Add {
			more = more || c == "SYS_ADMIN" || c == "CAP_SYS_ADMIN"
		}
	}
	if more && sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		sc.AllowPrivilegeEscalation = nil
	}
	if sc.ProcMount != nil && (s.HostUsers == nil || *s.HostUsers) {
		sc.ProcMount = nil
	}
}
