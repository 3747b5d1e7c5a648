package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestKubeadm has kubeadm set up a node with troupe where it looks for the kubelet: join, upgrade, reset. The machine of
// kubeadm is a mount namespace with directories of the test's own as /etc/kubernetes and /var/lib/kubelet, and a systemctl
// that starts and stops what kubeadm's unit file does.
//
//tier:real
func TestKubeadm(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.Unshare)
	repository := check.Value(lab.Repository())(t)
	program := check.Value(lab.BuildKubernetes(t.Context(), repository, "kubeadm", os.Stderr))(t)
	b := newBed(t, "kubeadm")
	k := joining(t, b)
	admin := check.Value(b.plane.Kubeconfig("kubeadm:cluster-admins", "system:masters"))(t)
	k.inside(t, program, "init", "phase", "upload-config", "all", "--config", k.file("cluster.yaml"), "--kubeconfig", admin)
	k.inside(t, program, "init", "phase", "bootstrap-token", "--config", k.file("cluster.yaml"), "--kubeconfig", admin)
	if err := os.RemoveAll(k.file("etc/pki")); err != nil { // join brings its own
		t.Fatal(err)
	}
	said := k.inside(t, program, "join", "--config", k.file("join.yaml"))
	check.Has(t, said, "This node has joined the cluster", "kubeadm join")
	n := b.awaitNode(t, "is ready for pods", usable)
	if n.Labels["test"] != b.name || !strings.HasPrefix(n.Status.NodeInfo.KubeletVersion, "v1.36.") {
		t.Errorf("labels %v, version %s", n.Labels, n.Status.NodeInfo.KubeletVersion)
	}
	b.create(t, b.pod("web", nil))
	web := b.awaitPod(t, "web", "is ready", ready)

	k.inside(t, program, "upgrade", "node", "phase", "kubelet-config")
	k.systemctl(t, "restart")
	b.awaitNode(t, "is ready after the restart", usable)
	if p := b.awaitPod(t, "web", "is ready", ready); p.Status.ContainerStatuses[0].ContainerID != web.Status.ContainerStatuses[0].ContainerID {
		t.Error("the upgrade restarted a container")
	}
	b.remove(t, "web")
	b.awaitGone(t, "web")
	b.create(t, b.pod("left", nil))
	b.awaitPod(t, "left", "is ready", ready)
	// The phase that is left out empties /var/lib/etcd, which is no directory of the test's own.
	k.inside(t, program, "reset", "--force", "--cri-socket", b.lab.Endpoint(), "--skip-phases", "remove-etcd-member")
	check.Fails(t, check.Err(os.Stat(k.file("kubelet.pid"))), "kubeadm reset has not stopped the agent")
	for _, dir := range []string{k.file("etc/manifests"), k.file("var")} {
		if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
			t.Errorf("kubeadm reset has left %v in %s", left, dir)
		}
	}
	none := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	check.Error(t, b.admin.CoreV1().Pods(b.name).Delete(t.Context(), "left", none))
}

// kubeadm is one machine that kubeadm sets up.
type kubeadm struct {
	dir string
	// enter is the command that runs another on the machine; empty if this process is there.
	enter []string
}

// newKubeadm puts the agent where kubeadm looks for the kubelet, and something that starts it where it looks for systemd.
func newKubeadm(t *testing.T, dir string) *kubeadm {
	t.Helper()
	k := &kubeadm{dir: dir}
	binary := check.Value(shared.Troupe())(t)
	check.Fatal(t, os.MkdirAll(k.file("bin"), 0o755))
	check.Fatal(t, os.Symlink(binary, k.file("bin/kubelet")))
	k.write(t, "bin/systemctl", fmt.Sprintf(systemctl, dir), 0o755)
	t.Cleanup(func() {
		if _, err := os.Stat(k.file("kubelet.pid")); err == nil {
			k.systemctl(t, "stop")
		}
		if t.Failed() {
			log, err := os.ReadFile(k.file("kubelet.log"))
			t.Logf("the agent's log: %s %v", log[max(0, len(log)-12000):], err)
		}
	})
	return k
}

// joining makes a machine in a mount namespace of each command, whose pods the bed's runtime runs.
func joining(t *testing.T, b *bed) *kubeadm {
	t.Helper()
	dir := check.Value(os.MkdirTemp(shared.Dir, ""))(t)
	k := newKubeadm(t, dir)
	k.enter = []string{"unshare", "--mount", "--propagation", "unchanged", "sh", "-c", onMachine, "sh", dir}
	for _, sub := range []string{k.file("etc/pki"), k.file("var"), "/etc/kubernetes", "/var/lib/kubelet"} {
		check.Fatal(t, os.MkdirAll(sub, 0o755))
	}
	for _, name := range []string{"ca.crt", "ca.key"} { // kubeadm init wants the key too
		k.write(t, "etc/pki/"+name, string(content(t, filepath.Join(filepath.Dir(b.plane.CAFile()), name))), 0o600)
	}
	ports := make([]int, 2)
	for i := range ports {
		ports[i] = check.Value(lab.FreePort())(t)
	}
	settings := fmt.Sprintf("cgroupDriver: cgroupfs\ncgroupRoot: %s\npodLogsDir: %s\nhealthzPort: %d\nport: %d\n",
		b.lab.CgroupRoot(), k.file("logs"), ports[0], ports[1])
	k.write(t, "cluster.yaml", lab.KubeadmCluster(b.plane.Address(), settings), 0o644)
	k.write(t, "discovery.yaml", lab.KubeadmDiscovery(b.plane.URL(), b.plane.CAFile()), 0o644)
	k.write(t, "join.yaml", lab.KubeadmJoin(k.file("discovery.yaml"), b.name, b.lab.Endpoint(), "root-dir="+k.file("root"),
		"container-log-links-dir="+k.file("links"), "node-ip=127.0.0.1", "node-labels=test="+b.name), 0o644)
	return k
}

func (k *kubeadm) file(name string) string { return filepath.Join(k.dir, name) }

func (k *kubeadm) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	check.Fatal(t, os.WriteFile(k.file(name), []byte(text), mode))
}

func (k *kubeadm) systemctl(t *testing.T, what string) {
	t.Helper()
	k.inside(t, k.file("bin/systemctl"), what, "kubelet")
}

// onMachine makes the machine in a new mount namespace and runs a program there. All else that is mounted is as it was.
const onMachine = `for dir in etc/kubernetes var/lib/kubelet; do
	mount --make-private "$(findmnt -n -o TARGET -T /$dir)" && mount --bind "$1/${dir%%/*}" "/$dir" || exit
done
shift
exec "$@"`

// inside runs a program on the machine, and gives what it said.
func (k *kubeadm) inside(t *testing.T, command ...string) string {
	t.Helper()
	command = append(slices.Clone(k.enter), command...)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PATH="+k.file("bin")+":"+os.Getenv("PATH"))
	cmd.WaitDelay = time.Second // the agent keeps what it inherits
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// systemctl does with the agent what systemd does with kubeadm's unit: start, stop and restart.
const systemctl = `#!/bin/sh
cd %s || exit
stop() {
	[ -f kubelet.pid ] || return 0
	kill "$(cat kubelet.pid)"
	while [ -d "/proc/$(cat kubelet.pid)" ]; do sleep 0.05; done
	rm kubelet.pid
}
start() {
	. /var/lib/kubelet/kubeadm-flags.env
	setsid kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
		--config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS </dev/null >>kubelet.log 2>&1 &
	echo $! >kubelet.pid
}
case $1 in
start) stop; start ;;
restart) stop; start ;;
stop) stop ;;
is-active) [ -f kubelet.pid ] ;;
esac
`
