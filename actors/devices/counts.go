package devices

import v1 "k8s.io/api/core/v1"

// Counts is told of device plugins, for metrics. It must not block.
type Counts interface {
	// Registered is told of each registration of a plugin.
	Registered(v1.ResourceName)
}
