package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/supervisor/again"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/healthz"
	"github.com/troupe-dev/troupe/supervisor/host"
	"github.com/troupe-dev/troupe/supervisor/klogsink"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/supervisor/serve/crilog"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// The server's answers for disabled endpoints.
const (
	debuggingOff = "Debug endpoints are disabled."
	profilingOff = "profiling endpoint is disabled."
	verbosityOff = "flags endpoint is disabled."

	systemLogsOff = "logs endpoint is disabled."
	systemLogDir  = "/var/log"
)

// serving is what the HTTPS server and the read-only one are made of.
type serving struct {
	options Options
	machine *machine
	runtime port.Runtime
	client  *kube.Client // nil: no apiserver
	rootDir string
	host    *host.Host
}

// shown is the configuration as the node has it: with the cgroup driver of the runtime.
func (s *serving) shown() *kubelet.KubeletConfiguration {
	k := s.options.Config.Shown()
	if s.machine.own != nil {
		k.CgroupDriver = s.machine.own.settings.Driver.String()
	}
	return k
}

// listenHTTP opens the port for the apiserver and kubectl, and the read-only one, if they
// are enabled. It returns their servers, and sets the port in the Node object.
func (d *nodeDaemon) listenHTTP(s serving) ([]func(context.Context) error, error) {
	c := s.options.Config
	into, end, err := d.openStreams(s)
	if err != nil {
		return nil, err
	}
	read, err := d.metricRoutes(s)
	if err != nil {
		return nil, errors.Join(err, release([]func(context.Context) error{end}))
	}
	routes := slices.Concat(d.routes(s), into, read)
	all := []func(context.Context) error{end}
	if address, ok := c.Server(); ok {
		secure, err := d.listenSecurely(s, address.String(), routes)
		switch {
		case errors.Is(err, serve.ErrNobodyToAsk) && c.Standalone():
			d.log.Info().Msg("the HTTPS server is off: " + err.Error())
		case err != nil:
			return nil, errors.Join(err, release(all))
		default:
			all = append(all, secure.serve)
			s.machine.port = int32(address.Port())
		}
	}
	if p := c.Kubelet().ReadOnlyPort; p > 0 {
		server, err := serve.Listen(serve.Config{
			Address: net.JoinHostPort(c.Kubelet().Address, strconv.Itoa(int(p))), Node: d.name, Routes: routes,
			Observe: d.counters.Served, Around: d.traces.Around(), Log: d.log,
		})
		if err != nil {
			return nil, errors.Join(err, release(all))
		}
		all = append(all, server.Serve)
	}
	return all, nil
}

// secure is the HTTPS server with what keeps it good.
type secure struct {
	server      *serve.Server
	certificate serve.Certificate
}

func (s *secure) serve(ctx context.Context) error {
	var beside sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	beside.Go(func() { again.Run(ctx, func() { s.certificate.Run(ctx) }, rescue.Answered) })
	err := s.server.Serve(ctx)
	cancel()
	beside.Wait()
	return err
}

func (d *nodeDaemon) listenSecurely(s serving, address string, routes []serve.Route) (*secure, error) {
	k, access := s.options.Config.Kubelet(), accessOf(s.options.Config)
	if s.client != nil {
		access.Reviewer = s.client
	}
	may, err := serve.NewAccess(access)
	if err != nil {
		return nil, err
	}
	out := &secure{}
	if out.certificate, err = d.certificate(s, k); err != nil {
		return nil, err
	}
	if signedServer(s.options.Config) {
		d.counters.ServerCertificate(out.certificate.Get)
	}
	tls, err := serve.TLS(out.certificate, k.TLSMinVersion, k.TLSCipherSuites)
	if err != nil {
		return nil, err
	}
	may.Ask(tls)
	out.server, err = serve.Listen(serve.Config{
		Address: address, Node: d.name, TLS: tls, Routes: routes, Observe: d.counters.Served, Around: d.traces.Around(),
		Log: d.log, Authenticator: may.Authenticator, Authorizer: may.Authorizer,
	})
	return out, err
}

// accessOf says who may use the HTTPS server. It has no apiserver yet.
func accessOf(c config.Config) serve.AccessConfig {
	return serve.AccessConfig{Authentication: c.Kubelet().Authentication, Authorization: c.Kubelet().Authorization}
}

// serverFiles says what is wrong with the files that the HTTPS server reads: the authority of its clients, and its
// certificates.
func serverFiles(c config.Config) error {
	if _, on := secured(c); !on {
		return nil
	}
	k := c.Kubelet()
	// Only the authority: nobody is asked.
	_, err := serve.NewAccess(serve.AccessConfig{
		Authentication: kubelet.KubeletAuthentication{X509: k.Authentication.X509},
		Authorization:  kubelet.KubeletAuthorization{Mode: kubelet.KubeletAuthorizationModeAlwaysAllow},
	})
	switch {
	case err != nil:
		return err
	case signedServer(c):
		if _, err = untilSigned(k); err == nil {
			_, err = serve.RequestedIn(certDir(c)).Load()
		}
	case k.TLSCertFile != "":
		_, err = serve.FromFiles(k.TLSCertFile, k.TLSPrivateKeyFile)
	}
	return err
}

// signedServer says whether the cluster signs the certificate of the HTTPS server.
func signedServer(c config.Config) bool { return c.Kubelet().ServerTLSBootstrap && !c.Standalone() }

// certificate is what the server shows: what the configuration names, what the
// cluster signs, or one of its own making.
func (d *nodeDaemon) certificate(s serving, k *kubelet.KubeletConfiguration) (serve.Certificate, error) {
	dir := certDir(s.options.Config)
	switch {
	case k.ServerTLSBootstrap && s.client != nil:
		until, err := untilSigned(k)
		if err != nil {
			return nil, err
		}
		return serve.Requested(serve.RequestedConfig{
			Until: until, Dir: dir, Node: d.name, Signer: s.client, Draw: rand.Float64,
			Failed: d.counters.ServerRenewals(), Log: d.log,
			Addresses: d.nodeAddresses, DNSOnly: s.options.Config.Gates().Enabled("AllowDNSOnlyNodeCSR"),
		})
	case k.TLSCertFile != "":
		return serve.FromFiles(k.TLSCertFile, k.TLSPrivateKeyFile)
	default:
		seldom := d.log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Hour})
		return serve.SelfSigned(dir, d.name, s.machine.addresses.now, func(err error) {
			seldom.Warn().Str("error", err.Error()).
				Msg("cannot renew the certificate of the HTTPS server: clients are shown the old one; retrying")
		})
	}
}

// untilSigned is the pair of tlsCertFile, which is shown until the cluster has signed a certificate
// (serverTLSBootstrap); nil if there is none. The files may be missing then.
func untilSigned(k *kubelet.KubeletConfiguration) (serve.Certificate, error) {
	if k.TLSCertFile == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	pair, err := serve.FromFiles(k.TLSCertFile, k.TLSPrivateKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	return pair, err
}

// nodeAddresses are those that the node has in the apiserver, whoever has set them: clients reach it by these.
func (d *nodeDaemon) nodeAddresses() []v1.NodeAddress {
	if now := d.addresses.Load(); now != nil {
		return *now
	}
	return nil
}

// routes are all that there is.
func (d *nodeDaemon) routes(s serving) []serve.Route {
	k := s.options.Config.Kubelet()
	routes := append([]serve.Route{serve.PodsRoute(d.find)},
		serve.HealthzRoutes(healthz.Handler(d.checks(), d.counters.Healthcheck))...)
	if !*k.EnableDebuggingHandlers {
		for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/runningpods",
			"/debug/pprof/", "/logs/"} {
			routes = append(routes, serve.Disabled(serve.Route{Path: path, Subresources: serve.Proxy}, debuggingOff))
		}
		return routes
	}
	profiling := serve.ProfilingRoute(config.ShownCommand(os.Args))
	verbosity := serve.VerbosityRoute(klogsink.ParseVerbosity)
	if !*k.EnableProfilingHandler {
		profiling = serve.Disabled(profiling, profilingOff)
	} else if k.EnableContentionProfiling {
		goruntime.SetBlockProfileRate(1)
	}
	if !*k.EnableDebugFlagsHandler {
		verbosity = serve.Disabled(verbosity, verbosityOff)
	}
	gates := s.options.Config.Gates()
	routes = append(routes, d.systemLogs(*k.EnableSystemLogHandler, *k.EnableSystemLogQuery)...)
	routes = append(routes,
		serve.ContainerLogsRoute(serve.LogsConfig{
			Find: d.find, Runtime: s.runtime, SplitStreams: gates.Enabled("PodLogsQuerySplitStreams"),
			Watcher: &crilog.Watcher{},
		}),
		serve.RunningPodsRoute(s.runtime), serve.ConfigzRoute(s.shown()), profiling, verbosity)
	if runtime, ok := s.runtime.(port.Checkpointer); ok && gates.Enabled("ContainerCheckpoint") {
		routes = append(routes, serve.CheckpointRoute(serve.CheckpointConfig{
			Find: d.find, Runtime: runtime, Dir: filepath.Join(s.rootDir, checkpointsDir), Now: time.Now,
		}))
	}
	if gates.Enabled("ComponentFlagz") {
		routes = append(routes, serve.FlagzRoute(s.options.Flags))
	}
	if gates.Enabled("ComponentStatusz") {
		routes = append(routes, serve.StatuszRoute(version.Kubernetes(), d.started, routes))
	}
	return routes
}

// systemLogs are the files that the system logs to, and with query its journal.
func (d *nodeDaemon) systemLogs(on, query bool) []serve.Route {
	off := serve.Disabled(serve.Route{Path: "/logs/", Subresources: serve.Log}, systemLogsOff)
	if !on {
		return []serve.Route{off}
	}
	routes, err := serve.SystemLogsRoutes(systemLogDir, query)
	if err != nil { // this host has none
		d.log.Warn().Str("error", err.Error()).Msg("cannot serve /logs/")
		return []serve.Route{off}
	}
	return routes
}

// checks are those of the port's health endpoint.
func (d *nodeDaemon) checks() []healthz.Check {
	return []healthz.Check{{Name: "syncloop", Check: d.live.check}}
}

// find asks the podview actor; see serve.Find.
func (d *nodeDaemon) find(ctx context.Context, namespace, name string) ([]*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	got := make(chan []*v1.Pod, 1)
	d.agent.Look(podview.Find{
		Namespace: namespace, Name: name, Reply: func(p []*v1.Pod) { got <- p },
	})
	select {
	case p := <-got:
		return p, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the podview actor does not answer: %w: see `troupe tree`", ctx.Err())
	}
}
