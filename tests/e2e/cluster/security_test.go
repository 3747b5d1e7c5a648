package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// status are the lines of a process that say what it may.
const status = "cat /proc/self/status then exit 1"

// confined is a pod, the steps that its container runs, and what these print.
type confined struct {
	steps  string
	change func(*v1.Pod)
	want   []string
	// not must not be printed.
	not []string
}

var confinements = map[string]confined{
	"user": {
		steps: "id then exit 1",
		change: podSecurity(func(s *v1.PodSecurityContext) {
			s.RunAsUser, s.RunAsGroup, s.FSGroup, s.SupplementalGroups = new(int64(2000)), new(int64(3000)), new(int64(4000)), []int64{5000}
		}),
		want: []string{"uid=2000 gid=3000 ", "3000", "4000", "5000"},
	},
	"user of the image": {
		steps: "id then exit 1",
		change: all(podSecurity(func(s *v1.PodSecurityContext) { s.RunAsUser = new(int64(2000)) }),
			appSecurity(func(s *v1.SecurityContext) { s.RunAsUser, s.RunAsNonRoot = new(int64(1000)), new(true) })),
		want: []string{"uid=1000 gid=1000 "},
	},
	"no new privileges": {
		steps:  status,
		change: appSecurity(func(s *v1.SecurityContext) { s.AllowPrivilegeEscalation = new(false) }),
		want:   []string{"NoNewPrivs:\t1\n", "Seccomp:\t0\n"},
	},
	"seccomp": {
		steps: status,
		change: podSecurity(func(s *v1.PodSecurityContext) {
			s.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}
		}),
		want: []string{"NoNewPrivs:\t0\n", "Seccomp:\t2\n"},
	},
	"capabilities": {
		steps: status,
		change: appSecurity(func(s *v1.SecurityContext) {
			s.Capabilities = &v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"NET_BIND_SERVICE"}}
		}),
		want: []string{"CapEff:\t0000000000000400\n", "CapBnd:\t0000000000000400\n"},
	},
	"read-only root": {
		steps:  "write /x y then exit 1",
		change: appSecurity(func(s *v1.SecurityContext) { s.ReadOnlyRootFilesystem = new(true) }),
		want:   []string{"read-only file system"},
	},
	"masked paths": {steps: "write /proc/sys/kernel/domainname x then exit 1", want: []string{"read-only file system"}},
	"host's PIDs":  {steps: "cat /proc/1/comm then exit 1", change: spec(func(s *v1.PodSpec) { s.HostPID = true }), not: []string{"work"}},
	"shared PIDs":  {steps: "cat /proc/1/comm then exit 1", change: spec(func(s *v1.PodSpec) { s.ShareProcessNamespace = new(true) }), want: []string{"pause"}},
	"own PIDs":     {steps: "cat /proc/1/comm then exit 1", want: []string{"work"}},
	"sysctl": {steps: "cat /proc/sys/net/ipv4/ip_unprivileged_port_start then exit 1", change: podSecurity(func(s *v1.PodSecurityContext) {
		s.Sysctls = []v1.Sysctl{{Name: "net/ipv4/ip_unprivileged_port_start", Value: "77"}}
	}), want: []string{"77\n"}},
	"host name": {steps: "id then exit 1", change: spec(func(s *v1.PodSpec) { s.HostnameOverride = new("over.ride") }), want: []string{"host=over.ride "}},
	"FQDN":      {steps: "id then exit 1", change: spec(func(s *v1.PodSpec) { s.Hostname, s.Subdomain, s.SetHostnameAsFQDN = "me", "sub", new(true) }), want: []string{"host=me.sub.NS.svc.cluster.local "}},
	"resolver":  {steps: "cat /etc/resolv.conf then exit 1", want: []string{"nameserver 10.96.0.10\n", "search NS.svc.cluster.local svc.cluster.local cluster.local\n", "options ndots:5\n"}},
	"own resolver": {steps: "cat /etc/resolv.conf then exit 1", change: spec(func(s *v1.PodSpec) {
		s.DNSPolicy, s.DNSConfig = v1.DNSNone, &v1.PodDNSConfig{Nameservers: []string{"192.0.2.9"}, Searches: []string{"a.example"}, Options: []v1.PodDNSConfigOption{{Name: "timeout", Value: new("2")}}}
	}), want: []string{"search a.example\n", "nameserver 192.0.2.9\n", "options timeout:2\n"}},
	"variable file": {steps: "env FROM_FILE then exit 1", change: fromFile, want: []string{"FROM_FILE=left by the first\n"}},
	"recursively read-only if possible": {steps: "write /v/x y then exit 1", change: all(mountOf(emptyDir), app(func(c *v1.Container) {
		c.VolumeMounts[0].ReadOnly, c.VolumeMounts[0].RecursiveReadOnly = true, new(v1.RecursiveReadOnlyIfPossible)
	})), want: []string{"read-only file system"}},
}

// fromFile lets an init container leave a variable for the main one.
func fromFile(p *v1.Pod) {
	mountOf(emptyDir)(p)
	first := *p.Spec.Containers[0].DeepCopy()
	first.Name, first.Args = "first", strings.Fields("write /v/x.env NAME='left by the first'")
	p.Spec.InitContainers = []v1.Container{first}
	p.Spec.Containers[0].VolumeMounts = nil
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "FROM_FILE", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "x.env", Key: "NAME"}}}}
}

// TestSecurityContext: containers are confined as their pods say, and as the
// kubelet confines them; what a node can't enforce it does not run.
//
//tier:real
func TestSecurityContext(t *testing.T) {
	t.Parallel()
	asKubelet(t, "security", func(t *testing.T, b *bed, _ bool) {
		said := func(name string, c confined) *v1.Pod {
			p := b.pod(strings.ToLower(strings.NewReplacer(" ", "-", "'", "").Replace(name)), func(s *v1.PodSpec) {
				work(c.steps)(s)
				s.RestartPolicy = v1.RestartPolicyNever
				s.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
			})
			if c.change != nil {
				c.change(p)
			}
			return b.create(t, p)
		}
		pods := map[string]*v1.Pod{}
		for name, c := range confinements {
			pods[name] = said(name, c)
		}
		pods["users"] = said("users", confined{steps: "cat /proc/self/uid_map then exit 1", change: spec(func(s *v1.PodSpec) { s.HostUsers = new(false) })})
		pods["apparmor"] = said("apparmor", confined{steps: "cat /proc/self/attr/current then exit 1", change: podSecurity(func(s *v1.PodSecurityContext) {
			s.AppArmorProfile = &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
		})})
		words := func(t *testing.T, p *v1.Pod) string {
			p = b.awaitPod(t, p.Name, "has ended", func(p *v1.Pod) error {
				if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Terminated == nil {
					return errors.New("it has not")
				}
				return nil
			})
			return p.Status.ContainerStatuses[0].State.Terminated.Message
		}
		for name, c := range confinements {
			t.Run(name, func(t *testing.T) {
				got := words(t, pods[name])
				for _, want := range c.want {
					if want = strings.ReplaceAll(want, "NS", b.name); !strings.Contains(got, want) {
						t.Errorf("it does not say %q but\n%s", want, got)
					}
				}
				for _, not := range c.not {
					if strings.Contains(got, not) {
						t.Errorf("it says %q:\n%s", not, got)
					}
				}
			})
		}
		t.Run("users", func(t *testing.T) {
			if !userNamespaces(b.node(t)) {
				b.awaitVerdict(t, "users", []string{"Warning FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces"})
				return
			}
			var in, out, length int
			if _, err := fmt.Sscan(words(t, pods["users"]), &in, &out, &length); err != nil || in != 0 || out < 65536 || length != 65536 {
				t.Errorf("the pod's users are %d %d %d, %v", in, out, length, err)
			}
		})
		t.Run("AppArmor", func(t *testing.T) {
			if on, err := os.ReadFile("/sys/module/apparmor/parameters/enabled"); err == nil && strings.HasPrefix(string(on), "Y") {
				check.Has(t, words(t, pods["apparmor"]), "(enforce)", "the container runs under")
				return
			}
			b.awaitVerdict(t, "apparmor", rejects("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"))
		})
	})
}

// userNamespaces says whether the node shows that its runtime has them.
func userNamespaces(n *v1.Node) bool {
	for _, h := range n.Status.RuntimeHandlers {
		if h.Name == "" && h.Features != nil && h.Features.UserNamespaces != nil {
			return *h.Features.UserNamespaces
		}
	}
	return false
}
