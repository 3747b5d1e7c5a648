package node

import (
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors/decide/devices"
)

// inventory is what device plugins offer, for those who ask from outside of the actors.
type inventory struct {
	now atomic.Pointer[devices.Inventory]
}

func (i *inventory) set(now devices.Inventory) { i.now.Store(&now) }

func (i *inventory) of() devices.Inventory {
	if now := i.now.Load(); now != nil {
		return *now
	}
	return nil
}
