package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// TestRegister is a node that joins: everything that kubectl describe node shows is there.
//
//tier:real
func TestRegister(t *testing.T) {
	t.Parallel()
	for _, release := range lab.TestedReleases() {
		t.Run("containerd-"+string(release), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "register-"+string(release[0]), func(s *setup) {
				s.release = release
				s.agent.Flags = []string{"--register-with-taints", "dedicated=x:PreferNoSchedule", "--provider-id", "cloud://7"}
				s.agent.Settings = "systemReserved: {cpu: 100m}\n"
			})
			b.start(t)
			n := b.awaitNode(t, "is ready for pods", usable)
			testRegistered(t, b, n)
		})
	}
}

func testRegistered(t *testing.T, b *bed, n *v1.Node) {
	for key, want := range map[string]string{v1.LabelHostname: b.name, v1.LabelOSStable: "linux", "test": b.name} {
		check.Equal(t, n.Labels[key], want, "label %s", key)
	}
	if n.Spec.ProviderID != "cloud://7" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("spec %+v", n.Spec)
	}
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		if c := condition(n, kind); c.Status != v1.ConditionFalse || c.Reason == "" {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage} {
		if q, ok := n.Status.Allocatable[name]; !ok || q.Sign() <= 0 {
			t.Errorf("allocatable %s is %v", name, q.String())
		}
	}
	all, free := n.Status.Capacity[v1.ResourceCPU], n.Status.Allocatable[v1.ResourceCPU]
	if all.MilliValue()-free.MilliValue() != 100 {
		t.Errorf("of %s CPUs %s are allocatable", all.String(), free.String())
	}
	if a := n.Status.Addresses; len(a) != 2 || a[0].Address != "127.0.0.1" || a[1].Address != b.name {
		t.Errorf("addresses %v", a)
	}
	info := n.Status.NodeInfo
	if v, err := version.ParseSemantic(info.KubeletVersion); err != nil || v.Minor() != 36 {
		t.Errorf("version %q: %v", info.KubeletVersion, err)
	}
	if info.KernelVersion == "" || info.BootID == "" || info.Architecture == "" || !strings.HasPrefix(info.ContainerRuntimeVersion, "containerd://") {
		t.Errorf("info %+v", info)
	}
	b.await(t, "the lease is held", func() error {
		l := check.Must(b.admin.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(t.Context(), b.name, metav1.GetOptions{}))
		if *l.Spec.HolderIdentity != b.name || *l.Spec.LeaseDurationSeconds != 40 || time.Since(l.Spec.RenewTime.Time) > 20*time.Second {
			return fmt.Errorf("lease %+v", l.Spec)
		}
		return nil
	})
}

// TestRunPod is the first thing a user tries: kubectl run, and kubectl delete.
//
//tier:served
func TestRunPod(t *testing.T) {
	t.Parallel()
	b := started(t, "run-pod", onServed)
	b.create(t, b.pod("web", nil))
	p := b.awaitPod(t, "web", "is ready", ready)
	if p.Status.HostIP != "127.0.0.1" || p.Status.PodIP == "" || p.Status.QOSClass != v1.PodQOSBestEffort || p.Status.StartTime == nil {
		t.Errorf("status %+v", p.Status)
	}
	check.Equal(t, shown(p), "1/1 Running 0", "shown as")
	b.await(t, "its events are there", func() error {
		list, err := b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID)})
		if err != nil {
			return err
		}
		reasons := map[string]bool{}
		for _, e := range list.Items {
			reasons[e.Reason] = true
		}
		for _, want := range []string{"Scheduled", "Pulling", "Pulled", "Created", "Started"} {
			if !reasons[want] {
				return fmt.Errorf("no %s among %v", want, reasons)
			}
		}
		return nil
	})
	b.remove(t, "web")
	b.awaitGone(t, "web")
}

// TestBadKubeconfig is a start that can come to nothing: one clear line, and nothing begun.
//
//tier:served
func TestBadKubeconfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"not there":  {"", "no such file"},
		"not YAML":   {"{", "kubeconfig"},
		"no context": {"apiVersion: v1\nkind: Config\n", "current-context"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := dir + "/kubeconfig"
			if c.text != "" {
				check.Fatal(t, os.WriteFile(file, []byte(c.text), 0o600))
			}
			binary, err := shared.Raced()
			if err != nil {
				t.Fatal(err)
			}
			a := check.Value(
				node.New(node.Config{Binary: binary, Dir: dir, Endpoint: "unix:///none.sock", Flags: []string{"--kubeconfig", file}}))(t)
			_, err = a.Command(t.Context(), a.Args()...)
			if err == nil {
				t.Fatal("it runs")
			}
			text := err.Error()
			if !strings.Contains(text, "exit status 1") || !strings.Contains(text, file) || !strings.Contains(text, c.want) {
				t.Errorf("got %s", text)
			}
			left, err := os.ReadDir(a.Root())
			if err != nil || len(left) > 0 {
				t.Errorf("in the root directory: %v, %v", left, err)
			}
		})
	}
}
