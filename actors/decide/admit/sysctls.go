package admit

import (
	"slices"
	"strings"
)

// safeSysctls are namespaced and touch no other pod (API docs, "Safe and
// Unsafe Sysctls"), on every kernel since 4.15.
func safeSysctls() []string {
	return []string{
		"kernel.shm_rmid_forced",
		"net.ipv4.ip_local_port_range",
		"net.ipv4.tcp_syncookies",
		"net.ipv4.ping_group_range",
		"net.ipv4.ip_unprivileged_port_start",
		"net.ipv4.ip_local_reserved_ports",
		"net.ipv4.tcp_keepalive_time",
		"net.ipv4.tcp_fin_timeout",
		"net.ipv4.tcp_keepalive_intvl",
		"net.ipv4.tcp_keepalive_probes",
		"net.ipv4.tcp_rmem",
		"net.ipv4.tcp_wmem",
		"net.ipv4.tcp_slow_start_after_idle",
		"net.ipv4.tcp_notsent_lowat",
	}
}

// sysctls rejects sysctls that are neither safe nor allowed on this node, and those in a namespace
// that the pod shares with the node.
func sysctls(r *Request) *Rejection {
	sc := r.Pod.Spec.SecurityContext
	if sc == nil {
		return nil
	}
	for i := range sc.Sysctls {
		name := dotted(sc.Sysctls[i].Name)
		if !slices.Contains(safeSysctls(), name) && !slices.ContainsFunc(r.Node.AllowedUnsafeSysctls, func(p string) bool {
			p = dotted(p)
			prefix, isPrefix := strings.CutSuffix(p, "*")
			return p == name || isPrefix && strings.HasPrefix(name, prefix)
		}) {
			return reject("SysctlForbidden", "forbidden sysctl: %q not allowlisted", name)
		}
		switch ns := namespaceOf(name); {
		case ns == ipc && r.Pod.Spec.HostIPC, ns == network && r.Pod.Spec.HostNetwork,
			ns == users && (r.Pod.Spec.HostUsers == nil || *r.Pod.Spec.HostUsers):
			return reject("SysctlForbidden", "forbidden sysctl: %q not allowed with host %s enabled", name, ns)
		}
	}
	return nil
}

// dotted writes a sysctl with dots: net/ipv4/conf/eth0.1/x is net.ipv4.conf.eth0/1.x.
func dotted(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		default:
			return r
		}
	}, name)
}

// Namespaces, in the words of a kubelet.
const ipc, network, uts, users = "IPC", "Net", "UTS", "User"

// Namespaced says whether a pod may have its own value of what a pattern of allowedUnsafeSysctls stands for.
func Namespaced(pattern string) bool {
	prefix, _, _ := strings.Cut(dotted(pattern), "*")
	return namespaceOf(prefix) != ""
}

func namespaceOf(name string) string {
	switch {
	case strings.HasPrefix(name, "net."):
		return network
	case strings.HasPrefix(name, "kernel.sem"), strings.HasPrefix(name, "kernel.shm"),
		strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		return ipc
	case name == "kernel.domainname":
		return uts
	case strings.HasPrefix(name, "user."):
		return users
	default:
		return ""
	}
}
