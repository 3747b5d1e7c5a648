package translate

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// Sandbox makes the request for a pod's sandbox.
func Sandbox(n *Node, r *port.RunPodSandbox) (*runtimeapi.RunPodSandboxRequest, error) {
	if n.NoResolvConf != nil && r.Pod.Spec.DNSPolicy != v1.DNSNone {
		return nil, &port.Error{Verb: "RunPodSandbox", Object: Object(r.Pod, ""),
			Detail: "the resolver file of the node (resolvConf) can't be read: " + n.NoResolvConf.Error()}
	}
	config, err := sandboxConfig(n, r)
	if err != nil {
		return nil, invalid("RunPodSandbox", r.Pod, "", err)
	}
	return &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: r.RuntimeHandler}, nil
}

// PullContext is the part of a sandbox's configuration for an image pull: the pod's identity, the annotations that
// runtimes read, and its cgroup, in which CRI-O pulls if it is to (separate_pull_cgroup).
func PullContext(n *Node, pod *v1.Pod) *runtimeapi.PodSandboxConfig {
	c := &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID)},
		Labels:      SandboxLabels(pod),
		Annotations: podspec.Annotations(pod),
		Linux:       &runtimeapi.LinuxPodSandboxConfig{},
	}
	if n.CgroupParent != nil {
		c.Linux.CgroupParent = n.CgroupParent(pod)
	}
	return c
}

func sandboxConfig(n *Node, r *port.RunPodSandbox) (*runtimeapi.PodSandboxConfig, error) {
	pod := r.Pod
	c := PullContext(n, pod)
	c.Metadata.Attempt = r.Attempt
	c.LogDirectory = PodLogDirectory(n.podLogs(), pod)
	c.DnsConfig = dnsConfig(n, pod)
	c.Linux.Sysctls, c.Linux.Resources, c.Linux.Overhead = sysctls(pod), sandboxResources(n, pod), overhead(n, pod)
	var err error
	if c.Linux.SecurityContext, err = sandboxSecurity(n, r); err != nil {
		return nil, err
	}
	c.PortMappings = portMappings(pod)
	if pod.Spec.HostNetwork {
		return c, nil // with the node's host name
	}
	if c.Hostname, err = kernelHostname(n, pod); err != nil {
		return nil, err
	}
	return c, nil
}

// portMappings are the ports of main containers and sidecars, each once. Runtimes map those with a host port, and
// programs find the others in the description of a sandbox.
func portMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	type key struct {
		ip              string
		host, container int32
		protocol        runtimeapi.Protocol
	}
	seen := map[key]bool{}
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			k := key{p.HostIP, p.HostPort, p.ContainerPort, protocol(p.Protocol)}
			if p.HostPort > 0 {
				k.container = 0 // a host port leads to one place
			}
			if seen[k] {
				continue
			}
			seen[k] = true
			out = append(out, &runtimeapi.PortMapping{
				HostIp: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: k.protocol,
			})
		}
	}
	for c, kind := range podspec.Lasting(&pod.Spec) {
		if kind != podspec.Init {
			add(c)
		}
	}
	return out
}

func protocol(p v1.Protocol) runtimeapi.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case v1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	default: // TCP is the default
		return runtimeapi.Protocol_TCP
	}
}

// sysctls are written with dots, whichever separator the pod uses (sysctl.d(5): the first
// separator decides, and the other one is then literal).
func sysctls(pod *v1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil || len(pod.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	out := make(map[string]string, len(pod.Spec.SecurityContext.Sysctls))
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		out[dotted(s.Name)] = s.Value
	}
	return out
}

func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	b := []byte(name)
	for i := range b {
		switch b[i] {
		case '.':
			b[i] = '/'
		case '/':
			b[i] = '.'
		}
	}
	return string(b)
}
