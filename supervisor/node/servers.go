package node

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/iptables"
	"github.com/troupe-dev/troupe/supervisor/internal/eventlog"
	"github.com/troupe-dev/troupe/supervisor/internal/healthz"
	"github.com/troupe-dev/troupe/supervisor/podresources"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

// keptEvents is how many events the agent remembers, healthzPeriod is how often it tries to serve a health endpoint
// that can't be served, which is a kubelet's.
const (
	keptEvents    = 1000
	healthzPeriod = 5 * time.Second
)

// listen opens the servers' sockets and ports, so that one in use is found before the actors start.
func (d *nodeDaemon) listen(context.Context) (err error) {
	if d.recorder, err = timeline.New(timeline.Default(d.name)); err != nil {
		return err
	}
	d.events = eventlog.New(d.Log, keptEvents)
	for _, open := range []func() error{d.listenAdmin, d.listenHTTP, d.listenPodResources, d.rotateCertificates} {
		if err := open(); err != nil {
			return err
		}
	}
	k := d.Config.Kubelet()
	if k.KubeletCgroups != "" || k.SystemCgroups != "" {
		d.servers = append(d.servers, d.keepCgroups)
	}
	if d.onRealMachine() && *k.MakeIPTablesUtilChains {
		d.servers = append(d.servers, func(ctx context.Context) error {
			iptables.New(iptables.Config{Log: d.Log}).Run(ctx)
			return nil
		})
	}
	return nil
}

// release closes servers that will not run.
func release(servers []func(context.Context) error) (err error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range servers {
		err = errors.Join(err, s(ended))
	}
	return err
}

// listenAdmin takes the admin socket, and the health endpoint's port, which may be had later.
func (d *nodeDaemon) listenAdmin() error {
	server, err := admin.Listen(admin.Config{
		Socket: admin.SocketIn(d.rootDir()), Tree: d.tree, Pods: d.shown,
		Events:   func(p string) []admin.EventView { return shownEvents(d.events.Of(p)) },
		Timeline: d.recorder.Story, Gone: d.recorder.List, Letters: d.recorder.Letters,
	})
	if err != nil {
		return err
	}
	d.servers = append(d.servers, server.Serve)
	addr, ok := d.Config.Healthz()
	if !ok {
		return nil
	}
	// No checks, as with a kubelet: programs kill an agent whose first look here fails.
	c := healthz.Config{Address: addr, Observe: d.counters.Healthcheck}
	if hz, err := healthz.Listen(c); err == nil {
		d.servers = append(d.servers, hz.Serve)
	} else {
		d.Log.Warn().Str("error", err.Error()).Msg("the health endpoint cannot be served; retrying every 5 seconds")
		d.servers = append(d.servers, func(ctx context.Context) error { return healthz.Later(ctx, c, healthzPeriod) })
	}
	return nil
}

// listenPodResources takes the podresources socket.
func (d *nodeDaemon) listenPodResources() error {
	server, err := podresources.Listen(podresources.Config{
		Socket: podresources.SocketIn(d.rootDir()), Pods: d.find, Devices: d.givenDevices, Inventory: d.inventory.of,
		CPUs: d.ownCPUs, Allocatable: d.settings.Assign.Allocatable(), Claims: d.preparedClaims,
		Memory: d.ownMemory, AllocatableMemory: d.settings.Memory.Allocatable(),
		Ended: !d.Config.Gates().Enabled("KubeletPodResourcesListUseActivePods"), Asked: d.counters.PodResourcesAsked,
	})
	if err != nil {
		return err
	}
	d.servers = append(d.servers, server.Serve)
	return nil
}
