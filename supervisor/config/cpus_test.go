package config

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"
)

func TestOwnCPUs(t *testing.T) {
	c := good(t, map[string]string{"etc/k": `
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
reservedSystemCPUs: 0,2
systemReserved: {cpu: 500m, memory: 1Gi}
kubeReserved: {cpu: 300m}
`}, "--config=/etc/k")
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("warnings: %v", w)
	}
	a := c.Assign()
	if !c.StaticCPUs() || !c.NoQuotaOfOwnCPUs() || !a.Reserved.Equals(cpuset.New(0, 2)) || a.ReservedMilli != 2000 ||
		!a.Options.FullPCPUsOnly || a.Topology != "restricted" || a.Scope != "pod" || !a.TopologyOptions.PreferClosest {
		t.Errorf("%+v", a)
	}
	system, kube := c.Reserved()
	if system.Cpu().String() != "2" || !kube.Cpu().IsZero() || system.Memory().String() != "1Gi" {
		t.Errorf("reserved %v, %v; want the CPUs that are named", system, kube)
	}
	if _, has := kube[v1.ResourceCPU]; has {
		t.Error("CPUs are reserved twice")
	}
	c = good(t, map[string]string{"etc/k": "cpuManagerPolicy: static\nkubeReserved: {cpu: 300m}\nfeatureGates: {DisableCPUQuotaWithExclusiveCPUs: false}\n"},
		"--config=/etc/k")
	if a := c.Assign(); a.ReservedMilli != 300 || c.NoQuotaOfOwnCPUs() {
		t.Errorf("%+v", a)
	}
}

// TestResizesOfOwnCPUs: the policy dynamic is static, with resizes that a kubelet has only with a feature gate.
func TestResizesOfOwnCPUs(t *testing.T) {
	for text, want := range map[string]bool{ // order-free: each on its own
		"cpuManagerPolicy: static": false, "cpuManagerPolicy: dynamic": true,
		"cpuManagerPolicy: static\nfeatureGates: {InPlacePodVerticalScalingExclusiveCPUs: true}": true,
	} {
		c := good(t, map[string]string{"etc/k": text + "\nkubeReserved: {cpu: 300m}\n"}, "--config=/etc/k")
		if a := c.Assign(); !a.Static || a.Resizes != want || !c.NoQuotaOfOwnCPUs() || len(c.Warnings()) > 0 {
			t.Errorf("%s: %+v, warnings %v", text, a, c.Warnings())
		}
	}
}

func TestBadOptionsOfCPUs(t *testing.T) {
	for text, want := range map[string]string{ // order-free: each on its own
		"cpuManagerPolicyOptions: {x: \"true\"}":                                                             "cpuManagerPolicyOptions",
		"cpuManagerPolicyOptions: {align-by-socket: \"true\"}":                                               "CPUManagerPolicyAlphaOptions",
		"topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: \"1\"}": "must be at least 8",
	} {
		_, err := load(t, map[string]string{"etc/k": text + "\n"}, "--config=/etc/k")
		wantError(t, err, want)
	}
}
