package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const (
	token     = "conformance"
	apiserver = "https://127.0.0.1:6443" // where the suite has it
	health    = "http://127.0.0.1:10248/healthz"
	startTime = 5 * time.Minute // much, for a busy machine
	stopTime  = time.Minute
	cleanTime = 5 * time.Minute
)

// settings are those that the suite starts a kubelet with, and what a machine with cgroup v1 or swap needs.
const settings = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /
kubeletCgroups: ` + agentCgroup + `
systemCgroups: ` + systemCgroup + `
podCIDR: 10.100.0.0/24
volumeStatsAggPeriod: 10s
fileCheckFrequency: 10s
serializeImagePulls: false
evictionPressureTransitionPeriod: 30s
evictionHard: {memory.available: 250Mi, nodefs.available: 10%%, nodefs.inodesFree: 5%%}
evictionMinimumReclaim: {nodefs.available: 5%%, nodefs.inodesFree: 5%%}
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
readOnlyPort: 10255
staticPodPath: %[1]s/static-pods
volumePluginDir: %[1]s/plugins
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
`

const kubeconfig = `apiVersion: v1
kind: Config
users: [{name: kubelet, user: {token: ` + token + `}}]
clusters: [{name: local, cluster: {server: "` + apiserver + `", insecure-skip-tls-verify: true}}]
contexts: [{name: local, context: {cluster: local, user: kubelet}}]
current-context: local
`

// spec has the suite look at nothing of the machine before it starts.
const spec = "os: Linux\nkernelSpec: {versions: ['.*']}\n"

// node is a machine with one agent, a runtime, and the apiserver of the suite.
type node struct {
	dir, ginkgo     string
	lab             *lab.Lab
	services, agent *lab.Daemon
	mounts          []string // in the places where a kubelet has its files
	made            []string // directories for that which were not there
}

// parts are what nodes are made of.
type parts struct {
	repository string
	suite      lab.NodeSuite
	registry   *lab.Registry
	images     []string
}

// start starts a node. Agent is a program that takes the kubelet's flags.
func (p parts) start(ctx context.Context, dir, agent string) (n *node, err error) {
	n = &node{dir: dir, ginkgo: p.suite.Ginkgo}
	defer func() {
		check.Ended(recover(), &err)
		if err != nil {
			err = errors.Join(err, n.close(ctx))
		}
	}()
	check.OK(errors.Join(os.MkdirAll(n.file("static-pods"), 0o755), link(p.suite.Tests, n.file("e2e_node.test"))))
	for file, text := range map[string]string{
		"config.yaml": fmt.Sprintf(settings, dir), "kubeconfig": kubeconfig, "spec.yaml": spec,
	} {
		check.OK(os.WriteFile(n.file(file), []byte(text), 0o644))
	}
	check.OK(n.bind())
	n.lab = check.Must(lab.New(ctx, lab.Config{
		Dir: n.file("runtime"), Release: lab.Containerd2, Registry: p.registry, Repository: p.repository, NodeNetwork: true,
		Upstream: true, Log: os.Stderr,
	}))
	check.OK(n.lab.Start(ctx))
	check.OK(cgroup.Join(runtimeCgroup, n.lab.PID()))
	check.OK(n.takeLocalImages())
	for _, image := range p.images {
		check.Must(n.lab.Images().PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}}))
	}
	n.services = &lab.Daemon{Name: "the apiserver of the suite", Dir: n.file("services"), Patience: stopTime}
	n.agent = &lab.Daemon{Name: "the agent", Dir: n.file("agent"), Patience: stopTime}
	check.OK(errors.Join(os.MkdirAll(n.services.Dir, 0o755), os.MkdirAll(n.agent.Dir, 0o755)))
	check.OK(n.services.Run(n.tests("--run-services-mode"), nil))
	check.OK(n.await(ctx, n.services, apiserver+"/healthz"))
	// With this name troupe is a node agent.
	check.OK(link(agent, n.file("kubelet")))
	check.OK(n.agent.Run([]string{
		n.file("kubelet"), "--config", n.file("config.yaml"), "--kubeconfig", n.file("kubeconfig"),
		"--root-dir", places["root"], "--container-runtime-endpoint", n.lab.Endpoint(), "--runtime-cgroups", runtimeCgroup,
		"--v", "4",
	}, nil))
	return n, n.await(ctx, n.agent, health)
}

// takeLocalImages has the runtime pull images of localhost:5000 from there: specs run a registry there, in a pod.
func (n *node) takeLocalImages() error {
	const registry = "localhost:5000"
	dir := filepath.Join(n.lab.Dir(), "certs.d", registry)
	return errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte("server = \"http://"+registry+"\"\n"), 0o644))
}

func (n *node) file(name string) string { return filepath.Join(n.dir, name) }

// tests is a command of the suite's binary.
func (n *node) tests(flags ...string) []string {
	return append([]string{n.file("e2e_node.test"), "--bearer-token", token}, flags...)
}

// await waits until a process answers that it is healthy.
func (n *node) await(ctx context.Context, d *lab.Daemon, url string) error {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its key is of today
	}}
	err := lab.Eventually(ctx, startTime, d.Name+" is healthy", func() error {
		if d.Running() != nil {
			return nil // told below
		}
		request := check.Must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
		request.Header.Set("Authorization", "Bearer "+token)
		answer := check.Must(client.Do(request))
		defer answer.Body.Close()
		return check.Is(answer.StatusCode, http.StatusOK, "the status")
	})
	return errors.Join(err, d.Running())
}

// places are where a kubelet has its files, as the suite expects them, and the suite's apiserver has its keys.
var places = map[string]string{
	"root": "/var/lib/kubelet", "logs": "/var/log/pods", "links": "/var/log/containers", "keys": "/var/run/kubernetes",
}

// bind puts directories of the node there, in this mount namespace alone.
func (n *node) bind() (err error) {
	defer check.Return(&err)
	for name, at := range places {
		own := n.file(name)
		check.OK(os.MkdirAll(own, 0o755))
		if os.Mkdir(at, 0o755) == nil {
			n.made = append(n.made, at)
		}
		check.OK(syscall.Mount(own, at, "", syscall.MS_BIND, ""))
		n.mounts = append(n.mounts, at)
		// What is mounted below one is not to be seen below the other.
		for _, kind := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
			check.OK(syscall.Mount("", at, "", kind, ""))
		}
	}
	return nil
}

// close ends all of it and removes what it has made but the logs.
func (n *node) close(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	for _, d := range []*lab.Daemon{n.agent, n.services} {
		if d != nil {
			if e := d.Stop(ctx); e != nil {
				fmt.Println(strings.SplitN(e.Error(), "\n", 2)[0])
			}
		}
	}
	if n.lab != nil {
		err = n.lab.Cleanup(ctx)
	}
	for _, at := range n.mounts {
		err = errors.Join(err, lab.Unmount(at))
	}
	for _, at := range n.made {
		err = errors.Join(err, remove(at))
	}
	for _, own := range []string{"root", "logs", "links", "keys", "static-pods", "plugins"} {
		err = errors.Join(err, os.RemoveAll(n.file(own)))
	}
	return err
}

// link makes a file be another.
func link(to, file string) error { return errors.Join(remove(file), os.Symlink(to, file)) }

func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// run runs specs of the suite, and returns its report. Its log is suite.log.
func (n *node) run(ctx context.Context, procs int, limit time.Duration, filter []string) (_ []outcome, err error) {
	defer check.Return(&err)
	log := check.Must(os.OpenFile(n.file("suite.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))
	defer log.Close()
	report := n.file("report.json")
	check.OK(remove(report))
	args := append([]string{"run", "--no-color", fmt.Sprintf("--procs=%d", procs), "--timeout=" + limit.String(),
		"--output-dir=" + n.dir, "--json-report=report.json"}, filter...)
	args = append(append(args, n.file("e2e_node.test"), "--"), n.tests("--start-services=false", "--prepull-images=false",
		"--system-spec-file="+n.file("spec.yaml"), "--container-runtime-endpoint="+n.lab.Endpoint())[1:]...)
	cmd := exec.Command(n.ginkgo, args...)
	cmd.Stdout, cmd.Stderr = log, log
	suite := check.Must(lab.StartProcess(cmd))
	select {
	case <-suite.Exited(): // with an error if a spec failed: the report says which
	case <-ctx.Done(): // it reports what it has
		check.OK(suite.End(context.WithoutCancel(ctx), syscall.SIGINT, stopTime))
	}
	all, err := readReport(report)
	if err != nil {
		return nil, fmt.Errorf("the suite made no report (%v, see %s): %w", suite.Err(), log.Name(), err)
	}
	return all, n.agent.Running()
}
