package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	oci "github.com/google/go-containerregistry/pkg/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// ownMachine says to a process of the test that it is on the machine that the test has made.
const ownMachine = "TROUPE_E2E_OWN_MACHINE"

// makeMachine runs a program with mounts and a network of its own, where kubeadm may do as it likes: its directories are
// empty, its ports are free, and there is one address.
const makeMachine = `set -e
for dir in etc/kubernetes var/lib/kubelet var/lib/etcd var/log; do
	mkdir -p "/$dir" "$1/$dir"
	mount --bind "$1/$dir" "/$dir"
done
mount --make-rshared /
ip link set lo up
ip link add kubeadm0 type bridge
ip address add ` + machineAddress + `/24 dev kubeadm0
ip link set kubeadm0 up
ip route add default dev kubeadm0
shift
exec "$@"`

const machineAddress = "198.51.100.10"

// TestKubeadmInit has kubeadm make a cluster's first node with troupe where it looks for the kubelet: etcd, the apiserver
// and the controllers are static pods. It then changes one of them, renews what the node shows its apiserver, and
// takes all away.
//
//tier:all builds kubeadm, and Kubeadm has the agent's side
func TestKubeadmInit(t *testing.T) {
	if os.Getenv(ownMachine) != "" {
		testKubeadmInit(t)
		return
	}
	t.Parallel()
	lab.Need(t, append(lab.Containerd2.Needs(), lab.GoToolchain, lab.Unshare)...)
	// On the machine that is made there is no network to download modules from.
	check.Value(initPrograms(t.Context()))(t)
	dir := check.Value(os.MkdirTemp(shared.Dir, ""))(t)
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "--net", "sh", "-c", makeMachine, "sh", dir,
		os.Args[0], "-test.run", "^TestKubeadmInit$", "-test.v", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), ownMachine+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// initPrograms builds kubeadm, the programs of the control plane, and the containerd that runs them, unless they are there.
// It returns the paths of all but the last.
func initPrograms(ctx context.Context) (programs map[string]string, err error) {
	defer check.Return(&err)
	repository := check.Must(lab.Repository())
	check.Must(lab.BuildContainerd(ctx, repository, os.Stderr))
	programs = map[string]string{}
	programs["etcd"] = check.Must(lab.BuildEtcd(ctx, repository, os.Stderr))
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubeadm"} {
		programs[program] = check.Must(lab.BuildKubernetes(ctx, repository, program, os.Stderr))
	}
	return programs, nil
}

func testKubeadmInit(t *testing.T) {
	ctx := t.Context()
	registry := check.Value(shared.Registry())(t)
	programs := check.Value(initPrograms(ctx))(t)
	kubeadm := programs["kubeadm"]
	delete(programs, "kubeadm")
	wanted := check.Value(
		exec.Command(kubeadm, "config", "images", "list", "--image-repository", "troupe.local/k8s", "--kubernetes-version", lab.KubeadmVersion).Output())(t)
	for _, ref := range strings.Fields(string(wanted)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(ref, "troupe.local/k8s/"), ":")
		if program, ok := programs[name]; ok {
			check.Fatal(t, registry.Push(ctx, ref, staticImage(t, program)))
		}
	}
	l := check.Value(
		lab.New(ctx, lab.Config{Dir: filepath.Join(shared.Dir, "c"), Release: lab.Containerd2, Registry: registry, Log: t.Output()}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check.Error(t, l.Cleanup(ctx))
	})
	check.Fatal(t, l.Start(ctx))
	k := newKubeadm(t, shared.Dir)
	k.write(t, "init.yaml", fmt.Sprintf(initYAML, machineAddress, l.Endpoint(), l.CgroupRoot())+lab.RoomForAll, 0o644)
	k.inside(t, kubeadm, "init", "--config", k.file("init.yaml"), "--skip-phases", "addon,preflight")
	config := check.Value(clientcmd.BuildConfigFromFlags("", "/etc/kubernetes/admin.conf"))(t)
	admin := check.Value(kubernetes.NewForConfig(config))(t)
	running := func() (map[string]*v1.Pod, error) {
		pods := map[string]*v1.Pod{}
		list, err := admin.CoreV1().Pods(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if p := &list.Items[i]; ready(p) == nil {
				pods[strings.TrimSuffix(p.Name, "-first")] = p
			}
		}
		if len(pods) != len(programs) {
			return nil, fmt.Errorf("ready are %d of %d pods", len(pods), len(programs))
		}
		return pods, nil
	}
	await := func(what string, condition func() error) {
		t.Helper()
		check.Fatal(t, lab.Eventually(t.Context(), patience, what, condition))
	}
	var before map[string]*v1.Pod
	await("the control plane is ready", func() (err error) {
		before, err = running()
		return err
	})
	// kubeadm's kubeconfig has a certificate for a year in it, until the node has taken it into its store.
	if text, err := os.ReadFile("/etc/kubernetes/kubelet.conf"); err != nil || !strings.Contains(string(text), "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem") {
		t.Errorf("the node's certificate is never renewed: %s %v", text, err)
	}
	n, err := admin.CoreV1().Nodes().Get(ctx, "first", metav1.GetOptions{})
	if err != nil || condition(n, v1.NodeReady).Status != v1.ConditionTrue {
		t.Errorf("the node: %+v %v", n, err)
	}

	// As kubeadm upgrade does: the manifest is replaced, and the hash of the mirror pod says when that is done.
	const manifest = "/etc/kubernetes/manifests/kube-scheduler.yaml"
	const beside = "/etc/kubernetes/new.yaml"
	changed := strings.Replace(string(content(t, manifest)), "- kube-scheduler\n", "- kube-scheduler\n    - --v=3\n", 1)
	check.Fatal(t, errors.Join(os.WriteFile(beside, []byte(changed), 0o600), os.Rename(beside, manifest)))
	const hash = "kubernetes.io/config.hash"
	await("the scheduler has changed, and nothing else", func() error {
		after := check.Must(running())
		for name, p := range after { // order-free: each is looked at
			if (p.Annotations[hash] != before[name].Annotations[hash]) != (name == "kube-scheduler") {
				return fmt.Errorf("the hash of %s is %s and was %s", name, p.Annotations[hash], before[name].Annotations[hash])
			}
			if name != "kube-scheduler" && p.Status.ContainerStatuses[0].RestartCount > 0 {
				t.Errorf("%s has restarted", name)
			}
		}
		return nil
	})
	k.inside(t, kubeadm, "reset", "--force", "--cri-socket", l.Endpoint())
	for _, dir := range []string{"/etc/kubernetes/manifests", "/var/lib/kubelet", "/var/lib/etcd"} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("kubeadm reset has left %v in %s: %v", left, dir, err)
		}
	}
}

// staticImage is an image of a program that needs no libraries.
func staticImage(t *testing.T, program string) oci.Image {
	t.Helper()
	file := lab.File{Path: "bin/" + filepath.Base(program), Mode: 0o755, Data: content(t, program)}
	i := check.Value(lab.NewPlainImage(oci.Config{Env: []string{"PATH=/bin"}}, file))(t)
	return i
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	data := check.Value(os.ReadFile(path))(t)
	return data
}

const initYAML = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %s}
nodeRegistration: {name: first, criSocket: "%s"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: ` + lab.KubeadmVersion + `
imageRepository: troupe.local/k8s
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: %s
`
