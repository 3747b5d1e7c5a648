package pod

import (
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// report tells pods what users should see, if it has changed.
func (p *pod) report(_ *kernel.Context[Message], in podplan.Input, out podplan.Output) {
	status := podstatus.Compute(podstatus.Input{
		Plan: in, Out: out, Previous: p.status, HostIPs: p.deps.HostIPs, RuntimeName: p.deps.RuntimeName,
	})
	doing := p.doing()
	life := p.life.String()
	if p.reported.life == life && slices.Equal(p.reported.doing, doing) && p.status != nil && podstatus.Equal(p.status, &status) {
		return
	}
	p.status = &status
	p.reported = reported{life, doing}
	p.deps.Report(Report{UID: p.uid, Status: status, Life: life, Doing: doing})
}

// reported is what pods was told beside the status.
type reported struct {
	life  string
	doing []string
}

// doing names the actions under way, for people.
func (p *pod) doing() []string {
	if len(p.busy) == 0 {
		return nil
	}
	out := make([]string, 0, len(p.busy))
	for _, a := range p.busy { // order-free: sorted below
		out = append(out, strings.TrimSpace(actionKind(a)+" "+p.objectOf(a)))
	}
	slices.Sort(out)
	return out
}
