package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

const (
	unitName = "kubelet.service"
	// unitLog is where systemd puts what the unit prints: there is no journal in the machine.
	unitLog = "/run/kubelet.log"
	// configuration is the file that kubeadm writes and the operator changes.
	configuration = "/var/lib/kubelet/config.yaml"
	manifests     = "/etc/kubernetes/manifests"
	logindDropIns = "/etc/systemd/logind.conf.d"
	// operatorSettings are given by the operator, and seen in what the Node has.
	operatorSettings = "KUBELET_EXTRA_ARGS=--max-pods=77\n"
	wantedPods       = 77
)

// dropIns are the operator's own, which no package may take away.
var dropIns = map[string]string{
	"/etc/systemd/system/kubelet.service.d/90-log.conf": "[Service]\nStandardOutput=append:" + unitLog + "\nStandardError=inherit\n",
	logindDropIns + "/50-own.conf":                      "[Login]\nKillUserProcesses=no\n",
}

// installKubelet is what a machine is like before troupe comes.
func (h *host) installKubelet(ctx context.Context) (err error) {
	defer check.Return(&err)
	for name, text := range dropIns {
		check.OK(os.MkdirAll(filepath.Dir(name), 0o755))
		check.OK(os.WriteFile(name, []byte(text), 0o644))
	}
	check.Must(apt(ctx, "install", vm.KubeletDeb, vm.KubeadmDeb))
	check.OK(os.WriteFile(vm.KubeletSettings, []byte(operatorSettings), 0o644))
	check.Must(run(ctx, "systemctl", "enable", "--now", unitName))
	return await(ctx, "the unit of the package kubelet runs", func() error { return unitIs(ctx, "active", "enabled") })
}

func (h *host) install(ctx context.Context) (err error) {
	defer check.Return(&err)
	said := check.Must(apt(ctx, "install", vm.TroupeDeb))
	state := check.Must(run(ctx, "dpkg-query", "-W", "-f", "${db:Status-Abbrev}", "kubelet"))
	version := check.Must(run(ctx, "/usr/bin/kubelet", "--version"))
	return errors.Join(
		check.That(strings.TrimSpace(state) == "rc", "the package kubelet is %q; want its settings to be left: %s", state, said),
		check.That(strings.HasPrefix(version, "Kubernetes v1."), "kubelet --version prints %q", version),
		h.kept(), unitEnabled(ctx))
}

// waits: kubeadm has not yet written the configuration.
func (h *host) waits(ctx context.Context) error {
	return await(ctx, "the unit waits for its next try", func() error {
		u, err := theUnit(ctx)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(unitLog)
		return errors.Join(err,
			check.That(u.sub == "auto-restart" && u.restarts > 1, "it is %+v", u),
			check.That(strings.Contains(string(text), configuration), "it does not say that %s is missing: %s", configuration, text))
	})
}

func (h *host) join(ctx context.Context) (err error) {
	defer check.Return(&err)
	api := check.Must(h.cluster())
	config := check.Must(clientcmd.BuildConfigFromFlags("", vm.AdminKubeconfig))
	key := check.Must(os.ReadFile(vm.AuthorityKey))
	dir := filepath.Join(h.dir(), "kubeadm")
	file := func(name string) string { return filepath.Join(dir, name) }
	const pki = "/etc/kubernetes/pki"
	for _, d := range []string{dir, pki} {
		check.OK(os.MkdirAll(d, 0o755))
	}
	server, authority := strings.TrimPrefix(config.Host, "https://"), config.CAData
	for name, text := range map[string]string{
		pki + "/ca.crt": string(authority), pki + "/ca.key": string(key), file("ca.crt"): string(authority),
		file("cluster.yaml"):   lab.KubeadmCluster(server, clusterSettings),
		file("discovery.yaml"): lab.KubeadmDiscovery(config.Host, file("ca.crt")),
		file("join.yaml"): lab.KubeadmJoin(file("discovery.yaml"), node.NodeName, h.lab.Endpoint(),
			"node-ip="+vm.GuestAddress, "node-labels=by=kubeadm"),
	} {
		check.OK(os.WriteFile(name, []byte(text), 0o600))
	}
	for _, phase := range [][]string{{"upload-config", "all"}, {"bootstrap-token"}} {
		args := append(append([]string{"init", "phase"}, phase...), "--config", file("cluster.yaml"), "--kubeconfig", vm.AdminKubeconfig)
		check.Must(run(ctx, vm.KubeadmPath, args...))
	}
	check.OK(os.RemoveAll(pki)) // join brings its own
	said := check.Must(run(ctx, vm.KubeadmPath, "join", "--config", file("join.yaml")))
	check.OK(check.That(strings.Contains(said, "This node has joined the cluster"), "kubeadm join says %s", said))
	return await(ctx, "the node is ready", func() error {
		n, err := api.CoreV1().Nodes().Get(ctx, node.NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pods := n.Status.Capacity[v1.ResourcePods]
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return errors.Join(
					check.That(n.Labels["by"] == "kubeadm", "its labels are %v", n.Labels),
					check.That(pods.Value() == wantedPods, "it has room for %v pods; want the operator's %d", pods.Value(), wantedPods))
			}
		}
		return fmt.Errorf("it is not: %+v", n.Status.Conditions)
	})
}

// packaged are the pods that are there through all that is done with the package.
var packaged = []string{"fixed", "member"}

var fixedPod = node.Manifest("fixed", 1, `
  containers:
  - {name: main, image: `+lab.WorkImage+`, args: [sleep]}`)

func (h *host) packagePods(ctx context.Context) (err error) {
	defer check.Return(&err)
	check.OK(os.WriteFile(filepath.Join(manifests, "fixed.yaml"), []byte(fixedPod), 0o644))
	member := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "member"}, Spec: v1.PodSpec{
		NodeName: node.NodeName, TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []v1.Container{{Name: "main", Image: lab.WorkImage, Args: []string{"sleep"}}},
	}}
	check.OK(await(ctx, "the cluster takes a pod", func() error { // its service account comes a moment after the cluster
		_, err := h.api.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, member, metav1.CreateOptions{})
		return err
	}))
	check.OK(h.podsShown(ctx))
	h.containers, err = h.packagedIDs(ctx)
	return err
}

// podsShown waits until the cluster shows the pods as ready, without a restart.
func (h *host) podsShown(ctx context.Context) error {
	pods := h.api.CoreV1().Pods(metav1.NamespaceDefault)
	return await(ctx, "the pods are ready", func() error {
		for _, name := range []string{"fixed-" + node.NodeName, "member"} {
			p, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range p.Status.ContainerStatuses {
				if c.RestartCount > 0 {
					return fmt.Errorf("pod %s has restarted: %+v", name, c)
				}
			}
			if !slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
				return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
			}) {
				return fmt.Errorf("pod %s: %+v", name, p.Status)
			}
		}
		return nil
	})
}

// packagedIDs are the containers and sandboxes of the pods that run, as the runtime says.
func (h *host) packagedIDs(ctx context.Context) (ids []string, err error) {
	world, err := node.Look(ctx, h.lab)
	if err != nil {
		return nil, err
	}
	for _, name := range packaged {
		of := world.Of(name)
		for _, c := range of.Running() {
			ids = append(ids, c.Id)
		}
		for _, s := range of.Ready() {
			ids = append(ids, s.Id)
		}
	}
	slices.Sort(ids)
	return ids, check.That(len(ids) == 2*len(packaged), "running are %v: want a sandbox and a container of each of %v", ids, packaged)
}

// same is nil if the containers are those of the beginning.
func (h *host) same(ctx context.Context) error {
	ids, err := h.packagedIDs(ctx)
	return errors.Join(err, check.That(slices.Equal(ids, h.containers), "running are %v; were %v", ids, h.containers))
}

// servedAnew waits until another agent than that of a process serves the node, with the same containers.
func (h *host) servedAnew(ctx context.Context, old unit) error {
	err := await(ctx, "another agent runs", func() error {
		u, err := theUnit(ctx)
		return errors.Join(err, check.That(u.active == "active" && u.pid != old.pid && u.pid != 0, "the unit is %+v, and was %+v", u, old))
	})
	if err == nil {
		err = await(ctx, "it lists the pods", func() error {
			said, err := run(ctx, "/usr/bin/troupe", "pods")
			for _, name := range packaged {
				err = errors.Join(err, check.That(strings.Contains(said, name), "troupe pods does not show %s: %s", name, said))
			}
			return err
		})
	}
	return errors.Join(err, h.podsShown(ctx), h.same(ctx))
}

func (h *host) restartUnit(ctx context.Context) (err error) {
	defer check.Return(&err)
	old := check.Must(theUnit(ctx))
	check.Must(run(ctx, "systemctl", "restart", unitName))
	return h.servedAnew(ctx, old)
}

func (h *host) wrongSetting(ctx context.Context) (err error) {
	defer check.Return(&err)
	old := check.Must(theUnit(ctx))
	good := check.Must(os.ReadFile(configuration))
	log := len(check.Must(os.ReadFile(unitLog)))
	bad := append(slices.Clone(good), "registryPullQPS: -3\nregistryBurst: -4\n"...)
	check.OK(os.WriteFile(configuration, bad, 0o644))
	_, failed := run(ctx, "systemctl", "restart", unitName)
	said := string(check.Must(os.ReadFile(unitLog))[log:])
	wrong := errors.Join(
		check.That(failed != nil, "systemctl restart has not failed"),
		check.That(strings.Contains(said, "registryPullQPS") && strings.Contains(said, "registryBurst"), "the unit says %s", said),
		h.same(ctx))
	check.OK(os.WriteFile(configuration, good, 0o644))
	return errors.Join(wrong, h.servedAnew(ctx, old))
}

// ownCommand has an ExecStart without the variables of kubeadm's drop-in, which name a file that is not there.
func (h *host) ownCommand(ctx context.Context) (err error) {
	defer check.Return(&err)
	old := check.Must(theUnit(ctx))
	log := len(check.Must(os.ReadFile(unitLog)))
	args := strings.ReplaceAll(string(check.Must(os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", old.pid)))), "\x00", " ")
	const dropIn, missing = "/etc/systemd/system/kubelet.service.d/95-command.conf", "/etc/kubernetes/none.yaml"
	text := "[Service]\nEnvironment=KUBELET_CONFIG_ARGS=--config=" + missing + "\nExecStart=\nExecStart=" + args + "\n"
	check.OK(os.WriteFile(dropIn, []byte(text), 0o644))
	check.Must(run(ctx, "systemctl", "daemon-reload"))
	err = h.restartUnit(ctx)
	said := string(check.Must(os.ReadFile(unitLog))[log:])
	check.OK(os.Remove(dropIn))
	check.Must(run(ctx, "systemctl", "daemon-reload"))
	return errors.Join(err, check.That(strings.Contains(said, missing), "the unit says %s", said), h.restartUnit(ctx))
}

func (h *host) upgrade(ctx context.Context) (err error) {
	defer check.Return(&err)
	old := check.Must(theUnit(ctx))
	before := check.Must(packageVersion(ctx))
	said := check.Must(apt(ctx, "install", vm.NextDeb))
	after := check.Must(packageVersion(ctx))
	return errors.Join(
		check.That(before != after, "troupe is %s, and was %s: %s", after, before, said),
		check.That(!strings.Contains(said, "has stopped"), "an upgrade says that the agent has stopped: %s", said),
		unitEnabled(ctx), h.kept(), h.servedAnew(ctx, old))
}

func (h *host) back(ctx context.Context) (err error) {
	defer check.Return(&err)
	said := check.Must(apt(ctx, "install", vm.KubeletDeb))
	check.OK(check.That(strings.Contains(said, farewell), "the removal of troupe does not say that pods run on: %s", said))
	check.OK(await(ctx, "the kubelet's unit runs", func() error { return unitIs(ctx, "active", "enabled") }))
	text := check.Must(os.ReadFile("/usr/bin/kubelet"))
	check.OK(check.That(strings.HasPrefix(string(text), "#!"), "the program is not that of the package kubelet"))
	check.OK(errors.Join(h.kept(), h.same(ctx)))
	old := check.Must(theUnit(ctx))
	check.Must(apt(ctx, "install", vm.TroupeDeb))
	return errors.Join(unitEnabled(ctx), h.kept(), h.servedAnew(ctx, old))
}

// farewell is what a removal says.
const farewell = "Its pods go on running"

func (h *host) removePackage(ctx context.Context) (err error) {
	defer check.Return(&err)
	const ownDropIn = logindDropIns + "/99-troupe.conf"
	check.OK(check.Err(os.Stat(ownDropIn)))
	said := check.Must(apt(ctx, "remove", "troupe")) // and kubeadm, which needs a kubelet
	_, left := os.Stat(ownDropIn)
	_, program := os.Stat("/usr/bin/kubelet")
	return errors.Join(
		check.That(strings.Contains(said, farewell), "it does not say that pods run on: %s", said),
		check.That(errors.Is(left, os.ErrNotExist), "%s is still there: %v", ownDropIn, left),
		check.That(errors.Is(program, os.ErrNotExist), "the program is still there: %v", program),
		unitIs(ctx, "inactive", ""), noAgent(), h.kept(), h.state(), h.same(ctx))
}

func (h *host) purge(ctx context.Context) (err error) {
	defer check.Return(&err)
	check.Must(apt(ctx, "purge", "troupe"))
	_, queried := run(ctx, "dpkg-query", "-W", "troupe")
	return errors.Join(
		check.That(queried != nil, "dpkg still knows troupe"),
		check.That(!enabled(), "the unit is still enabled, and there is none"),
		h.kept(), h.state(), h.same(ctx))
}

func (h *host) again(ctx context.Context) (err error) {
	defer check.Return(&err)
	check.Must(apt(ctx, "install", vm.TroupeDeb, vm.KubeadmDeb))
	check.Must(run(ctx, "systemctl", "enable", "--now", unitName))
	return errors.Join(h.kept(), h.servedAnew(ctx, unit{}))
}

// kept is nil if the operator's files are as they were.
func (h *host) kept() (err error) {
	files := map[string]string{vm.KubeletSettings: operatorSettings}
	for name, text := range dropIns {
		files[name] = text
	}
	for name, want := range files {
		text, failed := os.ReadFile(name)
		err = errors.Join(err, failed, check.That(string(text) == want, "%s is %q; was %q", name, text, want))
	}
	return err
}

// state is nil if what the pods and the node live on is there.
func (h *host) state() (err error) {
	for _, name := range []string{
		configuration, manifests + "/fixed.yaml", "/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/pods",
		"/var/lib/kubelet/checkpoints", "/var/lib/kubelet/pki/kubelet-client-current.pem",
	} {
		err = errors.Join(err, check.Err(os.Stat(name)))
	}
	return err
}

// unit is what systemd says of the agent's.
type unit struct {
	active, sub, file string
	pid, restarts     uint32
}

func theUnit(ctx context.Context) (u unit, err error) {
	err = withSystemd(ctx, func(conn *dbus.Conn) error {
		all, err := conn.GetAllPropertiesContext(ctx, unitName)
		u.active, _ = all["ActiveState"].(string)
		u.sub, _ = all["SubState"].(string)
		u.file, _ = all["UnitFileState"].(string)
		u.pid, _ = all["MainPID"].(uint32)
		u.restarts, _ = all["NRestarts"].(uint32)
		return err
	})
	return u, err
}

// unitIs is nil if the unit is in a state, and its file in another.
func unitIs(ctx context.Context, active, file string) error {
	u, err := theUnit(ctx)
	return errors.Join(err, check.That(u.active == active && u.file == file, "the unit is %+v; want %q, %q", u, active, file))
}

func unitEnabled(ctx context.Context) error {
	u, err := theUnit(ctx)
	return errors.Join(err, check.That(u.file == "enabled" && enabled(), "the unit is %+v; want it enabled", u))
}

// enabled says whether the machine would start the unit when it boots.
func enabled() bool {
	_, err := os.Lstat("/etc/systemd/system/multi-user.target.wants/" + unitName)
	return err == nil
}

// noAgent is nil if no process runs the program.
func noAgent() error {
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range all {
		if program, gone := os.Readlink(link); gone == nil && strings.HasPrefix(program, "/usr/bin/troupe") {
			err = errors.Join(err, fmt.Errorf("%s is %s", link, program))
		}
	}
	return err
}

func packageVersion(ctx context.Context) (string, error) {
	return run(ctx, "dpkg-query", "-W", "-f", "${Version}", "troupe")
}

// apt has apt-get do something as an operator does.
func apt(ctx context.Context, what string, args ...string) (said string, err error) {
	return run(ctx, "apt-get", append([]string{what, "-y", "-q"}, args...)...)
}

// run gives all that a program says.
func run(ctx context.Context, program string, args ...string) (said string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	fmt.Printf("--- %s %s\n%s", program, strings.Join(args, " "), out)
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// clusterSettings have an agent that holds logind's lock.
const clusterSettings = `cgroupDriver: systemd
makeIPTablesUtilChains: false
shutdownGracePeriod: 120s
shutdownGracePeriodCriticalPods: 60s
`
