package cluster

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestDualStack: a node that is IPv6 first, though its network plugin is IPv4 first.
//
//tier:real
func TestDualStack(t *testing.T) {
	t.Parallel()
	onFamilies(t, "dual-stack", v1.IPv4Protocol, v1.IPv6Protocol)
}

// TestIPv6Only: a node whose pods have no IPv4 address, and that is known by none.
//
//tier:real
func TestIPv6Only(t *testing.T) {
	t.Parallel()
	onFamilies(t, "ipv6-only", v1.IPv6Protocol)
}

// scopedServer is a nameserver at an address of one interface of the node.
const scopedServer = "fe80::1%eth0"

// stacked is a bed whose pods have addresses of these families.
type stacked struct {
	*bed
	kubelet bool
	// node are the node's addresses in its order, first what --node-ip has first.
	node []string
}

// onFamilies says what people find of addresses, as a kubelet has it: see compared. families are in the order of the
// network plugin. The node has them the other way round.
func onFamilies(t *testing.T, name string, families ...v1.IPFamily) {
	lab.Need(t, lab.IPv6)
	for _, agent := range compared() {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			s := stacked{kubelet: agent == "kubelet"}
			s.bed, _ = joinedOn(t, name+"-"+agent, agentOf(t, agent), families, func(b *bed) (string, []string) {
				s.node = b.lab.NodeAddresses()
				slices.Reverse(s.node)
				file := filepath.Join(t.TempDir(), "resolv.conf")
				check.Fatal(t, os.WriteFile(file, fmt.Appendf(nil, "nameserver %s\nnameserver %s\n", scopedServer, s.node[0]), 0o644))
				return strings.Join(s.node, ","), []string{
					"resolvConf: " + file,
					"authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: " + b.plane.CAFile() + "}}",
				}
			})
			hostPort, port := int32(check.Value(lab.FreePort())(t)), check.Value(lab.FreePort())(t)
			s.create(t, s.pod("web", facts(port, func(p *v1.PodSpec) {
				web := v1.Container{Name: "web", Image: lab.WebImage, Ports: []v1.ContainerPort{{ContainerPort: 8080, HostPort: hostPort}}}
				web.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1}
				p.Containers = append(p.Containers, web, listener("four", "127.0.0.1:7004"), listener("six", "[::1]:7006"))
			})))
			s.create(t, s.pod("host", facts(port, func(p *v1.PodSpec) { p.HostNetwork = true })))
			s.showsNode(t)
			s.showsPod(t, s.awaitPod(t, "web", "is ready", ready))
			s.showsHostPod(t, s.awaitPod(t, "host", "is ready", ready))
			s.reached(t, hostPort)
		})
	}
}

func listener(name, address string) v1.Container {
	return v1.Container{Name: name, Image: lab.WorkImage, Args: []string{"listen", address}}
}

// facts makes the first container print what it knows of addresses. Then it listens to its pod's first address alone, so
// it is ready if it is probed there.
func facts(port int, change func(*v1.PodSpec)) func(*v1.PodSpec) {
	return func(p *v1.PodSpec) {
		work("env POD_IP POD_IPS HOST_IP HOST_IPS then cat /etc/resolv.conf /etc/hosts then listen [$(POD_IP)]:" + strconv.Itoa(port))(p)
		c := &p.Containers[0]
		for _, v := range [][2]string{{"POD_IP", "podIP"}, {"POD_IPS", "podIPs"}, {"HOST_IP", "hostIP"}, {"HOST_IPS", "hostIPs"}} {
			c.Env = append(c.Env, v1.EnvVar{Name: v[0], ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status." + v[1]}}})
		}
		c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(port)}}, PeriodSeconds: 1}
		p.DNSPolicy = v1.DNSDefault
		change(p)
	}
}

// showsNode: the Node has the addresses in the order of --node-ip, and the certificate that the agent makes is for all of them.
func (s *stacked) showsNode(t *testing.T) {
	t.Helper()
	n := s.bed.node(t)
	var got []string
	for _, a := range n.Status.Addresses {
		got = append(got, string(a.Type)+" "+a.Address)
	}
	var want []string
	for _, ip := range s.node {
		want = append(want, "InternalIP "+ip)
	}
	if want = append(want, "Hostname "+s.name); !slices.Equal(got, want) {
		t.Errorf("the node has %q, want %q", got, want)
	}
	for _, ip := range s.node {
		conn, err := tls.Dial("tcp", net.JoinHostPort(ip, strconv.Itoa(int(n.Status.DaemonEndpoints.KubeletEndpoint.Port))),
			&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // what it is for is looked at
		if err != nil {
			t.Errorf("the agent's server: %v", err)
			continue
		}
		err = conn.ConnectionState().PeerCertificates[0].VerifyHostname(ip)
		conn.Close()
		if err != nil && !s.kubelet { // whose certificate is for the node's name only
			t.Error(err)
		}
	}
}

// showsPod: a pod has the node's order of families; in its hosts file that of the runtime, IPv4 first.
func (s *stacked) showsPod(t *testing.T, p *v1.Pod) {
	t.Helper()
	s.shows(t, p, s.node)
	pod := podIPs(p)
	hosts := slices.Clone(pod)
	slices.Reverse(hosts)
	for i, ip := range pod {
		if six := strings.Contains(ip, ":"); six != strings.Contains(s.node[i], ":") {
			t.Errorf("addresses %q on a node with %q", pod, s.node)
		}
	}
	servers := "nameserver " + s.node[0] + "\n"
	if s.kubelet {
		servers = "nameserver " + scopedServer + "\n" + servers
	}
	want := servers + `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
` + strings.Join(hosts, "\tweb\n") + "\tweb\n"
	if got := s.told(t, p); got != want {
		t.Errorf("the pod has\n%s\nwant\n%s", got, want)
	}
}

// showsHostPod: a pod on the host's network has the node's addresses and resolver.
func (s *stacked) showsHostPod(t *testing.T, p *v1.Pod) {
	t.Helper()
	s.shows(t, p, s.node)
	if got := podIPs(p); !slices.Equal(got, s.node) {
		t.Errorf("the pod on the host's network has %q, want %q", got, s.node)
	}
	own := check.Value(os.ReadFile("/etc/hosts"))(t)
	want := fmt.Sprintf("nameserver %s\nnameserver %s\n# Kubernetes-managed hosts file (host network).\n%s", scopedServer, s.node[0], own)
	if got := s.told(t, p); got != want {
		t.Errorf("the pod on the host's network has\n%s\nwant\n%s", got, want)
	}
}

// shows: the status agrees with itself.
func (s *stacked) shows(t *testing.T, p *v1.Pod, host []string) {
	t.Helper()
	var hostIPs []string
	for _, ip := range p.Status.HostIPs {
		hostIPs = append(hostIPs, ip.IP)
	}
	pod := podIPs(p)
	if !slices.Equal(hostIPs, host) || p.Status.HostIP != host[0] || len(pod) != len(host) || p.Status.PodIP != pod[0] {
		t.Errorf("%s: %s of %q on %s of %q, want those of %q", p.Name, p.Status.PodIP, pod, p.Status.HostIP, hostIPs, host)
	}
}

func podIPs(p *v1.Pod) (out []string) {
	for _, ip := range p.Status.PodIPs {
		out = append(out, ip.IP)
	}
	return out
}

// told is what a pod was told of addresses but for its variables, which must agree with its status. The apiserver gets
// the log from the node's first address.
func (s *stacked) told(t *testing.T, p *v1.Pod) string {
	t.Helper()
	said := s.do(t, nil, "logs", p.Name, "-c", "app")
	variables := fmt.Sprintf("POD_IP=%s\nPOD_IPS=%s\nHOST_IP=%s\nHOST_IPS=%s\n", p.Status.PodIP, strings.Join(podIPs(p), ","),
		s.node[0], strings.Join(s.node, ","))
	rest, ok := strings.CutPrefix(said.out, variables)
	if said.code != 0 || !ok {
		t.Errorf("%s: logs ended with %d %s and say\n%s\nwant at first\n%s", p.Name, said.code, said.err, said.out, variables)
	}
	return rest
}

// reached: commands, forwarded ports and host ports by each of the node's addresses.
func (s *stacked) reached(t *testing.T, hostPort int32) {
	t.Helper()
	if said := s.do(t, nil, "exec", "web", "-c", "app", "--", "/work", "print", "it", "works"); said.code != 0 || said.out != "it works\n" {
		t.Errorf("exec: %+v", said)
	}
	_, at := s.forward(t, nil, "web", "7004", "7006")
	check.Error(t, echoed(at[0], 1, 1<<10))
	// The runtime looks localhost up on the node, not in the pod.
	six, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip6", "localhost")
	known := err == nil && len(six) > 0
	if err := echoed(at[1], 2, 1<<10); (err == nil) != known {
		t.Errorf("a forwarded port of ::1, on a node that knows localhost as %v: %v", six, err)
	}
	for _, ip := range s.node {
		url := fmt.Sprintf("http://%s/", net.JoinHostPort(ip, strconv.Itoa(int(hostPort))))
		if got := string(fetch(t, http.DefaultClient, url, "")); got != "hello from web\n" {
			t.Errorf("%s: %s", url, got)
		}
	}
}
