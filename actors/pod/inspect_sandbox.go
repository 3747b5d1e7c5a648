package pod

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.InspectSandbox) effect { return inspectSandbox{InspectSandbox: a} })

type inspectSandbox struct {
	podplan.InspectSandbox
	quiet
}

func (inspectSandbox) kind() string { return "PodSandboxStatus" }

func (a inspectSandbox) begin(p *pod) run {
	rt, files, of := p.deps.Runtime, p.deps.Files, p.want
	if p.facts.Ran(a.ID) {
		files = nil // the file is the containers' now: lines that they have added stay
	}
	pool := ""
	if s := p.facts.Sandbox(a.ID); s != nil && s.State == observed.SandboxReady && p.facts.Found(a.ID) {
		pool = LookPool
	}
	return run{deadline: inspectDeadline, pool: pool, call: func(ctx context.Context, done func(ActionDone)) {
		rt.PodSandboxStatus(ctx, a.ID, func(s observed.Sandbox, err error) {
			d := ActionDone{Result: podplan.Result{Sandbox: &s}, Err: err}
			if err != nil {
				done(d)
				return
			}
			writeHosts(ctx, files, of, s.IPs, func() { done(d) })
		})
	}}
}

// writeHosts writes the pod's addresses to its /etc/hosts before the plan learns the addresses,
// so it precedes the first container start. Containers that are made later bring them (MakeFiles). A
// failure delays nothing: the next inspection retries.
func writeHosts(ctx context.Context, files port.ContainerFiles, of *v1.Pod, ips []string, done func()) {
	if files == nil || len(ips) == 0 {
		done()
		return
	}
	files.WriteHosts(ctx, port.WriteHosts{Pod: of, IPs: ips}, func(error) { done() })
}

func (a inspectSandbox) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.unseen(ctx, a.kind(), p.name(), f)
}
