package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/config"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestHeld(t *testing.T) {
	hold := held(configOf(t, "systemReserved: {cpu: 100m, memory: 1Mi}\nkubeReserved: {cpu: \"1\"}\nevictionHard: {memory.available: 1Mi, nodefs.available: 10%}"))
	for _, tt := range []struct {
		name           v1.ResourceName
		capacity, want int64
	}{
		{v1.ResourceCPU, 4000, 1100}, {v1.ResourceMemory, 1 << 30, 2 << 20}, {v1.ResourceEphemeralStorage, 1000, 100}, {v1.ResourcePods, 110, 0},
	} {
		if got := hold(tt.name, tt.capacity); got != tt.want {
			t.Errorf("%s: %d of %d, want %d", tt.name, got, tt.capacity, tt.want)
		}
	}
	// Of a percentage a kubelet holds as many bytes: reservedMemory must be the same number.
	share := held(configOf(t, "systemReserved: {memory: 50Mi}\nkubeReserved: {memory: 100Mi}\nevictionHard: {memory.available: 5%}"))
	must.Equal(t, share(v1.ResourceMemory, 10<<30), 694157320, "150Mi and a twentieth of 10Gi")
}

// clustered is the configuration of a node with a kubeconfig, and these flags.
func clustered(t *testing.T, lines string, args ...string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n" + lines
	must.Fatal(t, os.WriteFile(file, []byte(text), 0o644))
	flags := config.NewFlags()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(fs)
	must.Fatal(t, fs.Parse(append([]string{"--config", file, "--kubeconfig", "/k"}, args...)))
	return must.Value(config.Load(flags, os.DirFS("/"), "/"))(t)
}

// TestClusterOf shows what a configuration makes of the node's object.
func TestClusterOf(t *testing.T) {
	m := &machine{}
	plain := agent.Of(clustered(t, "")).Cluster
	if !plain.Register || plain.MaxImages != 50 || plain.LeaseDuration.Seconds() != 40 || plain.StatusPeriod.Seconds() != 10 || plain.ReportPeriod.Minutes() != 5 {
		t.Errorf("got %+v", plain)
	}
	if o := ownOf(clustered(t, ""), m, "n1"); o.Labels[v1.LabelHostname] != "n1" || o.Labels["beta.kubernetes.io/os"] != "linux" || o.Annotations[nodeobject.AttachesVolumes] != "true" || len(o.Taints) > 0 || o.Cloud {
		t.Errorf("got %+v", o)
	}
	if agent.Of(clustered(t, "", "--register-node=false")).Cluster.Register {
		t.Error("it makes its object")
	}
	cloud := ownOf(clustered(t, "enableControllerAttachDetach: false\nproviderID: c://1\n",
		"--cloud-provider=external", "--node-ip=192.0.2.1", "--node-labels=a=b", "--register-with-taints=k=v:NoSchedule"), m, "n1")
	if !cloud.Cloud || cloud.ProviderID != "c://1" || cloud.Labels["a"] != "b" || len(cloud.Taints) != 2 || cloud.Taints[1].Key != cloudTaint ||
		cloud.Annotations[nodeobject.ProvidedIP] != "192.0.2.1" || cloud.Annotations[nodeobject.AttachesVolumes] != "" {
		t.Errorf("got %+v", cloud)
	}
}

// TestLabelsOfFlags: --node-labels replaces defaults, but for what programs can run on. Pods without an apiserver are
// matched with the same.
func TestLabelsOfFlags(t *testing.T) {
	c := clustered(t, "", "--node-labels=kubernetes.io/hostname=old,beta.kubernetes.io/arch=x,kubernetes.io/os=x,topology.kubernetes.io/zone=")
	for key, want := range map[string]string{
		v1.LabelHostname: "old", "beta.kubernetes.io/arch": "x", v1.LabelOSStable: "linux", "beta.kubernetes.io/os": "linux",
	} {
		if own, alone := ownOf(c, &machine{}, "n1").Labels[key], (machine{}).labels(c, "n1")[key]; own != want || alone != want {
			t.Errorf("%s: %q and %q, want %q", key, own, alone, want)
		}
	}
	if zone, has := ownOf(c, &machine{}, "n1").Labels[v1.LabelTopologyZone]; zone != "" || !has {
		t.Errorf("a zone to be removed: %q, %v", zone, has)
	}
}

// TestProvidedNodeIP: a cloud is told the addresses of --node-ip that are addresses of a node.
func TestProvidedNodeIP(t *testing.T) {
	for flag, want := range map[string]string{
		"192.0.2.1,fd00::1": "192.0.2.1,fd00::1", "::": "", "x": "", "x,192.0.2.1": "192.0.2.1", "": "",
	} {
		own := ownOf(clustered(t, "", "--cloud-provider=external", "--node-ip="+flag), &machine{}, "n1")
		if got, has := own.Annotations[nodeobject.ProvidedIP]; got != want || has != (want != "") {
			t.Errorf("%q: %q, want %q", flag, got, want)
		}
	}
}

func TestCredential(t *testing.T) {
	if c, err := credential(configOf(t, "")); c != nil || err != nil {
		t.Errorf("standalone: %v, %v", c, err)
	}
	first := filepath.Join(t.TempDir(), "first")
	must.Fatal(t, clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{"c": {Server: "https://192.0.2.1"}}, CurrentContext: "x",
		AuthInfos: map[string]*api.AuthInfo{"u": {Token: "t"}}, Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
	}, first))
	dir := t.TempDir()
	asks := clustered(t, "", "--root-dir", dir, "--kubeconfig", "/not/there", "--bootstrap-kubeconfig", first)
	if c, err := credential(asks); c != nil || err != nil {
		t.Errorf("one that has yet to ask for a certificate: %v, %v", c, err)
	}
	hosttest.Write(t, clientStore(asks).Current(), "half")
	must.Says(t, must.Err(credential(asks)), "remove it to request a new certificate", "one that is damaged")
	if _, err := credential(clustered(t, "", "--kubeconfig", "/not/there")); err == nil || !strings.Contains(err.Error(), "/not/there") {
		t.Errorf("got %v", err)
	}
}

func TestNearest(t *testing.T) {
	dir := t.TempDir()
	if got := nearest(filepath.Join(dir, "a/b")); got != dir {
		t.Errorf("got %s", got)
	}
	if got := nearest(dir); got != dir {
		t.Errorf("got %s", got)
	}
}

// TestEventQPS: 0 is no limit, as the documentation of eventRecordQPS says.
func TestEventQPS(t *testing.T) {
	for configured, want := range map[int32]float32{0: -1, 1: 1, 50: 50} {
		if got := eventQPS(configured); got != want {
			t.Errorf("eventRecordQPS %d: got %v, want %v", configured, got, want)
		}
	}
}

// TestLocalStorageNotIsolated: without localStorageCapacityIsolation, the node has no ephemeral-storage to give out.
func TestLocalStorageNotIsolated(t *testing.T) {
	for text, want := range map[string]bool{
		"localStorageCapacityIsolation: false": false,
		"localStorageCapacityIsolation: true":  true,
		"maxPods: 10":                          true,
	} {
		m := machine{cpus: 1}
		must.Fatal(t, m.count(configOf(t, text), "n"))
		_, capacity := m.capacity[v1.ResourceEphemeralStorage]
		_, allocatable := m.allocatable[v1.ResourceEphemeralStorage]
		if capacity != want || allocatable != want {
			t.Errorf("%s: in capacity %v, in allocatable %v, want %v", text, capacity, allocatable, want)
		}
	}
}
