package node

import (
	"context"
	"errors"
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
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/internal/again"
	"github.com/troupe-dev/troupe/supervisor/internal/healthz"
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

// shownConfig is the configuration as the node has it: with the cgroup driver of the runtime.
func (d *nodeDaemon) shownConfig() *kubelet.KubeletConfiguration {
	k := d.Config.Shown()
	if d.own != nil {
		k.CgroupDriver = d.own.settings.Driver.String()
	}
	return k
}

// listenHTTP opens the port for the apiserver and kubectl, and the read-only one, if they are enabled.
func (d *nodeDaemon) listenHTTP() error {
	into, err := d.openStreams()
	if err != nil {
		return err
	}
	read, err := d.metricRoutes()
	if err != nil {
		return err
	}
	routes := slices.Concat(d.routes(), into, read)
	if address, ok := d.Config.Server(); ok {
		secure, err := d.listenSecurely(address.String(), routes)
		switch {
		case errors.Is(err, serve.ErrNobodyToAsk) && d.Config.Standalone():
			d.Log.Info().Msg("the HTTPS server is off: " + err.Error())
		case err != nil:
			return err
		default:
			d.servers = append(d.servers, secure.serve)
			d.port = int32(address.Port())
		}
	}
	p := d.Config.Kubelet().ReadOnlyPort
	if p <= 0 {
		return nil
	}
	server, err := serve.Listen(serve.Config{
		Address: net.JoinHostPort(d.Config.Kubelet().Address, strconv.Itoa(int(p))), Node: d.name, Routes: routes,
		Observe: d.counters.Served, Around: d.traces.Around(), Log: d.Log,
	})
	if err != nil {
		return err
	}
	d.servers = append(d.servers, server.Serve)
	return nil
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

func (d *nodeDaemon) listenSecurely(address string, routes []serve.Route) (*secure, error) {
	k, access := d.Config.Kubelet(), accessOf(d.Config)
	if d.client != nil {
		access.Reviewer = d.client
	}
	may, err := serve.NewAccess(access)
	if err != nil {
		return nil, err
	}
	out := &secure{}
	if out.certificate, err = d.certificate(k); err != nil {
		return nil, err
	}
	if signedServer(d.Config) {
		d.counters.ServerCertificate(out.certificate.Get)
	}
	tls, err := serve.TLS(out.certificate, k)
	if err != nil {
		return nil, err
	}
	may.Ask(tls)
	out.server, err = serve.Listen(serve.Config{
		Address: address, Node: d.name, TLS: tls, Routes: routes, Observe: d.counters.Served, Around: d.traces.Around(),
		Log: d.Log, Authenticator: may.Authenticator, Authorizer: may.Authorizer,
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
func (d *nodeDaemon) certificate(k *kubelet.KubeletConfiguration) (serve.Certificate, error) {
	dir := certDir(d.Config)
	switch {
	case k.ServerTLSBootstrap && d.client != nil:
		until, err := untilSigned(k)
		if err != nil {
			return nil, err
		}
		return serve.Requested(serve.RequestedConfig{
			Until: until, Dir: dir, Node: d.name, Signer: d.client, Draw: rand.Float64,
			Failed: d.counters.ServerRenewals(), Rotated: d.counters.ServerRotations(), Log: d.Log,
			Addresses: d.nodeAddresses, DNSOnly: d.Config.Gates().Enabled("AllowDNSOnlyNodeCSR"),
		})
	case k.TLSCertFile != "":
		return serve.FromFiles(k.TLSCertFile, k.TLSPrivateKeyFile)
	default:
		seldom := d.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Hour})
		return serve.SelfSigned(dir, d.name, d.machine.addresses.now, func(err error) {
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
func (d *nodeDaemon) routes() []serve.Route {
	k := d.Config.Kubelet()
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
	gates := d.Config.Gates()
	routes = append(routes, d.systemLogs(*k.EnableSystemLogHandler, *k.EnableSystemLogQuery)...)
	routes = append(routes,
		serve.ContainerLogsRoute(serve.LogsConfig{
			Find: d.find, Runtime: d.runtime.Runtime, SplitStreams: gates.Enabled("PodLogsQuerySplitStreams"),
			Watcher: &crilog.Watcher{},
		}),
		serve.RunningPodsRoute(d.runtime.Runtime), serve.ConfigzRoute(d.shownConfig()), profiling, verbosity)
	if runtime, ok := d.runtime.Runtime.(port.Checkpointer); ok && gates.Enabled("ContainerCheckpoint") {
		routes = append(routes, serve.CheckpointRoute(serve.CheckpointConfig{
			Find: d.find, Runtime: runtime, Dir: filepath.Join(d.rootDir(), checkpointsDir), Now: time.Now,
		}))
	}
	if gates.Enabled("ComponentFlagz") {
		routes = append(routes, serve.FlagzRoute(d.Flags))
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
		d.Log.Warn().Str("error", err.Error()).Msg("cannot serve /logs/")
		return []serve.Route{off}
	}
	return routes
}

// checks are those of the port's health endpoint.
func (d *nodeDaemon) checks() []healthz.Check {
	return []healthz.Check{{Name: "syncloop", Check: d.live.check}}
}

// healthPatience is how long the podview actor may take to find pods.
const healthPatience = 10 * time.Second

// find asks the podview actor; see serve.Find.
func (d *nodeDaemon) find(ctx context.Context, namespace, name string) ([]*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	return ask(ctx, "podview", func(reply func([]*v1.Pod)) {
		d.agent.Look(podview.Find{Namespace: namespace, Name: name, Reply: reply})
	})
}
