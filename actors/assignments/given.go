package assignments

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// readGiven is what the state file of devices has. What it does not say is not known to anybody. One that can't be
// read is as one that is damaged: only pods that have devices are affected.
func (a *assignments) readGiven(ctx *kernel.Context[Message], c *checkpoint.Content) devicestate.Grants {
	data := deviceFile.Take(ctx.Log(), c)
	if data == nil {
		return devicestate.Grants{}
	}
	s, err := devicestate.Parse(data)
	if err != nil {
		ctx.Log().Error().Str("checkpoint", devicestate.Name).Str("error", err.Error()).
			Msg("checkpoint is damaged; " + deviceFile.Without)
		return devicestate.Grants{}
	}
	return s.Grants()
}

// formatGiven is the state file of devices. What plugins have not answered yet is not in it.
func (a *assignments) formatGiven() []byte {
	given := maps.Clone(a.given)
	for uid, q := range a.requests { // order-free: a map
		if q.taken {
			given[uid] = devicestate.Without(given[uid], func(container string, g devicestate.Grant) bool {
				return q.fresh[decide.Key{Container: container, Resource: g.Resource}]
			})
		}
	}
	return devicestate.Format(a.snapshot.Inventory.Registered(), given)
}

// devicesOf is what the containers of a pod are created with for their devices, and why that of some can't be read, by
// their names.
func (a *assignments) devicesOf(uid types.UID) (out map[string]*decide.Given, bad map[string]error) {
	out, bad = map[string]*decide.Given{}, map[string]error{}
	for name, grants := range a.given[uid] { // order-free: a map again
		given, err := decide.GivenFor(grants)
		switch {
		case err != nil:
			bad[name] = fmt.Errorf("container %q: %w", name, err)
		case given != nil:
			out[name] = given
		}
	}
	return out, bad
}

// firstOf is the error of the first container, by name.
func firstOf(bad map[string]error) error {
	return bad[slices.Sorted(maps.Keys(bad))[0]]
}
