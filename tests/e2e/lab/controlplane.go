package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/tests/check"
)

// ControlPlaneConfig says what control plane to start. Dir must be set.
type ControlPlaneConfig struct {
	// Dir holds what it makes: certificates, kubeconfigs, logs, and etcd's data if that can't be in memory. It must be empty
	// or not there.
	Dir string
	// ControllerManager and Scheduler are started as well.
	ControllerManager, Scheduler bool
	// APIServerFlags are given to the apiserver after the lab's own.
	APIServerFlags []string
	// Repository is the checkout to build from. Empty: the one around the working directory.
	Repository string
	// Log is told what takes long. Nil: nobody is.
	Log io.Writer
}

// ControlPlane is etcd and kube-apiserver, and what else was asked for, on free ports of 127.0.0.1.
// The apiserver authorizes by Node and RBAC and has NodeRestriction on. Users are known by client
// certificates of the control plane's own authority.
//
//	StartControlPlane ──► running ──StopAPIServer/KillAPIServer──► etcd and the rest go on
//	                       │   ▲                                            │
//	                     Stop  └─────────────── StartAPIServer ◄────────────┘
//	                       ▼
//	                    nothing runs; Dir keeps the logs
//
// Without a controller manager nobody makes service accounts, so that the admission of pods does
// not ask for any. All processes die with this one. The methods are for one goroutine at a time,
// but for those that return a part of it.
type ControlPlane struct {
	config    ControlPlaneConfig
	authority *authority
	admin     pair
	store     store
	ports     planePorts
	lent      io.Closer // not nil: it is that of [SharePlane], and this gives it back
	// etcd, apiserver, controllers and scheduler, in the order of their start.
	etcd, apiserver, controllers, scheduler *component
}

// planePorts are those of 127.0.0.1 that a control plane listens at.
type planePorts struct {
	Etcd        int `json:"etcd"`
	EtcdPeer    int `json:"etcdPeer"`
	APIServer   int `json:"apiserver"`
	Controllers int `json:"controllers"`
	Scheduler   int `json:"scheduler"`
}

// component is one program of a control plane.
type component struct {
	name    string
	path    string
	args    []string
	logPath string
	// ready asks whether it serves.
	ready   func(context.Context) error
	process *Process // nil: it does not run
	lent    bool     // it runs, in another process: nobody here may stop it
}

const (
	// An apiserver that has little CPU takes its time.
	componentStartTimeout = 3 * time.Minute
	serviceCIDR           = "10.96.0.0/16"
	firstServiceIP        = "10.96.0.1"
)

// StartControlPlane builds what is not built yet, and returns once the apiserver has made the
// objects that it makes itself and all that was asked for is ready.
func StartControlPlane(ctx context.Context, config ControlPlaneConfig) (_ *ControlPlane, err error) {
	defer check.Return(&err)
	c := &ControlPlane{config: config}
	c.config.Dir = check.Must(filepath.Abs(config.Dir))
	if c.config.Repository == "" {
		c.config.Repository = check.Must(Repository())
	}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the control plane: %w", err), c.Stop(ctx))
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(ctx))
	}
	return c, nil
}

// start starts all components, one after another.
func (c *ControlPlane) start(ctx context.Context) (err error) {
	defer check.Return(&err)
	for _, p := range c.components() {
		check.OK(p.start(ctx))
		if p == c.apiserver {
			check.OK(c.awaitNamespace(ctx))
		}
	}
	return nil
}

// components are those that were asked for, in the order of their start.
func (c *ControlPlane) components() []*component {
	var all []*component
	for _, p := range []*component{c.etcd, c.apiserver, c.controllers, c.scheduler} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// prepare builds the programs, makes keys and certificates, chooses ports.
func (c *ControlPlane) prepare(ctx context.Context) (err error) {
	defer check.Return(&err)
	if _, err := os.Stat(c.pki()); err == nil {
		return fmt.Errorf("%s has the keys of another control plane", c.config.Dir)
	}
	for _, dir := range []string{c.pki(), filepath.Join(c.config.Dir, "kubeconfig")} {
		check.OK(os.MkdirAll(dir, 0o755))
	}
	if err := c.makeKeys(); err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	c.store = newStore(c.config.Dir)
	p := &c.ports
	check.OK(freePorts(&p.Etcd, &p.EtcdPeer, &p.APIServer, &p.Controllers, &p.Scheduler))
	etcd := check.Must(BuildEtcd(ctx, c.config.Repository, c.config.Log))
	c.etcd = c.component("etcd", etcd, c.etcdArgs(), c.ask(c.ports.Etcd, "/readyz"))
	apiserver := check.Must(BuildKubernetes(ctx, c.config.Repository, "kube-apiserver", c.config.Log))
	c.apiserver = c.component("kube-apiserver", apiserver, c.apiserverArgs(), c.ask(c.ports.APIServer, "/readyz"))
	if c.config.ControllerManager {
		path := check.Must(BuildKubernetes(ctx, c.config.Repository, "kube-controller-manager", c.config.Log))
		kubeconfig := check.Must(c.Kubeconfig("system:kube-controller-manager"))
		c.controllers = c.component("kube-controller-manager", path, c.controllerArgs(kubeconfig), c.controllersReady)
	}
	if c.config.Scheduler {
		path := check.Must(BuildKubernetes(ctx, c.config.Repository, "kube-scheduler", c.config.Log))
		kubeconfig := check.Must(c.Kubeconfig("system:kube-scheduler"))
		c.scheduler = c.component("kube-scheduler", path, c.schedulerArgs(kubeconfig), c.ask(c.ports.Scheduler, "/readyz"))
	}
	return nil
}

func (c *ControlPlane) component(name, path string, args []string, ready func(context.Context) error) *component {
	return &component{name: name, path: path, args: args, ready: ready, logPath: filepath.Join(c.config.Dir, name+".log")}
}

// start starts a component and waits until it is ready.
func (p *component) start(ctx context.Context) error {
	if p.process != nil || p.lent {
		return fmt.Errorf("%s runs already", p.name)
	}
	if err := p.run(); err != nil {
		return err
	}
	err := p.process.awaitReady(ctx, componentStartTimeout, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return p.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("start %s (see %s): %w\n%s", p.name, p.logPath, err, tail(p.logPath, 2000))
	}
	return nil
}

// run starts the process, whose output goes to the log.
func (p *component) run() error {
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if p.process, err = StartProcess(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	return nil
}

func (p *component) end(ctx context.Context, signal syscall.Signal) error {
	if p.lent {
		return fmt.Errorf("stop %s: it is that of go tool task lab: the test needs a control plane of its own", p.name)
	}
	if p.process == nil {
		return nil
	}
	if err := p.process.End(ctx, signal, stopTimeout); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	p.process = nil
	return nil
}

// Stop ends all that runs, the last started first, and removes etcd's data. It can be called in any state and again.
// One that is lent is only given back.
func (c *ControlPlane) Stop(ctx context.Context) error {
	if c.lent != nil {
		return c.lent.Close()
	}
	if err := c.end(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	return c.store.remove()
}

func (c *ControlPlane) end(ctx context.Context, signal syscall.Signal) error {
	var err error
	all := c.components()
	for i := len(all) - 1; i >= 0; i-- {
		err = errors.Join(err, all[i].end(ctx, signal))
	}
	return err
}

// StopAPIServer ends the apiserver as an administrator would (SIGTERM). The others go on.
func (c *ControlPlane) StopAPIServer(ctx context.Context) error {
	return c.apiserver.end(ctx, syscall.SIGTERM)
}

// KillAPIServer ends the apiserver by SIGKILL. The others go on.
func (c *ControlPlane) KillAPIServer(ctx context.Context) error {
	return c.apiserver.end(ctx, syscall.SIGKILL)
}

// StartAPIServer starts an apiserver that was stopped, at the same address, and returns once it is
// ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error { return c.apiserver.start(ctx) }

// RestartAPIServer is StopAPIServer and StartAPIServer.
func (c *ControlPlane) RestartAPIServer(ctx context.Context) error {
	if err := c.StopAPIServer(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// Backup keeps what is in the store, with apiserver and store stopped meanwhile. It replaces an earlier
// backup.
func (c *ControlPlane) Backup(ctx context.Context) error {
	return c.withStoreStopped(ctx, c.store.data(), c.store.backup())
}

// Restore puts what Backup kept into the store's place, as an administrator does: all components are
// stopped and started. Later changes are lost, and the store's revision goes back.
func (c *ControlPlane) Restore(ctx context.Context) error {
	return c.withStoreStopped(ctx, c.store.backup(), c.store.data())
}

// withStoreStopped copies a directory over another one while no component runs.
func (c *ControlPlane) withStoreStopped(ctx context.Context, from, to string) (err error) {
	defer check.Return(&err)
	check.OK(c.end(ctx, syscall.SIGTERM))
	check.OK(os.RemoveAll(to))
	check.OK(os.CopyFS(to, os.DirFS(from)))
	if err := os.Chmod(to, 0o700); err != nil { // etcd wants no others in
		return err
	}
	for _, p := range c.components() {
		check.OK(p.start(ctx))
	}
	return nil
}

// APIServerPID is the apiserver's process ID, or 0 if it does not run.
func (c *ControlPlane) APIServerPID() int {
	if c.apiserver.process == nil {
		return 0
	}
	return c.apiserver.process.PID()
}

// Address is the apiserver's host:port.
func (c *ControlPlane) Address() string { return loopback(c.ports.APIServer) }

// URL is the apiserver's address as a kubeconfig has it.
func (c *ControlPlane) URL() string { return "https://" + c.Address() }

// AdminConfig is a new configuration of a client that may do everything: for a test's own use, and
// never for the agent that it tests. It has no limit of requests a second.
func (c *ControlPlane) AdminConfig() *rest.Config {
	return &rest.Config{
		Host: c.URL(), UserAgent: "lab", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem(), CertData: c.admin.cert, KeyData: c.admin.key},
	}
}

// LogTails is the end of each component's log, at most n bytes of each.
func (c *ControlPlane) LogTails(n int) string {
	text := ""
	for _, p := range c.components() {
		text += fmt.Sprintf("--- %s\n%s\n", p.name, tail(p.logPath, n))
	}
	return text
}

// tail is the end of a file, at most n bytes, or why it can't be read.
func tail(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-n):])
}

// awaitNamespace waits for what the apiserver makes by itself a moment after it says that it is
// ready: clients want a namespace to be there.
func (c *ControlPlane) awaitNamespace(ctx context.Context) error {
	get := c.ask(c.ports.APIServer, "/api/v1/namespaces/default")
	return Eventually(ctx, componentStartTimeout, "namespace default", func() error { return get(ctx) })
}

// controllersReady also waits for the service account that admission adds to every pod.
func (c *ControlPlane) controllersReady(ctx context.Context) error {
	if err := c.ask(c.ports.Controllers, "/healthz")(ctx); err != nil {
		return err
	}
	return c.ask(c.ports.APIServer, "/api/v1/namespaces/default/serviceaccounts/default")(ctx)
}

// ask makes a GET at a loopback port, as the administrator.
func (c *ControlPlane) ask(port int, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.request(ctx, http.MethodGet, port, path, nil)
		return err
	}
}

// ForControlPlaneTest starts a control plane for one test, or for one package of tests, and stops
// it after; if the test failed, it shows the ends of the logs.
func ForControlPlaneTest(t testing.TB, config ControlPlaneConfig) *ControlPlane {
	t.Helper()
	Need(t, GoToolchain)
	if config.Dir == "" {
		config.Dir = t.TempDir()
	}
	if config.Log == nil {
		config.Log = t.Output()
	}
	ctx, cancel := context.WithTimeout(context.Background(), BuildTime)
	defer cancel()
	c := check.Value(StartControlPlane(ctx, config))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
		if t.Failed() {
			t.Logf("the control plane's last words:\n%s", c.LogTails(3000))
		}
	})
	return c
}
