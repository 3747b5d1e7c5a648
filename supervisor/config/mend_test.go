package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestStartsWithWarning: what a kubelet starts with, although it can't do what it says.
func TestStartsWithWarning(t *testing.T) {
	for _, c := range []struct {
		file, want string
		is         func(Config) any
		value      any
	}{
		{"clusterDNS: [dns, 10.96.0.10, 010.96.0.11]", `/etc/k: clusterDNS[0]: "dns": must be an IP address: it is left out`,
			func(c Config) any { return strings.Join(c.ClusterDNS(), " ") }, "10.96.0.10 10.96.0.11"},
		{"clusterDomain: a_b.local", `/etc/k: clusterDomain: "a_b.local": a lowercase RFC 1123 subdomain`, Config.clusterDomain, "a_b.local"},
		{"qosReserved: {memory: 10%}", "settings that have no effect: qosReserved (needs feature gate QOSReserved)",
			func(c Config) any { return c.MemoryReserved() }, int64(0)},
		{"staticPodURLHeader: {a: [b]}", "settings that have no effect: staticPodURLHeader (needs staticPodURL)", nil, nil},
		{"topologyManagerPolicyOptions: {x: 'true'}",
			"settings that have no effect: topologyManagerPolicyOptions (needs a topologyManagerPolicy)",
			func(c Config) any { return c.Assign().Topology }, "none"},
		{"staticPodURL: 'ftp://u:secret@h'", `/etc/k: staticPodURL: "ftp://u:xxxxx@h": must be an http or https URL: no pod can be`, nil, nil},
		{"staticPodURL: 'http://u:secret@h:x'", `"(hidden: it may hold a password)": cannot be parsed: no pod can be`, nil, nil},
		{"staticPodURL: http://h\nstaticPodURLHeader: {'a b': [b]}", `/etc/k: staticPodURLHeader[a b]: "a b": a valid HTTP header`, nil, nil},
		{"podCIDR: 10.0.0.0", "settings that have no effect: podCIDR", nil, nil},
		{"syncFrequency: -1s", `/etc/k: syncFrequency: "-1s": cannot be negative: the default, 1m0s, is used`, nil, nil},
		{"fileCheckFrequency: -1s", "fileCheckFrequency", func(c Config) any { return c.Kubelet().FileCheckFrequency.Duration }, 20 * time.Second},
		{"runtimeRequestTimeout: -1s", "runtimeRequestTimeout", func(c Config) any { return c.RuntimeRequestTimeout() }, 2 * time.Minute},
		{"evictionPressureTransitionPeriod: -1s", "evictionPressureTransitionPeriod",
			func(c Config) any { return c.Eviction().Transition }, 5 * time.Minute},
		{"cgroupDriver: docker", `/etc/k: cgroupDriver: "docker": must be cgroupfs or systemd: cgroupfs is used`,
			func(c Config) any { return c.CgroupDriver() }, "cgroupfs"},
		{"containerLogMaxSize: '0'", `/etc/k: containerLogMaxSize: "0": must be above 0, or negative for no rotation: the default, 10Mi`,
			func(c Config) any { return c.LogRotation().MaxSize }, int64(10 << 20)},
		{"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 9}, {priority: 1, shutdownGracePeriodSeconds: -1}]",
			"/etc/k: shutdownGracePeriodByPodPriority[1].shutdownGracePeriodSeconds: -1: cannot be negative: 0 is used", nil, nil},
		{"registerWithTaints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]",
			`/etc/k: registerWithTaints[1]: "a:NoSchedule": given twice: the first one counts`,
			func(c Config) any { return fmt.Sprint(c.RegisterWithTaints()) }, "[{a  NoSchedule <nil>}]"},
		{"reservedMemory: [{numaNode: 0, limits: {memory: -1}}]", "", nil, nil},
		{"configMapAndSecretChangeDetectionStrategy: Poll", `configMapAndSecretChangeDetectionStrategy: "Poll": has no such value`, nil, nil},
		{"healthzBindAddress: localhost", "", func(c Config) any { a, _ := c.Healthz(); return a }, "localhost:10248"},
		{"tlsCertFile: /a", `/etc/k: tlsCertFile: "/a": is set without tlsPrivateKeyFile: a certificate that the node signs`,
			func(c Config) any { return c.Kubelet().TLSCertFile }, ""},
		{"tlsPrivateKeyFile: /a", `/etc/k: tlsPrivateKeyFile: "/a": is set without tlsCertFile`,
			func(c Config) any { return c.Kubelet().TLSPrivateKeyFile }, ""},
		{"address: 010.0.0.1", "", func(c Config) any { a, _ := c.Server(); return a.String() }, "10.0.0.1:10250"},
	} {
		t.Run(c.file, func(t *testing.T) {
			got := good(t, map[string]string{"etc/k": c.file}, "--config=/etc/k")
			warned := strings.Join(got.Warnings(), "|")
			if !strings.Contains(warned, c.want) || (warned == "") != (c.want == "") || strings.Contains(warned, "secret") {
				t.Errorf("%q, want %q", warned, c.want)
			}
			if c.is != nil && c.is(got) != c.value {
				t.Errorf("%v, want %v", c.is(got), c.value)
			}
		})
	}
}

func (c Config) clusterDomain() any { return c.ClusterDomain() }

// TestEmptyAddresses: a flag with an empty address leaves the default, and does not open the health endpoint to all.
func TestEmptyAddresses(t *testing.T) {
	c := good(t, nil, "--address=", "--healthz-bind-address=")
	healthz, _ := c.Healthz()
	server, _ := c.Server()
	if healthz != "127.0.0.1:10248" || server.String() != "0.0.0.0:10250" || len(c.Warnings()) > 0 {
		t.Errorf("%s, %s, warnings %q", healthz, server, c.Warnings())
	}
}

// TestNodeIPThatIsNone: an address that can't be read is ignored, with a warning.
func TestNodeIPThatIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"x": "[]", "x,10.0.0.1": "[10.0.0.1]", "10.0.0.1": "[10.0.0.1]", "010.0.0.1": "[10.0.0.1]", "fe80::1%eth0": "[]",
		"::ffff:10.0.0.1": "[10.0.0.1]", "::ffff:10.0.0.1,fd00::1": "[10.0.0.1 fd00::1]", "fd00:0::01": "[fd00::1]", " fd00::1 , 10.0.0.1": "[fd00::1 10.0.0.1]",
		"10.0.0.1,x,fd00::1": "[10.0.0.1 fd00::1]",
	} {
		c := good(t, nil, "--node-ip="+text)
		warned := strings.Join(c.Warnings(), "|")
		if got := fmt.Sprint(c.NodeIPs()); got != want || strings.Contains(warned, "is no IP address: it is ignored") != strings.ContainsAny(text, "x%") {
			t.Errorf("%s: %s, %q; want %s", text, got, warned, want)
		}
	}
}

// TestPrefersIPv6: the family of the first address that can be read, also of one that only says which to look for.
func TestPrefersIPv6(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "10.0.0.1": false, "10.0.0.1,fd00::1": false, "::ffff:10.0.0.1": false, "0.0.0.0": false, "x": false,
		"::": true, "fd00::1": true, "fd00::1,10.0.0.1": true, "x,fd00::1": true,
	} {
		if got := good(t, nil, "--node-ip="+text).PrefersIPv6(); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestServersOfBothFamilies: addresses are read as a kubelet reads them.
func TestServersOfBothFamilies(t *testing.T) {
	c := good(t, nil, "--cluster-dns=fd00::0:a,::ffff:10.0.0.1,fe80::1%eth0,010.0.0.2", "--address=::", "--healthz-bind-address=::1")
	healthz, _ := c.Healthz()
	server, _ := c.Server()
	if got := strings.Join(c.ClusterDNS(), " "); got != "fd00::a 10.0.0.1 10.0.0.2" || healthz != "[::1]:10248" || server.String() != "[::]:10250" {
		t.Errorf("%s, %s, %s", got, healthz, server)
	}
	if w := strings.Join(c.Warnings(), "|"); strings.Count(w, "must be an IP address: it is left out") != 1 || !strings.Contains(w, "fe80::1%eth0") {
		t.Errorf("warnings %q", w)
	}
}

// TestStrategyInACluster: with a cluster the agent has to know how to ask for ConfigMaps and Secrets.
func TestStrategyInACluster(t *testing.T) {
	_, err := load(t, map[string]string{"etc/k": "configMapAndSecretChangeDetectionStrategy: Poll"}, "--config=/etc/k", "--kubeconfig=/k")
	wantError(t, err, `configMapAndSecretChangeDetectionStrategy: "Poll": supported values: "Get", "Cache", "Watch"`)
}

// TestDefaultsAreNotNamed: installers write the Go type with all its fields.
func TestDefaultsAreNotNamed(t *testing.T) {
	for file, want := range map[string]string{
		"syncFrequency: 0s\ncpuManagerReconcilePeriod: 0s\nlogging: {flushFrequency: 0, options: {json: {infoBufferSize: '0'}, text: {infoBufferSize: '0'}}}":                     "",
		"syncFrequency: 1m0s\nhairpinMode: promiscuous-bridge\nvolumePluginDir: /usr/libexec/kubernetes/kubelet-plugins/volume/exec/\nmemoryReservationPolicy: None\npodCIDR: ''": "",
		"syncFrequency: 2m0s\nhairpinMode: hairpin-veth\niptablesDropBit: 0":                                                                                                      "settings that have no effect: hairpinMode, iptablesDropBit, syncFrequency",
		documentedDefaults: "",
	} {
		c := good(t, map[string]string{"etc/k": file + "\n"}, "--config=/etc/k")
		check.Equal(t, strings.Join(c.Warnings(), "|"), want, "%s", file)
	}
	if w := good(t, nil, "--containerd=", "--volume-plugin-dir=", "--sync-frequency=1m").Warnings(); len(w) > 1 ||
		len(w) == 1 && !strings.Contains(w[0], "volumePluginDir") {
		t.Errorf("%v", w)
	}
}
