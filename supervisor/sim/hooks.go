package sim

import (
	"strings"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/supervisor/agent"
)

// intercept is Message for the kernel, nil for none.
func (h *Hooks) intercept() func(from, to string, m any) kernel.Fate {
	message := h.Message
	if message == nil {
		return nil
	}
	return func(from, to string, m any) kernel.Fate { return message(agent.NodeOf(from), from, to, m) }
}

// within is Within for the kernel, nil for none.
func (h *Hooks) within() func(actor string, m any, k int) {
	within := h.Within
	if within == nil {
		return nil
	}
	return func(actor string, m any, k int) {
		name := ""
		if i := strings.LastIndexByte(actor, '/'); i >= 0 {
			name = actor[i+1:]
		}
		within(agent.NodeOf(actor), name, m, k)
	}
}
