package node

import (
	"sync"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers"
)

// connectClaims puts the DRA drivers of this machine behind their ports, on a node with an apiserver.
func (d *nodeDaemon) connectClaims() error {
	if d.client == nil {
		return nil
	}
	drivers := dradrivers.New(d.Log, d.counters.DriverCalled)
	d.closers = append(d.closers, drivers.Close)
	d.plugins.ServeDRA(warnOnce(d.Log, d.runtime.version, drivers.Found))
	d.settings.Ports.DRADrivers, d.settings.Ports.ResourceSlices = drivers, d.client.Slices(d.name)
	return nil
}

// preparedClaims is which ResourceClaims are prepared, as of the checkpoint.
func (d *nodeDaemon) preparedClaims() ([]claims.Claim, error) {
	data, err := d.states.Read(claims.FileName)
	if err != nil || data == nil {
		return nil, err
	}
	return claims.Parse(data)
}

// firstWithCDI is the first containerd that takes the devices of a container by their CDI names (CRI CDI_devices).
var firstWithCDI = version.MustParseGeneric("1.7")

// ignoresCDI reports whether a runtime is known to start containers without the devices of claims, and not to say so.
func ignoresCDI(r port.RuntimeVersion) bool {
	v, err := version.ParseGeneric(r.Version)
	return err == nil && r.Name == "containerd" && v.LessThan(firstWithCDI)
}

// warnOnce warns when the first DRA driver registers on a runtime that ignores the devices of claims.
func warnOnce(log zerolog.Logger, r port.RuntimeVersion, found func(port.DRADriver)) func(port.DRADriver) {
	if !ignoresCDI(r) {
		return found
	}
	var once sync.Once
	return func(d port.DRADriver) {
		once.Do(func() {
			log.Warn().Str("driver", d.Name).Str("runtime", r.Name+" "+r.Version).
				Msg("this container runtime does not know CDI: containers start without the devices of ResourceClaims; " +
					"update it to containerd 2")
		})
		found(d)
	}
}
