package containerplan

import (
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addServices adds the variables by which a container finds services: those of its pod's namespace,
// unless enableServiceLinks is false, and default/kubernetes if none of them has that name. A service
// without a cluster address has none. (Kubernetes documentation, "Accessing the Service". Variables that
// begin with {NAME}_PORT are those of Docker links.)
func (e *Environment) addServices(services []*v1.Service, pod *v1.Pod) {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	near := func(s *v1.Service) bool { return s.Namespace == pod.Namespace && links && reachable(s) }
	own := slices.ContainsFunc(services, func(s *v1.Service) bool { return s.Name == "kubernetes" && near(s) })
	for _, s := range services {
		if s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes" && reachable(s) && !own {
			e.addService(s)
		}
	}
	for _, s := range services {
		if near(s) {
			e.addService(s)
		}
	}
}

func reachable(s *v1.Service) bool {
	return s.Spec.ClusterIP != "" && s.Spec.ClusterIP != v1.ClusterIPNone && len(s.Spec.Ports) > 0
}

func (e *Environment) addService(s *v1.Service) {
	name, address, ports := variableName(s.Name), s.Spec.ClusterIP, s.Spec.Ports
	e.set(name+"_SERVICE_HOST", address)
	e.set(name+"_SERVICE_PORT", strconv.Itoa(int(ports[0].Port)))
	for _, p := range ports {
		if p.Name != "" {
			e.set(name+"_SERVICE_PORT_"+variableName(p.Name), strconv.Itoa(int(p.Port)))
		}
	}
	for i, p := range ports {
		protocol := strings.ToLower(string(p.Protocol))
		if protocol == "" {
			protocol = "tcp"
		}
		number := strconv.Itoa(int(p.Port))
		url := protocol + "://" + hostPort(address, number)
		if i == 0 {
			e.set(name+"_PORT", url)
		}
		link := name + "_PORT_" + number + "_" + strings.ToUpper(protocol)
		e.set(link, url)
		e.set(link+"_PROTO", protocol)
		e.set(link+"_PORT", number)
		e.set(link+"_ADDR", address)
	}
}

func variableName(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }

// hostPort writes an IPv6 address in brackets.
func hostPort(address, port string) string {
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return address + ":" + port
}
