package containerplan

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxHostname is the API's limit for a label.
const maxHostname = 63

// Hostname returns the host name and the domain of a pod; the domain is empty if it has none
// (core/v1 PodSpec hostname, hostnameOverride and subdomain).
func Hostname(pod *v1.Pod, clusterDomain string) (hostname, domain string, err error) {
	if o := pod.Spec.HostnameOverride; o != nil {
		if bad := validation.IsDNS1123Subdomain(*o); len(bad) > 0 {
			return "", "", fmt.Errorf("spec.hostnameOverride %q is not a valid DNS subdomain: %s", *o, strings.Join(bad, "; "))
		}
		hostname, err = truncate(*o)
		return hostname, "", err
	}
	hostname = pod.Name
	if pod.Spec.Hostname != "" {
		if bad := validation.IsDNS1123Label(pod.Spec.Hostname); len(bad) > 0 {
			return "", "", fmt.Errorf("spec.hostname %q is not a valid DNS label: %s", pod.Spec.Hostname,
				strings.Join(bad, "; "))
		}
		hostname = pod.Spec.Hostname
	}
	if hostname, err = truncate(hostname); err != nil {
		return "", "", err
	}
	if s := pod.Spec.Subdomain; s != "" {
		if bad := validation.IsDNS1123Label(s); len(bad) > 0 {
			return "", "", fmt.Errorf("spec.subdomain %q is not a valid DNS label: %s", s, strings.Join(bad, "; "))
		}
		domain = s + "." + pod.Namespace + ".svc." + clusterDomain
	}
	return hostname, domain, nil
}

// truncate cuts a long pod name, and then any characters that a name can't end with.
func truncate(s string) (string, error) {
	if len(s) <= maxHostname {
		return s, nil
	}
	cut := strings.TrimRight(s[:maxHostname], "-.")
	if cut == "" {
		return "", fmt.Errorf("host name %q is invalid", s)
	}
	return cut, nil
}
