package containerplan

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// HostsFileHeader is the first line of the file of a pod with its own network. Tools, and the conformance
// tests of Kubernetes, look for it.
const HostsFileHeader = "# Kubernetes-managed hosts file."

// common are the standard names with their addresses.
const common = "127.0.0.1\tlocalhost\n" +
	"::1\tlocalhost ip6-localhost ip6-loopback\n" +
	"fe00::0\tip6-localnet\n" +
	"fe00::0\tip6-mcastprefix\n" +
	"fe00::1\tip6-allnodes\n" +
	"fe00::2\tip6-allrouters\n"

// HostsFile is the file of a pod with its own network: the known addresses of the pod, and its
// hostAliases. (Kubernetes documentation, "Adding entries to Pod /etc/hosts with HostAliases")
func HostsFile(pod *v1.Pod, ips []string, clusterDomain string) ([]byte, error) {
	hostname, domain, err := Hostname(pod, clusterDomain)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(HostsFileHeader + "\n" + common)
	for _, ip := range ips {
		b.WriteString(ip + "\t")
		if domain != "" {
			b.WriteString(hostname + "." + domain + "\t")
		}
		b.WriteString(hostname + "\n")
	}
	writeAliases(&b, pod.Spec.HostAliases)
	return []byte(b.String()), nil
}

// HostsFileOfHost is the file of a pod on the host's network: the host's file, and the pod's hostAliases.
func HostsFileOfHost(pod *v1.Pod, host []byte) []byte {
	var b strings.Builder
	b.WriteString("# Kubernetes-managed hosts file (host network).\n")
	b.Write(host)
	writeAliases(&b, pod.Spec.HostAliases)
	return []byte(b.String())
}

func writeAliases(b *strings.Builder, aliases []v1.HostAlias) {
	if len(aliases) == 0 {
		return
	}
	b.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range aliases {
		b.WriteString(a.IP + "\t" + strings.Join(a.Hostnames, "\t") + "\n")
	}
}
