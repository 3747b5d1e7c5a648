package translate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
)

// maxFQDN is the kernel's limit of a host name (sethostname(2)).
const maxFQDN = 64

// kernelHostname is the host name inside the pod's containers.
func kernelHostname(n *Node, pod *v1.Pod) (string, error) {
	hostname, domain, err := containerplan.Hostname(pod, n.ClusterDomain)
	if err != nil || domain == "" || !isTrue(pod.Spec.SetHostnameAsFQDN) {
		return hostname, err
	}
	fqdn := hostname + "." + domain
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf(
			"failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, "+
				"%d characters requested)", fqdn, maxFQDN, len(fqdn),
		)
	}
	return fqdn, nil
}
