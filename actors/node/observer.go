package node

import (
	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/claims"
	placed "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/eviction"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/prepull"
	"github.com/troupe-dev/troupe/actors/shutdown"
)

// Observer is told what happens on a node, for metrics and traces: each actor has its own part of it. It is called by
// actors, so it must not block.
type Observer interface {
	assignments.Counts
	claims.Counts
	devices.Counts
	eviction.Counts
	images.Counts
	apiobjects.Counts
	podset.Counts
	podview.Counts
	prepull.Counts
	shutdown.Counts
	// DevicesChanged is told what device plugins offer, at the start and after each change.
	DevicesChanged(placed.Inventory)
}
