package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

const patience = 3 * time.Minute

// debianPackages are what the image is made of besides the program.
var debianPackages = lab.NewRequirement("Debian's packages, by apt-get", func() error {
	state, err := os.MkdirTemp("", "apt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	if err := os.MkdirAll(filepath.Join(state, "lists/partial"), 0o755); err != nil {
		return err
	}
	out, err := exec.Command("apt-get", "-o", "Dir::State="+state, "-o", "APT::Sandbox::User=root", "-o", "APT::Update::Error-Mode=any",
		"-qq", "update").CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get update: %w: %s", err, out)
	}
	return nil
})

// TestImage runs the agent from its image, as Talos and Typhoon run the kubelet: containerd has a container of its own for
// it beside those of pods, privileged, with the host's processes and network, and with a mount namespace of its own, in
// which the root directory is shared with the host. Pods have what the agent mounts there, and all goes with them.
//
//tier:all makes an image, of packages that apt-get downloads
func TestImage(t *testing.T) {
	lab.Need(t, append(lab.Containerd2.Needs(), lab.Ctr, debianPackages)...)
	repository := check.Value(lab.Repository())(t)
	made := check.Value(Make(t.Context(), repository, filepath.Join(t.TempDir(), "release"), "programs,sbom,images"))(t)
	check.AtMost(t, check.Value(os.Stat(made.Image()))(t).Size(), largestImage, "bytes of the image")
	b := newContained(t, made)
	b.start(t)
	for _, program := range []string{"mount -V", "mount.nfs -V", "mkfs.ext4 -V", "mkfs.xfs -V", "iptables --version", "kubelet --version"} {
		b.ctr(t, append([]string{"tasks", "exec", "--exec-id", strings.Fields(program)[0], contained}, strings.Fields(program)...)...)
	}
	check.Fatal(t, os.MkdirAll(filepath.Join(b.dir, "files"), 0o755))
	check.Fatal(t, b.Write("local.yaml", strings.ReplaceAll(localPod, "$FILES", filepath.Join(b.dir, "files"))))
	b.createMember(t)
	b.awaitSeen(t)
	before := b.running(t)

	// Another container of the agent, which finds what the first has mounted.
	b.stop(t)
	check.Equal(t, strings.Join(b.running(t), " "), strings.Join(before, " "), "containers and sandboxes without an agent")
	b.start(t)
	b.awaitSeen(t)
	check.Equal(t, strings.Join(b.running(t), " "), strings.Join(before, " "), "containers and sandboxes of the second agent")

	check.Fatal(t, b.Remove("local.yaml"))
	check.Fatal(t, b.api.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), "member", metav1.DeleteOptions{}))
	b.await(t, "the pods are gone", func() error {
		world := check.Must(node.Look(t.Context(), b.lab))
		dirs := check.Must(os.ReadDir(filepath.Join(b.Root(), "pods")))
		return errors.Join(world.Empty(), check.That(len(dirs) == 0, "left: %v", dirs))
	})
	b.stop(t) // else the agent's own container would count
	left := node.Leftovers(b.Daemon, b.lab)
	check.None(t, left, "left behind")
}

// localPod has volumes of each kind that needs no server. Its container and the host must see the same.
var localPod = node.Manifest("local", 1, `
  hostname: local
  containers:
  - name: main
    image: `+lab.WorkImage+`
    args: [write, /disk/part/file, on the disk, then, write, /memory/file, in memory, then, write, /host/file, of the host, then, sleep]
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]
    volumeMounts:
    - {name: disk, mountPath: /disk}
    - {name: disk, mountPath: /part, subPath: part}
    - {name: disk, mountPath: /named, subPathExpr: of-$(POD)}
    - {name: memory, mountPath: /memory}
    - {name: host, mountPath: /host}
    - {name: about, mountPath: /about}
    - {name: all, mountPath: /all}
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 8Mi}}
  - {name: host, hostPath: {path: $FILES}}
  - {name: about, downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}}
  - {name: all, projected: {sources: [{downwardAPI: {items: [{path: deep/namespace, fieldRef: {fieldPath: metadata.namespace}}]}}]}}`)

// createMember makes a pod of the cluster with volumes of each kind that comes from an apiserver.
func (b *agentContainer) createMember(t *testing.T) {
	t.Helper()
	core := b.api.CoreV1()
	const namespace = metav1.NamespaceDefault
	meta := metav1.ObjectMeta{Name: "app"}
	data := map[string]string{"key": "of the cluster"}
	check.Value(core.ConfigMaps(namespace).Create(t.Context(), &v1.ConfigMap{ObjectMeta: meta, Data: data}, metav1.CreateOptions{}))(t)
	check.Value(core.Secrets(namespace).Create(t.Context(), &v1.Secret{ObjectMeta: meta, StringData: data}, metav1.CreateOptions{}))(t)
	app := v1.LocalObjectReference{Name: "app"}
	volumes := map[string]v1.VolumeSource{
		"config": {ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: app}},
		"secret": {Secret: &v1.SecretVolumeSource{SecretName: "app"}},
		"all": {Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: app}},
		}}},
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "member"}, Spec: v1.PodSpec{
		NodeName: node.NodeName, TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []v1.Container{{Name: "main", Image: lab.WorkImage, Args: []string{"sleep"}, VolumeMounts: []v1.VolumeMount{
			{Name: "config", MountPath: "/one/key", SubPath: "key"},
		}}},
	}}
	for name, source := range volumes { // order-free: each is mounted at a place of its own
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	b.await(t, "the cluster takes the pod", func() error { // its service account comes a moment after the cluster
		_, err := core.Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	})
}

// seen is what the containers of the pods have in their files. Empty is for anything.
var seen = map[string]map[string]string{
	"local": {
		"/disk/part/file": "on the disk\n", "/part/file": "on the disk\n", "/memory/file": "in memory\n",
		"/host/file": "of the host\n", "/about/namespace": metav1.NamespaceDefault, "/all/deep/namespace": metav1.NamespaceDefault,
	},
	"member": {
		"/config/key": "of the cluster", "/one/key": "of the cluster", "/secret/key": "of the cluster", "/all/key": "of the cluster",
		"/all/token": "", "/var/run/secrets/kubernetes.io/serviceaccount/token": "",
	},
}

// mounted are mounts of the containers that are file systems in memory, made by the agent.
var mounted = map[string][]string{
	"local":  {"/memory", "/about", "/all"},
	"member": {"/secret", "/all", "/var/run/secrets/kubernetes.io/serviceaccount"},
}

// awaitSeen waits until the containers have all of it.
func (b *agentContainer) awaitSeen(t *testing.T) {
	t.Helper()
	for pod, files := range seen {
		b.await(t, "pod "+pod+" has its volumes", func() error {
			view := check.Must(b.Pods(t.Context()))
			p, there := view.Pod(pod)
			check.OK(check.That(there, "the agent does not list it"))
			check.OK(p.Running())
			world := check.Must(node.Look(t.Context(), b.lab))
			containers := world.Of(pod).Running()
			check.OK(check.That(len(containers) == 1, "%d containers run", len(containers)))
			pid := check.Must(node.ContainerPID(t.Context(), b.lab, containers[0].Id))
			var err error
			for file, want := range files {
				text, failed := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", pid, file))
				err = errors.Join(err, failed, check.That(want == "" && len(text) > 0 || string(text) == want, "%s has %q; want %q", file, text, want))
			}
			table := check.Must(os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid)))
			for _, at := range mounted[pod] {
				err = errors.Join(err, check.That(strings.Contains(string(table), " "+at+" tmpfs "), "%s is no tmpfs: %s", at, table))
			}
			return err
		})
	}
	text := check.Value(os.ReadFile(filepath.Join(b.dir, "files/file")))(t)
	check.Equal(t, string(text), "of the host\n", "the file on the host")
}

// contained is the container of the agent, in a namespace of containerd beside that of pods.
const (
	contained     = "kubelet"
	containedSpot = "system"
)

// agentContainer is an agent that containerd runs, the files it works on, and a cluster that it is a node of.
type agentContainer struct {
	*node.Agent
	dir, image, kubeconfig string
	// run is a directory of /run with the runtime's socket, as that of containerd is in.
	run string
	lab *lab.Lab
	api kubernetes.Interface
}

func newContained(t *testing.T, made Made) *agentContainer {
	t.Helper()
	plane := lab.ForControlPlaneTest(t, lab.ControlPlaneConfig{ControllerManager: true})
	kubeconfig := check.Value(plane.Kubeconfig("system:node:"+node.NodeName, "system:nodes"))(t)
	l := lab.ForTest(t, lab.Containerd2)
	dir := check.Value(os.MkdirTemp("", "image-"))(t) // a short path, for sockets
	b := &agentContainer{dir: dir, lab: l, kubeconfig: kubeconfig, image: "ghcr.io/troupe-dev/kubelet:v" + made.Version}
	b.api = check.Value(kubernetes.NewForConfig(plane.AdminConfig()))(t)
	b.run = check.Value(os.MkdirTemp("/run", "troupe-image-"))(t)
	t.Cleanup(func() { check.Error(t, os.RemoveAll(b.run)) })
	socket := filepath.Join(b.run, "containerd.sock")
	check.Fatal(t, os.Symlink(l.SocketPath(), socket))
	b.Agent = check.Value(node.New(node.Config{
		Binary: "/usr/local/bin/kubelet", Dir: filepath.Join(dir, "n"), Endpoint: "unix://" + socket, CgroupRoot: l.CgroupRoot(),
		Flags: []string{"--kubeconfig", kubeconfig, "--node-ip", "127.0.0.1"},
	}))(t)
	for _, d := range []string{b.Logs(), b.Links()} {
		check.Fatal(t, os.MkdirAll(d, 0o755))
	}
	// As the file system with /var/lib/kubelet is on a machine with systemd, and on Talos.
	check.Value(mounts.Share(b.Root()))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the agent's log:\n%s", b.LogTail(8000))
		}
		b.end(t)
		check.Error(t, b.Discard())
		check.Error(t, os.RemoveAll(dir))
	})
	b.ctr(t, "images", "import", "--snapshotter", l.Snapshotter(), made.Image())
	return b
}

// start makes a container and waits until the agent in it has seen all pods.
func (b *agentContainer) start(t *testing.T) {
	t.Helper()
	args := []string{
		"run", "--detach", "--privileged", "--net-host", "--with-ns", "pid:/proc/self/ns/pid", "--rootfs-propagation", "rshared",
		"--snapshotter", b.lab.Snapshotter(), "--runc-root", filepath.Join(b.dir, "runc"), "--log-uri", "file://" + b.LogFile(),
	}
	same := func(path, options string) [3]string { return [3]string{path, path, options} }
	for _, m := range [][3]string{ // from, to, options
		same("/dev", "rbind:rshared:rw"), same("/sys", "rbind:rshared:rw"), same("/lib/modules", "rbind:ro"),
		same("/etc/os-release", "bind:ro"), same("/etc/machine-id", "bind:ro"),
		{"/run", "/var/run", "rbind:rw"}, // as Talos has it; others have it at /run
		// In the place of /var/lib/kubelet, of /var/log, of /etc/kubernetes and of /run/containerd.
		same(b.Root(), "rbind:rshared:rw"),
		same(b.Logs(), "rbind:rw"), same(b.Links(), "rbind:rw"),
		same(b.Manifests(), "rbind:ro"), same(b.ConfigFile(), "bind:ro"), same(b.kubeconfig, "bind:ro"),
		same(filepath.Dir(b.lab.SocketPath()), "bind:rw"),
	} {
		if _, err := os.Stat(m[0]); err == nil { // a machine that loads no modules may have none
			args = append(args, "--mount", fmt.Sprintf("type=bind,src=%s,dst=%s,options=%s", m[0], m[1], m[2]))
		}
	}
	args = append(args, b.image, contained, "/usr/local/bin/kubelet")
	b.ctr(t, append(args, b.Args()[1:]...)...) // with the name kubelet it needs no "node"
	b.await(t, "the agent is ready", func() error {
		view := check.Must(b.Pods(t.Context()))
		return check.That(view.Ready, "it waits for %v", view.WaitingFor)
	})
}

// stop has the agent end, and removes its container.
func (b *agentContainer) stop(t *testing.T) {
	t.Helper()
	b.ctr(t, "tasks", "kill", "--signal", "SIGTERM", contained)
	b.await(t, "the agent has ended", func() error {
		said := b.ctr(t, "tasks", "list")
		return check.That(strings.Contains(said, "STOPPED"), "tasks: %s", said)
	})
	b.end(t)
}

// end removes the container in any state. It is no error if there is none.
func (b *agentContainer) end(t *testing.T) {
	t.Helper()
	if !strings.Contains(b.ctr(t, "containers", "list", "--quiet"), contained) {
		return
	}
	if strings.Contains(b.ctr(t, "tasks", "list", "--quiet"), contained) {
		b.ctr(t, "tasks", "delete", "--force", contained)
	}
	b.ctr(t, "containers", "delete", contained)
}

// running are the containers and sandboxes of pods that run, as the runtime says.
func (b *agentContainer) running(t *testing.T) (ids []string) {
	t.Helper()
	world := check.Value(node.Look(t.Context(), b.lab))(t)
	for _, c := range world.Running() {
		ids = append(ids, c.Id)
	}
	for _, s := range world.Ready() {
		ids = append(ids, s.Id)
	}
	slices.Sort(ids)
	return ids
}

func (b *agentContainer) await(t *testing.T, what string, condition func() error) {
	t.Helper()
	check.Fatal(t, lab.Eventually(t.Context(), patience, what, condition))
}

// ctr asks containerd past the CRI, in the namespace of the agent's container.
func (b *agentContainer) ctr(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // a cleanup's too
	defer cancel()
	out, err := exec.CommandContext(ctx, "ctr", append([]string{"--address", b.lab.SocketPath(), "--namespace", containedSpot}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ctr %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
