package node

import (
	"errors"
	"fmt"
)

// Validate says what of the configuration is missing, and what needs something else that is not there. The comments at
// the fields say what each needs.
func (c *Config) Validate() error {
	var errs []error
	need := func(what string, is bool) {
		if !is {
			errs = append(errs, errors.New(what+" is missing"))
		}
	}
	p := &c.Ports
	need("Name", c.Name != "")
	need("Ports.Runtime", p.Runtime != nil)
	need("Ports.Host", p.Host != nil)
	need("Ports.Network", p.Network != nil)
	need("Ports.Manifests", p.Manifests != nil)
	need("Ports.Checkpoints", p.Checkpoints != nil)
	need("Ports.Events", p.Events != nil)
	for _, r := range []struct {
		what  string
		is    bool
		other string
		there bool
	}{
		{"Assign", c.Assign != nil, "Ports.States", p.States != nil},
		{"Memory", c.Memory != nil, "Assign", c.Assign != nil},
		{"Ports.DevicePlugins", p.DevicePlugins != nil, "Assign", c.Assign != nil},
		{"Ports.DevicePlugins", p.DevicePlugins != nil, "Ports.DeviceStates", p.DeviceStates != nil},
		{"Ports.DRADrivers", p.DRADrivers != nil, "Ports.API", p.API != nil},
		{"Ports.DRADrivers", p.DRADrivers != nil, "Ports.States", p.States != nil},
		{"Ports.CSI", p.CSI != nil, "Ports.API", p.API != nil},
		{"Ports.API", p.API != nil, "Ports.Facts", p.Facts != nil},
		{"Ports.Logs", p.Logs != nil, "Ports.LogReopener", p.LogReopener != nil},
		{"Cluster.Objects.PodCertificates", c.Cluster.Objects.PodCertificates && p.API != nil, "Cluster.PodKeys",
			c.Cluster.PodKeys != nil},
	} {
		if r.is && !r.there {
			errs = append(errs, fmt.Errorf("%s needs %s, which is missing", r.what, r.other))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configuration of node %q: %w", c.Name, err)
	}
	return nil
}
