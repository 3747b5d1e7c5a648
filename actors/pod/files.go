package pod

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/lastwords"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// writeHosts says in the pod's /etc/hosts what its addresses are, before anybody
// knows them: a container is started only then. That it failed keeps nobody
// waiting, and is tried again with the next look.
func (p *pod) writeHosts(ctx context.Context, of *v1.Pod, ips []string, done func()) {
	if p.deps.Files == nil || len(ips) == 0 {
		done()
		return
	}
	p.deps.Files.WriteHosts(ctx, port.WriteHosts{Pod: of, IPs: ips}, func(error) { done() })
}

// lastWords adds what a container said at its end to what the runtime says of it.
func (p *pod) lastWords(ctx context.Context, of *v1.Pod, spec *v1.Container, c *observed.Container, done func()) {
	if p.deps.Files == nil {
		done()
		return
	}
	r := port.LastWords{Pod: of, Container: spec.Name, Attempt: c.Attempt, FromLog: lastwords.FromLog(spec.TerminationMessagePolicy, c)}
	p.deps.Files.LastWords(ctx, r, func(said string, err error) {
		if err != nil {
			said = "Error on reading termination message: " + err.Error()
		}
		c.Message = lastwords.Message(c.Message, said)
		done()
	})
}
