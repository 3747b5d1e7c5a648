package node

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/mirrors"
)

// values are what one actor of a node publishes, and others follow (docs/decisions/0129).
type values struct {
	// node is the Node, of nodestatus, or what the machine has in that form, of standalone. resized is the same, once
	// that is not what the agent read at its start. nodeOfVolumes is the Node with what it says of volumes, of nodestatus.
	node, resized, nodeOfVolumes kernel.Published[*v1.Node]
	// statics are the static pods, of podset.
	statics kernel.Published[mirrors.Statics]
	// pressure is what runs short, of eviction.
	pressure kernel.Published[eviction.Conditions]
	// down says whether the machine is shutting down, of shutdown.
	down kernel.Published[bool]
	// plugins are the device plugins, of devices.
	plugins kernel.Published[devices.Snapshot]
	// inUse are the volumes for status.volumesInUse, and csiNode says that the CSINode was written, both of csi.
	inUse   kernel.Published[[]v1.UniqueVolumeName]
	csiNode kernel.Published[struct{}]
}
