package containerplan

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestContent(t *testing.T) {
	override := "other.example"
	aliases := []v1.HostAlias{{IP: "10.1.2.3", Hostnames: []string{"foo.remote", "bar.remote"}}, {IP: "fd00::9", Hostnames: []string{"six"}}}
	for _, c := range []struct {
		name string
		mut  func(*v1.Pod)
		ips  []string
		want string
	}{
		{"one address", func(*v1.Pod) {}, []string{"10.0.0.5"}, "10.0.0.5\tweb\n"},
		{"two addresses", func(*v1.Pod) {}, []string{"10.0.0.5", "fd00::5"}, "10.0.0.5\tweb\nfd00::5\tweb\n"},
		{"no address yet", func(*v1.Pod) {}, nil, ""},
		{"hostname and subdomain", func(p *v1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "db-0", "db" }, []string{"10.0.0.5"},
			"10.0.0.5\tdb-0.db.shop.svc.cluster.local\tdb-0\n"},
		{"hostnameOverride has no domain", func(p *v1.Pod) { p.Spec.HostnameOverride, p.Spec.Subdomain = &override, "db" }, []string{"10.0.0.5"},
			"10.0.0.5\tother.example\n"},
		{"a long name", func(p *v1.Pod) { p.Name = strings.Repeat("a", 62) + "-b" }, []string{"10.0.0.5"}, "10.0.0.5\t" + strings.Repeat("a", 62) + "\n"},
		{"aliases", func(p *v1.Pod) { p.Spec.HostAliases = aliases }, []string{"10.0.0.5"},
			"10.0.0.5\tweb\n\n# Entries added by HostAliases.\n10.1.2.3\tfoo.remote\tbar.remote\nfd00::9\tsix\n"},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		c.mut(pod)
		got, err := HostsFile(pod, c.ips, "cluster.local")
		if want := HostsFileHeader + "\n" + common + c.want; string(got) != want || err != nil {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", c.name, err, got, want)
		}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{HostAliases: aliases[:1]}}
	if got, want := string(HostsFileOfHost(pod, []byte("127.0.0.1 host\n"))),
		"# Kubernetes-managed hosts file (host network).\n127.0.0.1 host\n\n# Entries added by HostAliases.\n10.1.2.3\tfoo.remote\tbar.remote\n"; got != want {
		t.Errorf("on the host's network: got\n%s\nwant\n%s", got, want)
	}
	pod.Spec.Hostname = "-bad"
	check.Fails(t, check.Err(HostsFile(pod, nil, "")), "a bad host name is taken")
}
