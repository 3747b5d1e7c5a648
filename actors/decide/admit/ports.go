package admit

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// hostPorts rejects a pod whose host ports are used by another pod. Validation checks for
// duplicates within the pod.
func hostPorts(r *Request) *Rejection {
	mine := portsOf(r.Pod)
	if len(mine) == 0 {
		return nil
	}
	for _, o := range r.Others {
		for _, q := range portsOf(o) {
			for _, p := range mine {
				if p.collides(q) {
					return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
				}
			}
		}
	}
	return nil
}

type hostPort struct {
	ip       string
	port     int32
	protocol v1.Protocol
}

// collides: the same port and protocol, on the same address or with one on all addresses. As in a
// scheduler, the address :: is not special.
func (p hostPort) collides(q hostPort) bool {
	return p.port == q.port && p.protocol == q.protocol && (p.ip == q.ip || p.ip == anyIP || q.ip == anyIP)
}

const anyIP = "0.0.0.0"

func portsOf(pod *v1.Pod) []hostPort {
	var out []hostPort
	for c, kind := range podspec.Lasting(&pod.Spec) {
		if kind == podspec.Init {
			continue // it holds none while the pod runs
		}
		for i := range c.Ports {
			p := &c.Ports[i]
			if p.HostPort <= 0 {
				continue
			}
			h := hostPort{p.HostIP, p.HostPort, p.Protocol}
			if h.ip == "" {
				h.ip = anyIP
			}
			if h.protocol == "" {
				h.protocol = v1.ProtocolTCP
			}
			out = append(out, h)
		}
	}
	return out
}
