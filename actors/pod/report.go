package pod

import (
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// report tells pods what users should see, if it has changed.
func (p *pod) report(_ *kernel.Context[Message], in podplan.Input, out podplan.Output) {
	if p.probed.waits() {
		return
	}
	status := podstatus.Compute(podstatus.Input{
		Plan: in, Out: out, Previous: p.status, HostIPs: p.deps.HostIPs, RuntimeName: p.deps.RuntimeName,
	})
	same := p.status != nil && podstatus.Equal(p.status, &status)
	if same && p.reported && p.told == p.life {
		return
	}
	if !same {
		kept := status // on the heap only if it is kept
		p.status = &kept
	}
	p.reported, p.told = true, p.life
	p.deps.Report(Report{UID: p.uid, Status: p.status, Life: p.life.String()})
}
